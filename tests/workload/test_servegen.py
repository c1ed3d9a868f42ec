"""Requests are drawn from a client's rates and histograms, the same ones for the same seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import Workload
from pellucid.workload.read_any import read_any
from pellucid.workload.servegen import Draw
from tests.conftest import shared_data
from tests.workload.trace_files import DATASET, KEY, TRACE, columns, trace


def drawn(tmp_path: Path, draw: Draw, text: str = TRACE) -> Workload:
    (tmp_path / "a").write_text(text)
    (tmp_path / "b").write_text(DATASET)
    return read_any([tmp_path / "a", tmp_path / "b"], KEY, draw)


def test_a_window_gives_as_many_requests_as_its_rate_says(tmp_path: Path) -> None:
    assert len(drawn(tmp_path, Draw(0, 600, 600))) == 300
    assert len(drawn(tmp_path, Draw(0, 1200, 600))) == 600
    assert len(drawn(tmp_path, Draw())) == 900


def test_without_a_start_the_busiest_span_is_drawn(tmp_path: Path) -> None:
    found = drawn(tmp_path, Draw(0, None, 600))
    assert len(found) == 600
    assert any("from second 1200" in note for note in found.about.notes)


def test_the_seed_decides_and_is_kept(tmp_path: Path) -> None:
    one, same, other = (drawn(tmp_path, Draw(seed)) for seed in (3, 3, 4))
    assert one.requests.equals(same.requests)
    assert not one.requests.equals(other.requests)
    assert (one.about.seed, other.about.seed) == (3, 4)


def test_lengths_have_the_shares_of_the_histogram(tmp_path: Path) -> None:
    counts = Counter(columns(drawn(tmp_path, Draw(1)), "prompt_tokens", "output_tokens"))
    assert counts.keys() == {(100, 5), (200, 5)}
    assert counts[200, 5] / 900 == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 900) ** 0.5)


GAPS = [("0,50,1,Gamma,1.0,1", 1), ("0,50,2,Gamma,0.25,1", 2), ("0,50,1,Weibull,1,1", 1)]


@pytest.mark.parametrize(("line", "cv"), GAPS)
def test_gaps_have_the_variation_of_the_distribution(tmp_path: Path, line: str, cv: float) -> None:
    found = drawn(tmp_path, Draw(2), line + "\n")
    gaps = np.diff(found.requests.column("arrival_ns").to_numpy())
    assert float(gaps.std() / gaps.mean()) == pytest.approx(cv, rel=0.05)


def test_gaps_that_all_underflow_are_even(tmp_path: Path) -> None:
    assert len(drawn(tmp_path, Draw(), "0,0.01,99,Gamma,0.0011,1\n")) == 6


ODD_WINDOWS = ("600,x,1,Gamma,1,1", "600,-1,1,Gamma,1,1", "600,1,1,Pareto,1,1", "600,1", "600,1,1,Gamma,0,1",
               "600,nan,1,Gamma,1,1")  # fmt: skip


@pytest.mark.parametrize("line", ODD_WINDOWS)
def test_a_window_that_cannot_be_is_counted(tmp_path: Path, line: str) -> None:
    assert drawn(tmp_path, Draw(), TRACE + line + "\n").about.left_out == {"unreadable window": 1}


@pytest.mark.parametrize(
    ("text", "draw", "said"),
    [
        (TRACE, Draw(0, 0, 600), "nobody asked anything"), (TRACE, Draw(0, 9e6, 600), "nobody asked anything"),
        ("0,0,0,,0,0\n", Draw(), "nobody asked anything"), ("0,900000,1,Gamma,1,1\n", Draw(), "a shorter --span"),
    ],
)  # fmt: skip
def test_a_span_without_requests_or_with_too_many_is_refused(tmp_path: Path, text: str, draw: Draw, said: str) -> None:
    with pytest.raises(AskedWrongly, match=said):
        drawn(tmp_path, draw, text)


ODD_DATASETS = (DATASET[:-20], '{"0": {"input_tokens": 5, "output_tokens": "{}"}}', DATASET.replace("600", "nan"),
                DATASET.replace("0.75", "1e99"), DATASET.replace("200:", "-200:"),
                DATASET.replace("200:", "99999999999:"))  # fmt: skip


@pytest.mark.parametrize("dataset", ODD_DATASETS)
def test_histograms_that_do_not_read_are_refused(tmp_path: Path, dataset: str) -> None:
    with pytest.raises(AskedWrongly, match="do not read"):
        trace(tmp_path, TRACE, dataset)


def test_a_dataset_of_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no window of its dataset has lengths"):
        trace(tmp_path, TRACE, '{"0": {"input_tokens": "{}", "output_tokens": "{}"}}')


@pytest.mark.parametrize("files", [(TRACE, TRACE), (DATASET, DATASET), (TRACE, DATASET, TRACE)])
def test_files_that_are_no_pair_are_refused(tmp_path: Path, files: tuple[str, ...]) -> None:
    with pytest.raises(AskedWrongly, match="several files are one workload only"):
        trace(tmp_path, *files)


CLIENTS = ("language_m-large_chunk-109", "language_m-large_chunk-74", "language_m-mid_chunk-106",
           "language_m-mid_chunk-63", "language_m-small_chunk-0", "language_m-small_chunk-15",
           "multimodal_mm-image_chunk-11", "multimodal_mm-image_chunk-32", "reason_deepseek-r1_chunk-50",
           "reason_deepseek-r1_chunk-61")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_every_public_client_can_be_drawn(name: str) -> None:
    pair = [shared_data(f"workload_traces/servegen/{name}-{part}.gz") for part in ("dataset.json", "trace.csv")]
    found = read_any(pair, KEY, Draw(7, None, 600))
    assert len(found) > 50
    assert found.about.left_out == {}
    assert found.requests.column("prompt_tokens").to_numpy().min() > 0

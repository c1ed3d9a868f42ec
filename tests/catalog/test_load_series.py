from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.catalog.load import FOLDER
from pellucid.catalog.load_series import ORDER, exporters, find, read_exporter, scraped
from pellucid.core.units import unit_of

CODES = {"gpu_xid_code"}      # names a thing and measures nothing


def test_every_file_of_the_folder_is_read() -> None:
    assert {p.stem for p in (FOLDER / "series").glob("*.toml")} == set(ORDER)


def test_metrics_have_their_unit_in_their_name() -> None:
    assert [n for n, m in scraped().items() if m.kind != "info" and not unit_of(n) and n not in CODES] == []


def test_every_metric_is_told_by_somebody_or_by_the_scrape() -> None:
    told = {metric for e in exporters().values() for f in e.families.values() for metric in f.names()}
    assert {m for m in scraped() if m not in told and not m.startswith("scrape_")} == {"counter_resets_count"}


def test_no_family_is_in_two_files() -> None:
    names = [n for e in exporters().values() for n in e.families]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("sample", "metric", "suffix"),
    [("vllm:num_requests_running", "running_count", ""), ("vllm:generation_tokens_total", "output_tokens", ""),
     ("vllm:time_to_first_token_seconds_bucket", "ttft_ns", "_bucket"),
     ("vllm:iteration_tokens_total_sum", "step_tokens", "_sum"),
     ("vllm:generation_tokens_created", "output_tokens", "_created"),
     ("vllm:generation_tokens_total_created", "output_tokens", "_created"),
     ("sglang:prompt_tokens_total", "prompt_tokens", ""),
     ("sglang:prompt_tokens_histogram_count", "request_prompt_tokens", "_count")],
)  # fmt: skip
def test_a_sample_finds_its_family(sample: str, metric: str, suffix: str) -> None:
    found = find(sample)
    assert found is not None
    assert (found.family.metric, found.suffix) == (metric, suffix)


@pytest.mark.parametrize("sample", ["go_gc_duration_seconds", "vllm:num_requests_running_bucket", "vllm:", "_total"])
def test_other_samples_find_none(sample: str) -> None:
    assert find(sample) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [('[families]\n"a" = { metric = "nobody_has_this" }', "scraped.toml does not have"),
     ('[families]\n"a" = { metric = "running_count", unit = "s" }', "unit"),
     ('[families]\n"a" = { factor = 2.0 }', "metric, or by and metrics"),
     ('engine = 3\n[families]', "engine")],
)  # fmt: skip
def test_an_odd_file_is_refused_with_its_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "odd.toml").write_text(text)
    with pytest.raises(ValueError, match=f"odd.toml.*{says}"):
        read_exporter(tmp_path / "odd.toml")

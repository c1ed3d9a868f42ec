"""A run of metrics pages, answered: what is said with nothing but pages, and what is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.openmetrics.parse import Sample
from pellucid.collect.openmetrics.rows import Pages
from pellucid.core.clock import Anchor
from pellucid.core.run import RunInfo, write_info
from pellucid.core.units import MS_NS, S_NS
from pellucid.store.read import open_run
from pellucid.store.write import Limits, RunWriter
from pellucid.surface.cli import main
from pellucid.verbs.intake.attach import EVERY_NS, Attach, attach, often_enough
from pellucid.verbs.intake.load import load
from pellucid.verbs.record import RecordInto
from pellucid.verbs.runs import summary
from pellucid.verbs.why import Answer, why
from tests.collect.openmetrics.endpoint import ok, serving

TTFT_S = 0.2


def page(n: int, running: float, waiting: float, kv: float, queue_s: float = 0.15) -> list[Sample]:
    """Page n of an engine that finishes ten requests from page to page."""
    values = {
        "vllm:num_requests_running": running, "vllm:num_requests_waiting": waiting, "vllm:kv_cache_usage_perc": kv,
        "vllm:generation_tokens_total": 400.0 * n,
    }  # fmt: skip
    samples = [Sample(name, {"engine": "0"}, value) for name, value in values.items()]
    samples.append(Sample("vllm:request_success_total", {"finished_reason": "stop"}, 10.0 * n))
    for name, mean_s in (("time_to_first_token_seconds", TTFT_S), ("request_queue_time_seconds", queue_s)):
        samples += [Sample(f"vllm:{name}_sum", {}, mean_s * 10 * n), Sample(f"vllm:{name}_count", {}, 10.0 * n)]
    return samples


def answered(folder: Path, pages: list[list[Sample]]) -> Answer:
    """Pages a second apart."""
    writer = RunWriter(folder, Limits(), lambda: 0)
    write_info(folder, RunInfo(folder.name, 0, [], "http://h/metrics"))
    took = Pages(writer.append, Anchor(0, 0))
    for n, samples in enumerate(pages):
        took.take(samples, "h:8000", n * S_NS)
    took.source("h:8000", "0.32.0", 0)
    writer.close()
    return why(folder)


def test_a_cap_that_binds_is_found_with_the_flag_to_raise_it(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(n, 4, 3, 0.2) for n in range(20)])
    (finding,) = answer["findings"]
    assert finding["id"] == "queue.waiting_with_kv_free"
    assert finding["moves"][0]["setting"] == "--max-num-seqs 7"
    assert [s["id"] for s in finding["symptoms"]] == ["latency.queue_dominates"]
    assert finding["persistence"]["says"] == "in 5 of 5 windows"


def test_a_full_cache_is_found_and_named_as_the_cause(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(n, 4, 3, 0.99) for n in range(20)])
    assert [f["id"] for f in answer["findings"]] == ["kv.cache_full"]


def test_a_healthy_engine_gets_no_finding_and_its_load_in_words(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(n, 2, 0, 0.2, queue_s=0.01) for n in range(20)])
    assert (answer["findings"], answer["healthy"]) == ([], True)
    assert answer["verdict"].startswith("Nothing to fix: 190 requests and 20 metrics pages in 19 s")
    load = answer["load"]
    assert (load["requests_count"], load["output_tokens"], load["output_tokens_per_s"]) == (190, 7600, 400)
    assert (load["ttft_mean_ns"], load["queue_mean_ns"]) == pytest.approx((200 * MS_NS, 10 * MS_NS))
    assert (load["waiting_time_ratio"], load["running_mean_count"], load["kv_used_max_ratio"]) == (0, 2, 0.2)
    assert load["steps_count"] is None


def test_an_engine_at_rest_has_nothing_that_is_not_a_number(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(7, 4, 3, 0.2)] * 20)
    json.dumps(answer, allow_nan=False)
    (finding,) = answer["findings"]
    assert finding["evidence"]["queue_ttft_ratio"] is None


def test_restarts_and_what_has_no_place_are_noted(tmp_path: Path) -> None:
    strange = Sample("acme_depth", {}, 1)
    answer = answered(tmp_path, [page(n, 4, 3, 0.2) for n in range(10)] + [[*page(1, 4, 3, 0.2), strange]])
    assert any(note.startswith("h:8000 began anew in this time") for note in answer["notes"])
    assert any(note.endswith("no place in the catalog: acme_depth") for note in answer["notes"])


def test_a_saved_page_becomes_a_run_of_one_moment(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{s.name} {s.value}\n" for s in page(3, 4, 3, 0.2)))
    loaded = load([tmp_path / "a.txt"], RecordInto(tmp_path / "home"))
    assert (loaded.rows[0]["format"], loaded.rows[0]["engine"]) == ("metrics page", "vllm")
    rows = open_run(loaded.folder).rows("SELECT metric, value FROM metrics ORDER BY metric")
    assert rows == [{"metric": "kv_used_ratio", "value": 0.2}, {"metric": "running_count", "value": 4},
                    {"metric": "waiting_count", "value": 3}]  # fmt: skip


def test_one_page_is_nothing_to_judge(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(1, 4, 3, 0.2)])
    assert answer["verdict"].startswith("Nothing to judge")
    assert answer["findings"] == []


def test_a_burst_of_waiting_did_not_last(tmp_path: Path) -> None:
    answer = answered(tmp_path, [page(n, 4, 3 if n < 5 else 0, 0.2) for n in range(20)])
    said = {c["id"]: c["says"] for c in answer["clear"]}
    assert "did not last" in said["queue.waiting_with_kv_free"]


def test_the_list_of_runs_knows_how_long_it_was(tmp_path: Path) -> None:
    answered(tmp_path, [page(n, 4, 3, 0.2) for n in range(20)])
    row = summary(tmp_path)
    assert (row["duration_ns"], row["steps_count"]) == (19 * S_NS, None)


@pytest.mark.parametrize(
    ("limit_ns", "every_ns"), [(None, EVERY_NS), (3600 * S_NS, EVERY_NS), (60 * S_NS, 3 * S_NS), (S_NS, S_NS // 2)]
)
def test_a_short_look_reads_often(limit_ns: int | None, every_ns: int) -> None:
    assert often_enough(limit_ns) == every_ns


def test_a_run_that_came_to_nothing_leaves_no_folder(tmp_path: Path) -> None:
    with serving((404, "text/plain", "")) as end:
        assert main(["attach", end.name, "--run-folder", str(tmp_path / "r")]) == 1
    assert not (tmp_path / "r").exists()


def test_passwords_of_an_address_are_used_and_not_kept(tmp_path: Path) -> None:
    with serving(ok("vllm:num_requests_running 1\n")) as end:
        how = Attach(RecordInto(tmp_path), 10 * MS_NS)
        done = attach(f"http://ada:secret@{end.name}", how, lambda: end.pages_count > 2)
        assert {h["Authorization"].split()[0] for _, h in end.asked} == {"Basic"}
    kept = b"".join(p.read_bytes() for p in done.folder.iterdir())
    assert b"secret" not in kept and b"ada:" not in kept


@pytest.mark.parametrize(
    ("words", "says"),
    [(["why", "h:1", "--run", "x"], "neither goes with --run"), (["why", "h:1", "--since", "5m"], "is read for --for"),
     (["attach", "h:1", "--header", "nonsense"], "has no colon"), (["why", "--prometheus", "ftp://p"], "HTTP address")],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_why_url_reads_and_answers_in_one_go(tmp_path: Path) -> None:
    text = "".join(f"{s.name} {s.value}\n" for s in page(1, 4, 3, 0.2))
    program = str(Path(sys.executable).with_name("pellucid"))
    with serving(ok(text)) as end:
        done = subprocess.run(
            [program, "why", end.name, "--for", "3s", "--json"], env={"PELLUCID_HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["engine"]["name"] == "vllm"
    assert "reading the metrics page for 3.0 s" in done.stderr

"""GuideLLM's report: all its benchmarks, one after another; what did not succeed is counted, no text is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import write
from tests.workload.trace_files import columns, trace

SECRET = "sk-not-for-a-workload"
LENGTHS = ("arrival_ns", "prompt_tokens", "output_tokens")
ARGS = json.dumps({"body": {"messages": [{"role": "user", "content": SECRET}], "max_completion_tokens": 128,
                            "temperature": 0, "top_p": 0.5}})  # fmt: skip


def request(start_s: float, prompt: int | None = 512, output: int | None = 128, **over: Any) -> dict[str, Any]:
    info = {"conversation_id": None, "status": "completed", "timings": {"request_start": start_s}}
    return {"type_": "generative_request_stats", "request_id": "r", "request_args": ARGS, "output": SECRET,
            "info": info, "input_metrics": {"text_tokens": prompt, "total_tokens": prompt},
            "request_start_time": start_s, "request_end_time": start_s + 2, "prompt_tokens": prompt,
            "output_tokens": output, **over}  # fmt: skip


def benchmark(kind: str, successful: list[Any], incomplete: int = 0, errored: int = 0) -> dict[str, Any]:
    failed = request(1.5, None, None)
    totals = {"successful": len(successful), "incomplete": incomplete, "errored": errored, "total": 9}
    return {"type_": "generative_benchmark", "config": {"strategy": {"type_": kind}, "backend": {"api_key": SECRET}},
            "metrics": {"request_totals": totals}, "requests": {
                "successful": successful, "incomplete": [failed] * incomplete, "errored": [failed] * errored,
                "total": None}}  # fmt: skip


def report(*benchmarks: dict[str, Any]) -> str:
    return json.dumps({"metadata": {"version": 1}, "args": {"api_key": SECRET, "rate": [1.0]},
                       "benchmarks": list(benchmarks)})  # fmt: skip


SWEEP = report(benchmark("synchronous", [request(100.5), request(103.0, 700, 5)], 1),
               benchmark("constant", [request(200.25, 9, 1)], 1, 2))  # fmt: skip


def test_benchmarks_stand_one_after_another(tmp_path: Path) -> None:
    found = trace(tmp_path, SWEEP)
    assert columns(found, *LENGTHS) == [(0, 512, 128), (2_500_000_000, 700, 5), (99_750_000_000, 9, 1)]
    assert columns(found, "max_tokens", "temperature", "top_p")[0] == (128, 0.0, 0.5)
    assert (found.about.format, found.about.read_count) == ("guidellm", 7)
    assert found.about.left_out == {"not ended": 2, "failed": 2}
    assert any("1 synchronous (2 requests), 2 constant (1 requests)" in note for note in found.about.notes)
    assert any("a benchmark's own" in note for note in found.about.notes)
    assert "session" in found.about.missing


def test_no_text_and_no_key_is_kept(tmp_path: Path) -> None:
    write(trace(tmp_path, SWEEP), tmp_path / "w")
    assert SECRET.encode() not in (tmp_path / "w").read_bytes()
    strange = benchmark(f"{SECRET} of ada", [request(1.0)])
    assert SECRET not in str(trace(tmp_path, report(strange, strange)).about)


def test_conversations_are_sessions(tmp_path: Path) -> None:
    info = {"conversation_id": "c-1", "turn_index": 0}
    found = trace(tmp_path, report(benchmark("poisson", [request(1.0, info=info), request(4.5, info=info)])))
    assert columns(found, "think_ns") == [(None,), (1_500_000_000,)]
    assert len(set(columns(found, "session"))) == 1


OLD = {"prompt_tokens": 7, "output_tokens": 3, "start_time": 10.0, "end_time": 11.0, "prompt": "text"}
MIDDLE = {"prompt_tokens": 8, "output_tokens": 3, "request_args": {"max_tokens": 1},
          "scheduler_info": {"request_timings": {"request_start": 12.0, "request_end": 13.0}}}  # fmt: skip


def test_older_reports_are_read(tmp_path: Path) -> None:
    old = {"args": {"strategy": {"type_": "throughput"}}, "requests": {"successful": [OLD, MIDDLE]}}
    assert columns(trace(tmp_path, report(old)), *LENGTHS) == [(0, 7, 3), (2_000_000_000, 8, 3)]


def test_a_sample_of_the_requests_is_told(tmp_path: Path) -> None:
    part = benchmark("constant", [request(1.0)])
    part["metrics"]["request_totals"]["successful"] = 40
    assert any("lists 1 of its 40 successful requests" in n for n in trace(tmp_path, report(part)).about.notes)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (request(1.0, None), "no counts"), (request(1.0, 0), "no prompt"), (request(-1.0), "negative"),
        (request(1.0, -3), "negative"), ({"prompt_tokens": "x"}, "unreadable"), (7, "unreadable"),
        (request(1.0, request_args={"body": {"temperature": -1}}), "unreadable"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_is_counted(tmp_path: Path, odd: object, reason: str) -> None:
    found = trace(tmp_path, report(benchmark("constant", [request(5.0), odd])))
    reason = {"no counts": "without token counts"}.get(reason, reason)
    assert (len(found), found.about.left_out, found.about.read_count) == (1, {reason: 1}, 2)


def test_an_answer_that_was_not_counted_is_null(tmp_path: Path) -> None:
    assert columns(trace(tmp_path, report(benchmark("constant", [request(5.0, 4, None)]))), *LENGTHS) == [(0, 4, None)]


@pytest.mark.slow
def test_a_report_cut_anywhere_gives_its_whole_requests(tmp_path: Path) -> None:
    whole = columns(trace(tmp_path, SWEEP), *LENGTHS)
    seen = set()
    for size in range(100, len(SWEEP), 23):
        try:
            found = trace(tmp_path, SWEEP[:size])
        except AskedWrongly:
            continue
        seen.add(len(found))
        assert columns(found, *LENGTHS) == whole[: len(found)]
        assert found.about.left_out["the rest of a damaged document"] == 1
        assert len(found) + sum(found.about.left_out.values()) == found.about.read_count
    assert seen == {1, 2, 3}


def test_a_report_without_its_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="lists no single request"):
        trace(tmp_path, report(benchmark("constant", [])))


@pytest.mark.parametrize("text", ['{"benchmarks": 7}', '{"benchmarks": [{"requests": 7}]}', '{"benchmarks": ['])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AskedWrongly, match=r"does not read|without any request"):
        trace(tmp_path, text)

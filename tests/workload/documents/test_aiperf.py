"""AIPerf's export is read line by line; what had not ended, failed or warmed up is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from tests.workload.trace_files import columns, trace

START_NS = 1_759_813_207_532_900_363


def line(start_ns: int = 0, isl: int = 550, osl: int = 9, session: str = "s-1", **over: Any) -> str:
    """`over`: fields of the metadata, or `metrics` and `error`."""
    metrics = {"input_sequence_length": {"value": isl, "unit": "tokens"},
               "output_sequence_length": {"value": osl, "unit": "tokens"},
               "inter_chunk_latency": {"value": [4.8, 5.3], "unit": "ms"}}  # fmt: skip
    metadata = {"session_num": 0, "x_request_id": "r", "x_correlation_id": session, "conversation_id": "c",
                "turn_index": 0, "request_start_ns": START_NS + start_ns, "request_ack_ns": None,
                "request_end_ns": START_NS + start_ns + 300, "worker_id": "w", "benchmark_phase": "profiling",
                "was_cancelled": False, "cancellation_time_ns": None}  # fmt: skip
    whole = {"metadata": metadata, "metrics": metrics, "error": None}
    for name, value in over.items():
        (whole if name in whole else metadata)[name] = value
    return json.dumps(whole) + "\n"


TEXT = line(1000, session="s-2") + line() + line(500, 700, 20)


def test_an_export_is_requests_with_sessions_and_think_times(tmp_path: Path) -> None:
    found = trace(tmp_path, TEXT)
    assert (found.about.format, found.about.left_out, found.about.read_count) == ("aiperf", {}, 3)
    wanted = [(0, 550, 9, None), (500, 700, 20, 200), (1000, 550, 9, None)]
    assert columns(found, "arrival_ns", "prompt_tokens", "output_tokens", "think_ns") == wanted
    (first,), (second,), (third,) = columns(found, "session")
    assert first == second != third
    assert any("a benchmark's own" in note for note in found.about.notes)
    assert {"blocks", "temperature", "max_tokens"} <= found.about.missing.keys()


def test_the_servers_count_comes_before_the_clients(tmp_path: Path) -> None:
    metrics = {"input_sequence_length": {"value": 9, "unit": "tokens"}, "usage_prompt_tokens": {"value": 12},
               "usage_completion_tokens": {"value": 4}}  # fmt: skip
    assert columns(trace(tmp_path, line(metrics=metrics)), "prompt_tokens", "output_tokens") == [(12, 4)]


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"benchmark_phase": "warmup"}, "warm-up"), ({"was_cancelled": True, "error": {"code": 499}}, "not ended"),
        ({"error": {"code": 500, "type": "E", "message": "secret"}}, "failed"),
        ({"error": {"code": 500}, "metrics": None}, "failed"), ({"metrics": {}}, "without token counts"),
        ({"isl": 0}, "no prompt"), ({"isl": -4}, "negative"), ({"isl": 1.5}, "unreadable"),
        ({"request_start_ns": "x"}, "unreadable"), ({"request_start_ns": -1}, "negative"),
    ],
)  # fmt: skip
def test_a_record_that_is_no_request_is_counted(tmp_path: Path, over: dict[str, Any], reason: str) -> None:
    found = trace(tmp_path, TEXT + line(**over) + line(9))
    assert (len(found), found.about.left_out, found.about.read_count) == (4, {reason: 1}, 5)
    assert "secret" not in str(found.about)


def test_an_export_cut_anywhere_gives_its_whole_lines(tmp_path: Path) -> None:
    ends = [i for i, c in enumerate(TEXT) if c == "\n"]
    for size in range(ends[0], len(TEXT), 11):
        found = trace(tmp_path, TEXT[:size])
        assert len(found) == sum(size >= end for end in ends)
        assert len(found) + sum(found.about.left_out.values()) == found.about.read_count


INPUTS = ('{"text_input": "Who?", "output_length": 20}\n', '{"session_id": "s", "turns": [{"text": "Who?"}]}\n',
          '{"messages": [{"role": "user", "content": "Who?"}]}\n')  # fmt: skip


@pytest.mark.parametrize("text", INPUTS)
def test_inputs_of_texts_are_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(AskedWrongly, match=r"holds texts, not lengths\. Try: send them with a client"):
        trace(tmp_path, text)


def test_inputs_of_lengths_are_of_mooncakes_kind(tmp_path: Path) -> None:
    found = trace(tmp_path, '{"session_id": "s", "input_length": 300, "output_length": 40}\n'
                            '{"session_id": "s", "delay": 2, "input_length": 150, "output_length": 20}\n')  # fmt: skip
    assert (found.about.format, columns(found, "session", "think_ns")) == (
        "mooncake", [("s", None), ("s", 2_000_000)])  # fmt: skip

"""What clients, gateways and OTLP exporters write: ids and times are read, the rest is refused or left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.client.spans import ClientFile, ClientSpan, parent_of, read
from pellucid.core.errors import AskedWrongly
from tests.conftest import shared_data

T = 1_796_000_000_000_000_000
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def read_text(folder: Path, text: str) -> ClientFile:
    (folder / "file").write_text(text)
    return read(folder / "file")


def otlp(**span: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def test_a_line_a_request(tmp_path: Path) -> None:
    lines = [{"request_id": "cmpl-7", "sent_unix_ns": T, "received_unix_ns": T + 9, "model": "tiny"},
             {"traceparent": f"00-{TRACE}-{SPAN}-01", "sent_unix_ns": T + 1, "first_token_unix_ns": T + 5}]  # fmt: skip
    assert read_text(tmp_path, "\n\n".join(map(json.dumps, lines)) + "\n").spans == (
        ClientSpan("cmpl-7", "", "", T, None, T + 9), ClientSpan("", TRACE, SPAN, T + 1, T + 5, None),
    )  # fmt: skip


@pytest.mark.parametrize("indent", [None, 1], ids=["a line an export", "one document"])
def test_an_otlp_export_has_times_as_text_or_numbers(tmp_path: Path, indent: int | None) -> None:
    said = {"key": "gen_ai.response.id", "value": {"stringValue": "cmpl-7"}}
    span = otlp(traceId=TRACE.upper(), spanId=SPAN, kind=3, startTimeUnixNano=str(T), endTimeUnixNano=T + 7,
                attributes=[said, {"key": "n", "value": {"intValue": "3"}}])  # fmt: skip
    text = json.dumps(span, indent=indent)
    wanted = ClientSpan("cmpl-7", TRACE, SPAN, T, None, T + 7)
    assert read_text(tmp_path, text).spans == (wanted,)
    if indent is None:
        assert read_text(tmp_path, f"{text}\n{text}\n").spans == (wanted, wanted)


def test_a_span_that_has_not_ended_has_no_end(tmp_path: Path) -> None:
    (span,) = read_text(tmp_path, json.dumps(otlp(startTimeUnixNano=T, endTimeUnixNano="0"))).spans
    assert span.received_ns is None


def test_a_real_export_of_an_engine_is_its_own_and_no_clients() -> None:
    assert read(shared_data("otlp/vllm_0.29.0_llm_request_span.json")) == ClientFile((), 1)


@pytest.mark.parametrize(("name", "count", "last_s"), [("parallel_requests", 5, 2.5), ("simple_chain", 3, 2.0)])
def test_real_flat_lists_are_read_without_what_was_said_in_them(name: str, count: int, last_s: float) -> None:
    path = shared_data(f"otlp/inference_perf_{name}.json")
    spans = read(path).spans
    written = json.loads(path.read_text())["spans"]
    assert (len(spans), [s.span_id for s in spans]) == (count, [w["span_id"] for w in written])
    assert spans[0].sent_ns == 1_772_013_600 * 10**9                    # 2026-02-25T10:00:00, as UTC
    assert all(s.received_ns is not None and s.received_ns > s.sent_ns for s in spans)
    assert (spans[1].received_ns or 0) - spans[1].sent_ns == last_s * 1e9
    said = [v for w in written for k, v in w["attributes"].items() if "messages" in k or "text" in k]
    assert said and not any(text in repr(spans) for text in said)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", None),
        ("nonsense", "line 1"),
        (f'{{"request_id": "a", "sent_unix_ns": {T}}}\n{{"request_id": ', "line 2"),
        ("[1]", "no JSON object"),
        ('{"request_id": "a"}', "sent_unix_ns"),
        (f'{{"sent_unix_ns": {T}}}', "neither a request_id nor a traceparent"),
        (f'{{"traceparent": "00-xyz", "sent_unix_ns": {T}}}', "neither"),
        ('{"request_id": "a", "sent_unix_ns": 1796000000}', "1796000000 is no UNIX time in ns"),
        (f'{{"request_id": "a", "sent_unix_ns": {T}, "received_unix_ns": 5}}', "5 is no UNIX time in ns"),
        ('{"spans": [{"start_time": "yesterday"}]}', "'yesterday' is no time"),
        ('{"resourceSpans": 3}', "resourceSpans"),
    ],
)
def test_what_is_none_of_the_formats_is_refused_with_its_place(tmp_path: Path, text: str, says: str | None) -> None:
    if says is None:
        assert read_text(tmp_path, text) == ClientFile((), 0)
        return
    with pytest.raises(AskedWrongly, match=says):
        read_text(tmp_path, text)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "bytes"):
        with pytest.raises(AskedWrongly, match="It takes JSON lines"):
            read(path)


def test_the_caller_of_a_traceparent() -> None:
    assert parent_of(f" 00-{TRACE.upper()}-{SPAN}-01-more ") == (TRACE, SPAN)
    assert parent_of("00-short-01") == parent_of(None) == parent_of("") == ("", "")

"""A request is a span that tells its tokens, once, whoever else told of it; attributes with text are never read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import write
from pellucid.workload.read_any import read_any
from pellucid.workload.servegen import Draw
from tests.conftest import shared_data
from tests.workload.trace_files import KEY, columns, trace

START_NS = 1_790_341_371_953_418_752
LENGTHS = ("arrival_ns", "prompt_tokens", "output_tokens")
SECRET = "what ada asked"


def span(start: int, said: dict[str, object], ids: tuple[str, str, str] = ("t", "", ""), **over: Any) -> dict[str, Any]:
    """`ids`: trace, span, parent. Takes 100 ns."""
    names = {int: "intValue", float: "doubleValue", str: "stringValue"}
    attributes = [{"key": k, "value": {names[type(v)]: str(v) if isinstance(v, int) else v}} for k, v in said.items()]
    return {"traceId": ids[0], "spanId": ids[1], "parentSpanId": ids[2], "name": "llm_request",
            "startTimeUnixNano": str(START_NS + start), "endTimeUnixNano": str(START_NS + start + 100),
            "attributes": [*attributes, {"key": "gen_ai.input.messages", "value": {"stringValue": SECRET}}],
            **over}  # fmt: skip


def old(prompt: int, output: int) -> dict[str, object]:
    return {"gen_ai.usage.prompt_tokens": prompt, "gen_ai.usage.completion_tokens": output}


def new(prompt: int, output: int, **more: object) -> dict[str, object]:
    said = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": output}
    return said | {f"gen_ai.{name.replace('__', '.')}": value for name, value in more.items()}


def export(*spans: object) -> str:
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]})


TEXT = export(span(0, old(14, 8)), span(90, new(20, 5), ("u", "", "")))
WANTED = [(0, 14, 8), (90, 20, 5)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "text",
    [TEXT, json.dumps(json.loads(TEXT), indent=1), export(span(0, old(14, 8))) + "\n" + export(span(90, new(20, 5))),
     json.dumps(json.loads(export(span(0, old(14, 8)))), indent=2) + export(span(90, old(20, 5)))],
    ids=["a document", "indented", "a line each", "one after another"],
)  # fmt: skip
def test_names_old_and_new_in_one_document_or_many(tmp_path: Path, text: str, packed: bool) -> None:
    found = trace(tmp_path, text, packed=packed)
    assert (found.about.format, columns(found, *LENGTHS), found.about.left_out) == ("otlp", WANTED, {})


def test_sampling_is_kept_and_text_is_not(tmp_path: Path) -> None:
    said = new(3, 1, request__max_tokens=64, request__temperature=0.7, request__top_p=0.9, output__type="json",
               conversation__id="ada@example.org")  # fmt: skip
    found = trace(tmp_path, export(span(0, said), span(5, new(3, 1, request__max_tokens=-1))))
    wanted = [(64, 0.7, 0.9, "json"), (None, None, None, None)]
    assert columns(found, "max_tokens", "temperature", "top_p", "response_format") == wanted
    write(found, tmp_path / "w")
    for text in (SECRET, "ada@example.org"):
        assert text.encode() not in (tmp_path / "w").read_bytes()


def test_a_conversation_is_the_one_named_or_the_trace(tmp_path: Path) -> None:
    named = new(1, 1, conversation__id="c")
    spans = [span(0, named), span(150, named, ("u", "", "")), span(200, old(2, 2), ("v", "1", "")),
             span(350, old(2, 2), ("v", "2", "")), span(400, old(3, 3), ("w", "3", ""))]  # fmt: skip
    found = trace(tmp_path, export(*spans))
    sessions = [s for (s,) in columns(found, "session")]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    assert sessions[4] is None
    assert columns(found, "think_ns") == [(None,), (50,), (None,), (50,), (None,)]


def test_of_spans_around_one_request_the_innermost_counts(tmp_path: Path) -> None:
    spans = [span(0, new(100, 9, operation__name="invoke_agent"), ("t", "agent", "")),
             span(1, new(60, 5), ("t", "client", "agent")), span(2, {}, ("t", "http", "client")),
             span(3, old(61, 5), ("t", "engine", "http")), span(4, new(40, 4), ("t", "second", "agent")),
             span(5, new(9, 0, operation__name="embeddings"), ("t", "e", "agent"))]  # fmt: skip
    found = trace(tmp_path, export(*spans))
    assert columns(found, *LENGTHS) == [(0, 61, 5), (1, 40, 4)]
    assert (found.about.left_out, found.about.read_count) == ({"told again by a span inside it": 1}, 3)
    assert any("3 spans are of no request" in note for note in found.about.notes)


def test_spans_that_are_each_others_parents_do_no_harm(tmp_path: Path) -> None:
    found = export(span(0, old(1, 1), ("t", "a", "b")), span(1, {}, ("t", "b", "a")), span(2, old(2, 2)))
    assert columns(trace(tmp_path, found), "prompt_tokens")[-1] == (2,)


def test_a_span_that_was_sent_again_counts_once(tmp_path: Path) -> None:
    again = span(0, old(14, 8), ("t", "a", ""))
    found = trace(tmp_path, export(again) + "\n" + export(again))
    assert (len(found), found.about.left_out) == (1, {"the same span again": 1})


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (span(1, old(5, 5), status={"code": 2}), "failed"),
        (span(1, old(5, 5), status={"code": "STATUS_CODE_ERROR"}), "failed"),
        (span(1, {"gen_ai.operation.name": "chat"}), "without token counts"), (span(1, old(0, 5)), "no prompt"),
        (span(1, old(-1, 5)), "negative"), (span(1, new(1, 5, request__temperature=-1.0)), "unreadable"),
        (span(1, {"gen_ai.usage.prompt_tokens": "many"}), "unreadable"), (7, "unreadable"),
        (span(1, old(5, 5), startTimeUnixNano="soon"), "unreadable"), (span(1, old(5, 5), attributes=3), "unreadable"),
    ],
)  # fmt: skip
def test_a_span_that_cannot_be_a_request_is_counted(tmp_path: Path, odd: object, reason: str) -> None:
    found = trace(tmp_path, export(odd, span(0, old(14, 8))))
    assert (len(found), found.about.left_out, found.about.read_count) == (1, {reason: 1}, 2)


def test_a_moment_that_is_not_known_is_null(tmp_path: Path) -> None:
    assert columns(trace(tmp_path, export(span(0, old(14, 8), startTimeUnixNano="0"))), *LENGTHS) == [(None, 14, 8)]


TWO = TEXT + "\n" + export(span(200, old(30, 3)), span(300, old(40, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT, TWO], ids=["a document", "lines"])
def test_a_file_cut_anywhere_gives_its_whole_spans(tmp_path: Path, text: str) -> None:
    whole, seen = columns(trace(tmp_path, text), *LENGTHS), set()
    for size in range(20, len(text)):
        try:
            found = trace(tmp_path, text[:size])
        except AskedWrongly as error:
            assert "without any request" in str(error)
            continue
        seen.add(len(found))
        assert columns(found, *LENGTHS) == whole[: len(found)]
        assert len(found) + sum(found.about.left_out.values()) == found.about.read_count
        assert found.about.left_out or size in (len(TEXT), len(TEXT) + 1)
    assert seen == set(range(1, len(whole) + 1))


def test_a_damaged_line_is_counted_and_the_others_stay(tmp_path: Path) -> None:
    found = trace(tmp_path, TEXT + "\n{ not json\n" + TEXT.replace('"scope": {}', '"scope": x') + "\n" + TEXT)
    assert (len(found), found.about.read_count) == (4, 6)
    assert sum(found.about.left_out.values()) == 2


def flat(**attributes: object) -> dict[str, object]:
    return {"trace_id": "t", "span_id": "s", "parent_span_id": None, "start_time": "2026-02-25T10:00:00.5",
            "end_time": "2026-02-25T10:00:02", "status": {"code": 1}, "attributes": attributes}  # fmt: skip


def test_a_flat_list_is_read(tmp_path: Path) -> None:
    said = {"gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 3, "gen_ai.request.max_tokens": 9}
    found = trace(tmp_path, json.dumps({"trace_id": "t", "spans": [flat(**said)]}))
    assert columns(found, *LENGTHS, "max_tokens") == [(0, 7, 3, 9)]


def test_a_recorded_span_of_an_engine_is_a_request() -> None:
    found = read_any([shared_data("otlp/vllm_0.29.0_llm_request_span.json")], KEY, Draw())
    assert columns(found, *LENGTHS, "session") == [(0, 14, 8, None)]
    assert (found.about.format, found.about.left_out, found.about.read_count) == ("otlp", {}, 1)


@pytest.mark.parametrize(("name", "count"), [("parallel_requests", 5), ("simple_chain", 3)])
def test_recorded_spans_of_texts_only_are_refused(name: str, count: int) -> None:
    with pytest.raises(AskedWrongly, match=f"without any request: {count} without token counts"):
        read_any([shared_data(f"otlp/inference_perf_{name}.json")], KEY, Draw())

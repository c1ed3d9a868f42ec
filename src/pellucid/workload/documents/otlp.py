"""OTLP spans as JSON → requests: a request is a span that tells how many tokens went in.

    {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": …, "spanId": …, "parentSpanId": …,
      "startTimeUnixNano": "1790341371953418752", "endTimeUnixNano": "1790341372208341144", "attributes": [
        {"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": "14"}}, …]}]}]}]}
    {"spans": [{"trace_id": …, "start_time": "2026-02-25T10:00:00", "attributes": {"gen_ai.…": 14}}]}    a flat list

One document, one a line, or several one after another. A request arrives when its span starts: an engine's own span
begins at the arrival, so the time in its queue lies inside, and nothing is taken off. Where a client, a gateway and the
engine have each written a span of one request, the innermost counts. A conversation is `gen_ai.conversation.id`, or the
trace. Of attributes only those named here are decoded, so that no prompt and no answer is ever read. An engine may
leave out a setting that is 0: temperature null is “not said”, not the default.

Source of the names: OpenTelemetry semantic conventions, gen-ai-spans, 1.27 to 1.41 (`input_tokens`), and before 1.27
(`prompt_tokens`), which engines still write; OTLP 1.x, JSON encoding: 64-bit numbers are text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from pellucid.core.packed import content
from pellucid.workload.csv_shapes import note_end
from pellucid.workload.documents.cut import REST, decoded, documents, top_keys
from pellucid.workload.documents.turns import (
    FAILED,
    Turn,
    add_turns,
    said_limit,
    said_ns,
    said_prompt,
    said_setting,
    said_tokens,
)
from pellucid.workload.fields import UNREADABLE, Unfit, wall_ns
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Request, Rows

NAME = "otlp"
MARKS = frozenset(("resourceSpans", "spans"))
LISTS = frozenset((b"spans",))
INNER, TWICE = "told again by a span inside it", "the same span again"
CONVERSATION, OPERATION = "gen_ai.conversation.id", "gen_ai.operation.name"
PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
LIMIT, TEMPERATURE, TOP_P = "gen_ai.request.max_tokens", "gen_ai.request.temperature", "gen_ai.request.top_p"
FORM = "gen_ai.output.type"
OF_A_REQUEST = frozenset((*PROMPT, *OUTPUT, LIMIT, TEMPERATURE, TOP_P))
WANTED = OF_A_REQUEST | {CONVERSATION, OPERATION, FORM}
GENERATES = frozenset(("chat", "text_completion", "generate_content"))
OTHERS = frozenset(("embeddings", "create_agent", "invoke_agent", "invoke_workflow", "execute_tool", "retrieval"))
ERRORS = (2, "2", "STATUS_CODE_ERROR", "ERROR")


class _Status(msgspec.Struct, frozen=True):
    code: int | str | None = None


class _Attribute(msgspec.Struct):
    key: str = ""
    value: msgspec.Raw = msgspec.Raw(b"{}")


class _Any(msgspec.Struct):
    """OTLP's AnyValue, as far as counts, settings and ids go."""

    intValue: int | str | None = None
    doubleValue: float | str | None = None
    stringValue: str | None = None


class _Span(msgspec.Struct):
    traceId: str = ""
    spanId: str = ""
    parentSpanId: str | None = None
    startTimeUnixNano: int | str | None = None
    endTimeUnixNano: int | str | None = None
    attributes: list[_Attribute] = []
    status: _Status | None = None


class _Flat(msgspec.Struct):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    attributes: dict[str, msgspec.Raw] = {}
    status: _Status | None = None


class _Scope(msgspec.Struct):
    spans: list[msgspec.Raw] = []


class _Resource(msgspec.Struct):
    scopeSpans: list[_Scope] = []


class _Export(msgspec.Struct):
    resourceSpans: list[_Resource] = []
    spans: list[msgspec.Raw] = []                # of a flat list


Said = Mapping[str, int | float | str]
Id = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Span:
    place: Id                        # trace, span
    parent: Id
    start_ns: int | None
    end_ns: int | None
    failed: bool
    said: Said                       # of WANTED only

    @property
    def of_a_request(self) -> bool:
        operation = self.said.get(OPERATION)
        return operation not in OTHERS and (operation in GENERATES or not OF_A_REQUEST.isdisjoint(self.said))


@dataclass(slots=True)
class Found:
    """Spans of a file, those of requests whole."""

    requests: list[Span] = field(default_factory=list)
    parents: dict[Id, Id] = field(default_factory=dict)
    others_count: int = 0


def is_otlp(head: bytes, lines: Sequence[str]) -> bool:
    """By its first bytes, or by a line of the first."""
    return any(not MARKS.isdisjoint(top_keys(text)) for text in (head, *map(_bytes, lines)))


def read_spans(path: Path, key: bytes, rows: Rows) -> None:
    """Adds the file's requests. `key`: of the hashes of ids. Raises OSError."""
    found = Found()
    for document in _documents(path, rows):
        export, complete = decoded(document, _Export, LISTS)
        if not complete:
            rows.read_count += 1
            rows.left_out[REST if export else UNREADABLE] += 1
        if export is not None:
            _take(export, found, rows)
    add_turns(list(_turns(found, rows)), key, rows)
    if found.others_count:
        rows.notes.append(f"{found.others_count:,} spans are of no request to a model")


def _documents(path: Path, rows: Rows) -> Iterator[bytes]:
    """Line by line where a line is a document; else the file as it is."""
    if not any(_complete(line) for line in islice(Lines(path), 5)):
        yield from documents(content(path))
        return
    lines = Lines(path)
    yield from map(_bytes, lines)
    if lines.cut or lines.too_long_count:
        note_end(lines, rows)


def _complete(line: str) -> bool:
    try:
        found = msgspec.json.decode(_bytes(line))
    except (msgspec.MsgspecError, RecursionError):
        return False
    return isinstance(found, dict) and not MARKS.isdisjoint(found)


def _take(export: _Export, found: Found, rows: Rows) -> None:
    raws = [(raw, _span) for r in export.resourceSpans for scope in r.scopeSpans for raw in scope.spans]
    for raw, reader in [*raws, *((raw, _flat) for raw in export.spans)]:
        try:
            span = reader(raw)
        except (Unfit, msgspec.MsgspecError, RecursionError) as error:
            rows.read_count += 1
            rows.left_out[str(error) if isinstance(error, Unfit) else UNREADABLE] += 1
            continue
        again = bool(span.place[1]) and span.place in found.parents
        if span.place[1]:
            found.parents[span.place] = span.parent
        if not span.of_a_request:
            found.others_count += 1
            continue
        rows.read_count += 1
        if again:
            rows.left_out[TWICE] += 1
        else:
            found.requests.append(span)


def _turns(found: Found, rows: Rows) -> Iterator[Turn]:
    outer = _outer(found)
    traces = Counter(s.place[0] for s in found.requests if s.place not in outer)
    for span in found.requests:
        try:
            if span.place in outer:
                raise Unfit(INNER)
            if span.failed:
                raise Unfit(FAILED)
            conversation = str(span.said.get(CONVERSATION, ""))
            if not conversation and traces[span.place[0]] > 1:
                conversation = span.place[0]
            yield Turn(_request(span), span.end_ns, conversation)
        except Unfit as error:
            rows.left_out[str(error)] += 1


def _outer(found: Found) -> set[Id]:
    """Spans above one that counts the same tokens."""
    outer: set[Id] = set()
    for span in found.requests:
        if not any(name in span.said for name in PROMPT):
            continue
        above = span.parent
        while above[1] and above not in outer and above != span.place:
            outer.add(above)
            above = found.parents.get(above, ("", ""))
    return outer


def _request(span: Span) -> Request:
    """Raises Unfit."""
    said = span.said
    form = str(said.get(FORM, ""))
    return Request(
        said_prompt(*map(said.get, PROMPT)), said_tokens(*map(said.get, OUTPUT)), span.start_ns,
        response_format=form if form in ("json", "text") else None,
        temperature=said_setting(said.get(TEMPERATURE)), top_p=said_setting(said.get(TOP_P)),
        max_tokens=said_limit(said.get(LIMIT)),
    )  # fmt: skip


def _span(raw: msgspec.Raw) -> Span:
    """Raises Unfit, MsgspecError."""
    span = msgspec.json.decode(raw, type=_Span)
    said = {a.key: v for a in span.attributes if a.key in WANTED and (v := _any(a.value)) is not None}
    start_ns, end_ns = said_ns(1, span.startTimeUnixNano), said_ns(1, span.endTimeUnixNano)
    # 0 stands for a moment that is not known
    return Span((span.traceId, span.spanId), (span.traceId, span.parentSpanId or ""), start_ns or None, end_ns or None,
                _failed(span.status), said)  # fmt: skip


def _flat(raw: msgspec.Raw) -> Span:
    """Raises Unfit, MsgspecError."""
    span = msgspec.json.decode(raw, type=_Flat)
    decoded_ = {name: msgspec.json.decode(value) for name, value in span.attributes.items() if name in WANTED}
    said = {name: value for name, value in decoded_.items() if _plain(value)}
    return Span((span.trace_id, span.span_id), (span.trace_id, span.parent_span_id or ""),
                wall_ns(span.start_time or ""), wall_ns(span.end_time or ""), _failed(span.status), said)  # fmt: skip


def _any(raw: msgspec.Raw) -> int | float | str | None:
    value = msgspec.json.decode(raw, type=_Any)
    return next((v for v in (value.intValue, value.doubleValue, value.stringValue) if v is not None), None)


def _plain(value: Any) -> bool:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)


def _failed(status: _Status | None) -> bool:
    return status is not None and status.code in ERRORS


def _bytes(line: str) -> bytes:
    return line.encode(errors="replace")

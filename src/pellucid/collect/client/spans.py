"""A file in which a client or gateway says when it sent requests → spans: ids and times, nothing else.

    {"request_id": "cmpl-7", "sent_unix_ns": 1796000000000000000, "received_unix_ns": 1796000001200000000}
    {"traceparent": "00-4bf9…-00f0…-01", "sent_unix_ns": …, "first_token_unix_ns": …}      a line a request
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": …, "startTimeUnixNano": …}]}]}]}     OTLP JSON, whole or
                                                                                               a line an export
    {"spans": [{"trace_id": …, "start_time": "2026-02-25T10:00:00", …}]}      a flat list; times without a zone are UTC

Prompts and answers that span attributes carry are not kept. Spans of the engine itself are counted and left out: they
begin where our own rows begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pellucid.core.errors import AskedWrongly

FORMATS = "JSON lines with request_id or traceparent and sent_unix_ns, or an export of OTLP spans as JSON"
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}.*")
SINCE_1973, UNTIL_2286 = 10**17, 10**19      # what is no such number of ns is in another unit
ENGINES_OWN = "gen_ai.latency."              # attributes that only a server can know
REQUEST_IDS = ("gen_ai.response.id", "gen_ai.request.id")


@dataclass(frozen=True, slots=True)
class ClientSpan:
    """Times are UNIX ns by the sender's clock. An empty id: it names none."""

    request_id: str
    trace_id: str
    span_id: str
    sent_ns: int
    first_token_ns: int | None
    received_ns: int | None      # the last of the answer was there


@dataclass(frozen=True, slots=True)
class ClientFile:
    spans: tuple[ClientSpan, ...]
    engine_spans_count: int      # left out


class _Line(msgspec.Struct):
    sent_unix_ns: int
    request_id: str | None = None
    traceparent: str | None = None
    received_unix_ns: int | None = None
    first_token_unix_ns: int | None = None


class _Value(msgspec.Struct):
    stringValue: str | None = None


class _Attribute(msgspec.Struct):
    key: str
    value: _Value = msgspec.field(default_factory=_Value)


class _Span(msgspec.Struct):
    startTimeUnixNano: int
    endTimeUnixNano: int = 0
    traceId: str = ""
    spanId: str = ""
    attributes: list[_Attribute] = []


class _Scope(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    scopeSpans: list[_Scope] = []


class _Export(msgspec.Struct):
    resourceSpans: list[_Resource]


class _Flat(msgspec.Struct):
    start_time: str
    end_time: str | None = None
    trace_id: str = ""
    span_id: str = ""
    attributes: dict[str, Any] = {}


class _FlatList(msgspec.Struct):
    spans: list[_Flat]


def read(path: Path) -> ClientFile:
    """Raises AskedWrongly, with the line, for what is none of these formats."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise AskedWrongly(f"cannot read {path}: {reason}. It takes {FORMATS}") from error
    spans: list[ClientSpan] = []
    own = 0
    for place, document in _documents(text, path):
        for span, of_engine in _spans(document, place):
            own += of_engine
            if not of_engine:
                spans.append(_checked(span, place))
    return ClientFile(tuple(spans), own)


def parent_of(traceparent: str | None) -> tuple[str, str]:
    """Trace and caller's span of a W3C traceparent; empty texts for what is none."""
    match = TRACEPARENT.fullmatch((traceparent or "").strip().lower())
    return (match[1], match[2]) if match else ("", "")


def _documents(text: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The whole file if it is one JSON object, else each of its lines; with the place for messages."""
    try:
        whole = msgspec.json.decode(text)
    except msgspec.DecodeError:
        whole = None
    places = [(str(path), text)] if whole is not None else [
        (f"{path}, line {n}", line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()
    ]  # fmt: skip
    for place, part in places:
        try:
            found = msgspec.json.decode(part)
        except msgspec.DecodeError as error:
            raise AskedWrongly(f"{place}: {error}. It takes {FORMATS}") from error
        if not isinstance(found, dict):
            raise AskedWrongly(f"{place}: no JSON object. It takes {FORMATS}")
        yield place, found


def _spans(document: dict[str, Any], place: str) -> Iterator[tuple[ClientSpan, bool]]:
    if "resourceSpans" in document:
        export = _as(document, _Export, place)
        for span in (s for r in export.resourceSpans for scope in r.scopeSpans for s in scope.spans):
            texts = {a.key: a.value.stringValue for a in span.attributes}
            yield _span(texts, (span.traceId, span.spanId), span.startTimeUnixNano, span.endTimeUnixNano or None)
    elif "spans" in document:
        for flat in _as(document, _FlatList, place).spans:
            end_ns = None if flat.end_time is None else _moment_ns(flat.end_time, place)
            yield _span(flat.attributes, (flat.trace_id, flat.span_id), _moment_ns(flat.start_time, place), end_ns)
    else:
        line = _as(document, _Line, place)
        trace_id, span_id = parent_of(line.traceparent)
        if not line.request_id and not trace_id:
            raise AskedWrongly(f"{place}: neither a request_id nor a traceparent. It takes {FORMATS}")
        yield ClientSpan(line.request_id or "", trace_id, span_id, line.sent_unix_ns, line.first_token_unix_ns,
                         line.received_unix_ns), False  # fmt: skip


def _span(
    attributes: dict[str, Any], ids: tuple[str, str], start_ns: int, end_ns: int | None
) -> tuple[ClientSpan, bool]:
    request_id = next((v for key in REQUEST_IDS if isinstance(v := attributes.get(key), str)), "")
    of_engine = any(key.startswith(ENGINES_OWN) for key in attributes)
    return ClientSpan(request_id, ids[0].lower(), ids[1].lower(), start_ns, None, end_ns), of_engine


Kind = TypeVar("Kind")


def _as(document: dict[str, Any], kind: type[Kind], place: str) -> Kind:
    """OTLP writes 64-bit numbers as text; both are taken."""
    try:
        return msgspec.convert(document, kind, strict=False)
    except msgspec.ValidationError as error:
        raise AskedWrongly(f"{place}: {error}. It takes {FORMATS}") from error


def _moment_ns(text: str, place: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise AskedWrongly(f"{place}: {text!r} is no time") from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def _checked(span: ClientSpan, place: str) -> ClientSpan:
    for moment_ns in (span.sent_ns, span.first_token_ns, span.received_ns):
        if moment_ns is not None and not SINCE_1973 <= moment_ns < UNTIL_2286:
            raise AskedWrongly(f"{place}: {moment_ns} is no UNIX time in ns")
    return span

"""AIPerf's per-request export → requests. Its trace inputs are of Mooncake's kind: json_lines.

    {"metadata": {"request_start_ns": 1759813207532900363, "request_end_ns": …, "x_correlation_id": "32ee…",
                  "benchmark_phase": "profiling", "was_cancelled": false},
     "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "output_sequence_length": {…}},
     "error": null}

Counts that the server reported (`usage_…`) come before those of AIPerf's own tokenizer, which does not see the chat
template. A conversation is an `x_correlation_id`: a `conversation_id` names the data, and comes again when these are
gone through twice. Warm-up, failed and cancelled requests are left out and counted.

Source of the fields: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md (13992db) and
common/models/record_models.py (017c63d).
"""

from __future__ import annotations

import msgspec

from pellucid.workload.csv_shapes import note_end, with_last
from pellucid.workload.documents.turns import (
    CLIENTS_ARRIVALS,
    FAILED,
    NOT_ENDED,
    Turn,
    add_turns,
    said_ns,
    said_prompt,
    said_tokens,
)
from pellucid.workload.fields import CUT, UNREADABLE, Unfit
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Request, Rows

NAME = "aiperf"
WARM_UP = "warm-up"


class _Value(msgspec.Struct, frozen=True):
    value: int | float | None = None


class _Metrics(msgspec.Struct, frozen=True):
    usage_prompt_tokens: _Value = _Value()
    usage_completion_tokens: _Value = _Value()
    input_sequence_length: _Value = _Value()
    output_sequence_length: _Value = _Value()


class _Metadata(msgspec.Struct, frozen=True):
    request_start_ns: int
    request_end_ns: int | None = None
    x_correlation_id: str | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _Record(msgspec.Struct, frozen=True):
    metadata: _Metadata
    metrics: _Metrics | None
    error: msgspec.Raw = msgspec.Raw(b"null")        # its text may quote the request


def is_record(line: str) -> bool:
    try:
        msgspec.json.decode(line.encode(errors="replace"), type=_Record)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def read_export(lines: Lines, key: bytes, rows: Rows) -> None:
    """Adds the file's requests. `key`: of the hashes of session ids. Raises OSError."""
    turns = []
    for text, last in with_last(iter(lines)):
        rows.read_count += 1
        try:
            turns.append(_turn(text))
        except (Unfit, msgspec.MsgspecError, RecursionError) as error:
            reason = str(error) if isinstance(error, Unfit) else UNREADABLE
            rows.left_out[CUT if last and lines.open_end and reason == UNREADABLE else reason] += 1
    if lines.cut or lines.too_long_count:
        note_end(lines, rows)
    add_turns(turns, key, rows)
    rows.notes.append(CLIENTS_ARRIVALS)


def _turn(line: str) -> Turn:
    """Raises Unfit, MsgspecError."""
    record = msgspec.json.decode(line.encode(errors="replace"), type=_Record)
    metadata, metrics = record.metadata, record.metrics or _Metrics()
    if metadata.benchmark_phase == "warmup":
        raise Unfit(WARM_UP)
    if metadata.was_cancelled:
        raise Unfit(NOT_ENDED)
    if bytes(record.error) != b"null":
        raise Unfit(FAILED)
    request = Request(
        said_prompt(metrics.usage_prompt_tokens.value, metrics.input_sequence_length.value),
        said_tokens(metrics.usage_completion_tokens.value, metrics.output_sequence_length.value),
        said_ns(1, metadata.request_start_ns),
    )
    return Turn(request, said_ns(1, metadata.request_end_ns), metadata.x_correlation_id or "")

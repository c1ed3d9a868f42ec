"""A request, put together from what several processes saw of it. One row of `requests` when it is complete.

    frontend     ARRIVE … FRONT_END, ABORT     identity, label, arrival, finish reason as the client sees it
    engine core  ADD, ADMIT, PREEMPT, FINISH   queue, schedule, the engine's own counts
    steps        shares, first and last token

The key between processes is the engine core's internal id; the external id may repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pellucid_probe import records

from pellucid.store.schema import REQUESTS
from pellucid.store.write import Row


@dataclass(slots=True)
class Span:
    """Open run of equal shares: its place in `step_runs` once closed."""

    first_step: int
    tokens: int
    first_position: int
    output_tokens: int
    phase: str
    draft_tokens: int = 0                # drafted tokens among `tokens`
    decoding: bool = field(init=False)   # an ordinary decode: one token computed, one sampled

    def __post_init__(self) -> None:
        self.decoding = self.phase == "decode" and self.tokens == 1 and self.output_tokens == 1


@dataclass(slots=True, eq=False)
class Request:
    internal_id: str
    number: int = 0
    core: str = ""                       # process of its engine core
    frontend: str = ""                   # process that took it
    fields: dict[str, Any] = field(default_factory=dict)   # columns of `requests` known so far
    label: str | None = None             # task the client named
    label_source: str = ""
    block_hash: str | None = None
    prompt_tokens: int | None = None
    position: int | None = None          # next position to compute; None until it was admitted in our sight
    high_water: int = 0                  # positions ever computed
    outputs: int = 0                     # tokens sampled and kept, by our count
    span: Span | None = None
    finished_in: int | None = None       # step whose update freed it; 0 outside updates; None while alive
    aborted_ns: int | None = None        # the client went away

    def add(self, column: str, amount: int) -> None:
        self.fields[column] = self.fields.get(column, 0) + amount

    def first(self, column: str, value: Any) -> None:
        """Keeps the earliest sight of a moment."""
        if self.fields.get(column) is None:
            self.fields[column] = value

    def row(self, provenance: dict[str, Any]) -> Row:
        known = {**provenance, **self.fields, "internal_id": self.internal_id, "request": self.number or None,
                 "prompt_tokens": self.prompt_tokens}  # fmt: skip
        if self.position is not None or self.fields.get("scheduled_count"):
            known["output_tokens"] = self.outputs
            for column in ("scheduled_tokens", "recomputed_tokens", "discarded_tokens", "drafted_tokens",
                           "accepted_tokens", "preemptions_count", "scheduled_count"):  # fmt: skip
                known.setdefault(column, 0)
        known["task"], known["task_source"] = self.task()
        if known.get("finish_reason") == "abort":
            known["aborted_by"] = "client" if self.aborted_ns is not None else "engine"
        return tuple(known.get(name) for name in REQUESTS.names())

    def task(self) -> tuple[str, str]:
        """The traffic class, and where its name is from. Whole once the frontend has said what was asked for."""
        if self.label:
            return self.label, self.label_source
        endpoint = str(self.fields.get("endpoint") or "?").rsplit("/", 1)[-1]
        prefix = self.block_hash[:8] if self.block_hash else "short"
        return f"{prefix}:{endpoint}:{self.fields.get('response_format') or '?'}", "automatic"


def note_arrival(request: Request, process: str, seen: dict[str, Any]) -> None:
    """ARRIVE, from a frontend."""
    request.frontend = process
    request.fields.update(
        request_id=seen["e"] or request.internal_id, arrival_ns=seen["t"] or seen["s"], submitted_ns=seen["s"],
        traceparent=seen["g"], endpoint=seen["p"], response_format=seen["f"],
        sent_ns=seen.get("y"),     # a probe that does not know the header leaves it out
    )  # fmt: skip
    if request.prompt_tokens is None:
        request.prompt_tokens = seen["n"]
    for label, source in ((seen["k"], "body"), (seen["h"], "header")):
        if label and not request.label:
            request.label, request.label_source = label, source


def note_queued(request: Request, core: str, seen: dict[str, Any]) -> None:
    """ADD, from an engine core."""
    request.core, request.number = core, seen["r"]
    request.prompt_tokens, request.block_hash = seen["n"], seen["h"]
    request.fields.update(queued_ns=seen["t"], client_index=seen["c"], max_tokens=seen["m"])
    if sampling := seen.get("a"):      # a probe that does not know it leaves it out
        temperature, top_p, top_k, seeded = sampling
        request.fields.update(
            temperature=temperature, top_p=top_p, top_k=max(0, top_k),     # some engines say -1 for all tokens
            seeded="yes" if seeded else "no",
        )  # fmt: skip
    request.first("request_id", seen["e"] or request.internal_id)
    if seen["k"] and not request.label:
        request.label, request.label_source = seen["k"], "body"


def note_freed(request: Request, seen: records.Finish) -> None:
    """FINISH, from an engine core."""
    request.finished_in = seen.step
    request.fields.update(
        finish_ns=seen.time_ns, computed_tokens=seen.computed_tokens, preemptions_count=seen.preemptions)
    request.first("finish_reason", seen.reason)

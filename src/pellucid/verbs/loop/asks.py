"""A workload → what the player sends: whole requests with their times, prompts that are made when they are needed.

    made = planned(read(path), Wish(speed=2.0, limit=200), Room(Vocabulary(4096, 3), context_tokens=2048), dialect)
    made.asks[0]          Ask(at_s=0.0, prompt=<made later>, output_tokens=32, …)
    made.requests         rows of the workload, one for each ask, as they are to arrive
    made.left_out         {"longer than the engine takes": 3}
    made.between(0, 30)   the asks of its first 30 s, to be sent from now on

A prompt is drawn by the row in the whole file: with the same seed a request has the same one, whatever is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.catalog.servers.dialects import Dialect
from pellucid.collect.client.ask import Ask
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import S_NS, counted
from pellucid.workload.file import SCHEMA, Workload
from pellucid.workload.prompts import Vocabulary, prompt
from pellucid.workload.scaled import scaled

TOO_LONG = "longer than the engine takes"
NO_TIME = "without an arrival time"
NO_LENGTH = "without an answer's length"
NO_ANSWER = "with an answer of no token"
JSON = {"type": "json_object"}
AS_JSON = ("json", "json_object")
FREE = (None, "text")


@dataclass(frozen=True, slots=True)
class Wish:
    speed: float = 1.0                   # arrivals and think times are divided by it
    tokens_ratio: float = 1.0
    seed: int = 0                        # of prompts, and of arrivals where they are drawn
    limit: int | None = None             # the first so many requests
    for_ns: int | None = None            # those of so long, as they are sent
    rate_per_s: float | None = None      # for a workload without times: Poisson arrivals
    output_tokens: int | None = None     # for requests without an answer's length


@dataclass(frozen=True, slots=True)
class Room:
    vocabulary: Vocabulary
    context_tokens: int                  # prompt and answer together


@dataclass(frozen=True, slots=True)
class Plan:
    asks: tuple[Ask, ...]
    requests: Workload                   # a row for each ask
    rows: tuple[int, ...]                # of the file, for each ask
    read_count: int                      # rows that were looked at
    left_out: dict[str, int]
    notes: tuple[str, ...]

    def between(self, start_s: float, end_s: float) -> list[Ask]:
        """Those that arrive from `start_s` on and before `end_s`, as if the first moment were the start.

        A later turn of a conversation that began before comes at its own time; without one it is not among them.
        """
        times = self.requests.requests.column("arrival_ns").to_pylist()
        places: dict[int, int] = {}
        out: list[Ask] = []
        for index, (ask, time_ns) in enumerate(zip(self.asks, times, strict=True)):
            follows = places.get(ask.after) if ask.after is not None else None
            inside = start_s * S_NS <= time_ns < end_s * S_NS if time_ns is not None else follows is not None
            if not inside:
                continue
            places[index] = len(out)
            if follows is not None:
                out.append(replace(ask, after=follows, earliest_s=max(0.0, ask.earliest_s - start_s)))
            else:
                out.append(replace(ask, after=None, at_s=time_ns / S_NS - start_s, earliest_s=0.0))
        return out


@dataclass(slots=True)
class _Making:
    wish: Wish
    room: Room
    dialect: Dialect
    name: str
    left_out: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    asks: list[Ask] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)      # session → its latest ask

    def add(self, row: int, request: dict[str, Any]) -> None:
        if reason := self._unfit(request):
            self.left_out[reason] += 1
            return
        kind = request["response_format"]
        self.kinds["labels"] += request["task"] is not None
        self.kinds["schemas"] += kind == "json"
        self.kinds["grammars"] += kind not in (*FREE, *AS_JSON)
        self.kinds["json"] += kind in AS_JSON
        self.kinds["top_k"] += bool(request["top_k"])
        draw = (self.room.vocabulary, self.wish.seed, row)
        made = partial(_ids, request["prompt_tokens"], request["blocks"] or [], request["block_tokens"] or 0, draw)
        after = self.latest.get(request["session"]) if request["session"] is not None else None
        arrival_s = (request["arrival_ns"] or 0) / S_NS
        at_s, earliest_s = arrival_s, 0.0
        if after is not None:
            thinks = request["think_ns"] is not None
            at_s, earliest_s = (request["think_ns"] / S_NS, 0.0) if thinks else (0.0, arrival_s)
        if request["session"] is not None:
            self.latest[request["session"]] = len(self.asks)
        self.rows.append(row)
        self.asks.append(Ask(
            at_s, made, request["output_tokens"], request["task"], f"{self.name}-{row}", after=after,
            earliest_s=earliest_s, ignore_eos=kind not in AS_JSON, extra=_sampling(request, kind, row, self.dialect),
        ))  # fmt: skip

    def _unfit(self, request: dict[str, Any]) -> str:
        """Why it cannot be sent, or ""."""
        follows = request["session"] in self.latest and request["think_ns"] is not None
        if request["arrival_ns"] is None and not follows:
            return NO_TIME
        if request["output_tokens"] is None:
            return NO_LENGTH
        if request["output_tokens"] == 0:
            return NO_ANSWER
        whole = request["prompt_tokens"] + request["output_tokens"]
        return TOO_LONG if whole > self.room.context_tokens else ""

    def notes(self) -> Iterator[str]:
        def of(kind: str) -> str:
            return counted(self.kinds[kind], "requests")

        if self.asks and not self.dialect.exact_length:
            yield "this server is of no kind we know: answers end where the model ends them, at most at their length"
        if self.kinds["labels"] and not self.dialect.task:
            yield f"labels of {of('labels')} were not sent: this server has no field for them"
        if self.kinds["top_k"] and not self.dialect.top_k:
            yield f"{of('top_k')} are sampled from the likeliest tokens only: this server has no field for that"
        if self.kinds["json"]:
            yield f"{of('json')} ask for JSON: their answers end where it ends"
        if self.kinds["schemas"]:
            yield f"the schemas of {of('schemas')} were not recorded: any JSON object is asked for"
        if self.kinds["grammars"]:
            yield f"the grammars of {of('grammars')} were not recorded: text is asked for"


def planned(workload: Workload, wish: Wish, room: Room, dialect: Dialect, name: str = "replay") -> Plan:
    """`name` is the beginning of the requests' ids.

    Raises AskedWrongly where the wish has no sense for this workload, CannotAnswer where no request can be sent.
    """
    if not len(workload):
        raise CannotAnswer(f"{workload.about.source}: the workload has no request")
    timed = _timed(workload, wish)
    chosen = _chosen(timed, wish)
    making = _Making(wish, room, dialect, name)
    batches = timed.requests.take(pa.array(chosen)).to_batches(max_chunksize=1024)
    for row, request in zip(chosen, (r for batch in batches for r in batch.to_pylist()), strict=True):
        making.add(row, request)
    if not making.asks:
        why = _why(making.left_out, len(chosen), room)
        raise CannotAnswer(f"{workload.about.source}: no request can be sent: {why}")
    requests = Workload(workload.about, timed.requests.take(pa.array(making.rows)))
    return Plan(tuple(making.asks), requests, tuple(making.rows), len(chosen), dict(making.left_out),
                tuple(making.notes()))  # fmt: skip


def _timed(workload: Workload, wish: Wish) -> Workload:
    """Lengths and times as they are to be sent."""
    missing = workload.about.missing
    times = workload.requests.column("arrival_ns")
    no_times = times.null_count == len(times)
    if wish.rate_per_s is not None and not wish.rate_per_s > 0:
        raise AskedWrongly(f"--rate {wish.rate_per_s:g} is no rate above 0")
    if no_times and wish.rate_per_s is None:
        why = missing.get("arrival_ns", "it has no arrival times")
        raise AskedWrongly(f"{workload.about.source}: {why}. Try: --rate 2, for two a second at random (Poisson)")
    if not no_times and wish.rate_per_s is not None:
        raise AskedWrongly(f"{workload.about.source} has arrival times of its own. Try: --speed, instead of --rate")
    found = scaled(workload, wish.tokens_ratio, wish.speed)
    table = found.requests
    if wish.rate_per_s is not None:
        gaps = np.random.default_rng(wish.seed).exponential(1 / wish.rate_per_s, len(found))
        table = _put(table, "arrival_ns", pa.array(np.round((np.cumsum(gaps) - gaps[0]) * S_NS).astype(np.int64)))
    lengths = table.column("output_tokens")
    if wish.output_tokens is not None:
        table = _put(table, "output_tokens", lengths.combine_chunks().fill_null(wish.output_tokens))
    elif lengths.null_count == len(lengths):
        why = missing.get("output_tokens", "it has no answer lengths")
        raise AskedWrongly(f"{workload.about.source}: {why}. Try: --output-tokens 128")
    return Workload(found.about, table)


def _chosen(workload: Workload, wish: Wish) -> list[int]:
    """Rows of the file."""
    times = workload.requests.column("arrival_ns").slice(0, wish.limit).to_pylist()
    return [row for row, t in enumerate(times) if wish.for_ns is None or t is None or t < wish.for_ns]


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = SCHEMA.get_field_index(name)
    return table.set_column(place, SCHEMA.field(place), values)


def _ids(length: int, blocks: Sequence[int], block_tokens: int, draw: tuple[Vocabulary, int, int]) -> list[int]:
    return prompt(length, blocks, block_tokens, draw).tolist()


def _sampling(request: dict[str, Any], kind: str | None, row: int, dialect: Dialect) -> dict[str, object]:
    """A seed is not recorded, that there was one is: an engine samples such a request by itself."""
    said = {name: request[name] for name in ("temperature", "top_p") if request[name] is not None}
    if dialect.top_k and request["top_k"] is not None:
        said[dialect.top_k] = request["top_k"]
    seed = {"seed": row} if request["seeded"] == "yes" else {}
    return {**said, **seed, **({"response_format": JSON} if kind in AS_JSON else {})}


def _why(left_out: Counter[str], read_count: int, room: Room) -> str:
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in left_out.items())
    more = f". It takes {room.context_tokens:,} tokens. Try: --scale-tokens 0.1" if left_out[TOO_LONG] else ""
    return f"of {read_count:,}, {reasons or 'none was chosen'}{more}"

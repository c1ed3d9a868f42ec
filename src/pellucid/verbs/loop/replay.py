"""`pellucid replay`: a workload sent to a server as it was → what came back, and was the traffic the workload's.

    replayed = replay(Path("w.parquet"), Server("http://127.0.0.1:8000"), Wish(limit=200), Pace(60.0, "replay-7f"))
    replayed.client_bound      "" or why nothing may be concluded: the client was in the way
    replayed.json()            {"client": {"lag_ns": {"p50": …}}, "source": {…}, "replayed": {…}, "latency": {…}, …}
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid.collect.client.ask import Reply
from pellucid.collect.client.measures import (
    LAG_QUANTILES,
    QUANTILES,
    Latencies,
    Measures,
    client_bound,
    faults,
    lag_limit_ns,
    latencies,
    measure,
    quantiles,
)  # fmt: skip
from pellucid.collect.client.play import Bounds, Counts, Played, Target, play
from pellucid.collect.client.served import Served, served, vocabulary_of
from pellucid.collect.openmetrics.address import endpoint
from pellucid.core.errors import AskedWrongly
from pellucid.core.units import S_NS
from pellucid.tune.slo import Slo, read_slo
from pellucid.verbs.loop.asks import Plan, Room, Wish, planned
from pellucid.verbs.loop.promised import kept
from pellucid.verbs.loop.workload import statistics_named
from pellucid.workload.file import SCHEMA, Workload, read
from pellucid.workload.prompts import Vocabulary
from pellucid.workload.statistics import Statistics, statistics

__all__ = ["LAG_QUANTILES", "QUANTILES", "Counts", "Pace", "Replayed", "Server", "Wish", "read_slo", "replay",
           "room_of"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    model: str | None = None               # None: the first it serves
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    model_config: Path | None = None       # of the checkpoint: config.json, or its folder
    context_tokens: int | None = None      # where the server does not say


@dataclass(frozen=True, slots=True)
class Pace:
    timeout_s: float                       # of a request
    name: str                              # of this replay: the beginning of its requests' ids
    tell: Callable[[Counts], None] | None = None
    slo: Slo = ()                          # with it, requests within it are counted


@dataclass(frozen=True, slots=True)
class Replayed:
    conditions: dict[str, Any]
    plan: Plan
    played: Played
    source: Statistics                     # of what was to be sent
    sent: Statistics | None                # of what was sent; None where nothing was
    measures: Measures
    latencies: Latencies
    client_bound: str                      # why the client was in the way; "" where it was not
    ok_count: int
    off_count: int                         # good answers that are longer or shorter than asked for

    @property
    def lags_ns(self) -> tuple[float, ...] | None:
        return quantiles([r.lag_ns for r in self.played.replies], LAG_QUANTILES)

    @property
    def lag_limit_ns(self) -> float:
        return lag_limit_ns(self.played)

    @property
    def faults(self) -> dict[str, tuple[int, str]]:
        """Kind → how many, and the words of the first."""
        return faults(self.played.replies)

    @property
    def stalls_ns(self) -> tuple[float, ...] | None:
        return quantiles(self.played.stalls_ns, LAG_QUANTILES)

    def json(self) -> dict[str, Any]:
        played, plan = self.played, self.plan
        return {
            "conditions": self.conditions,
            "requests": {
                "read_count": plan.read_count, "left_out": plan.left_out, "asked_count": len(plan.asks),
                "sent_count": len(played.replies), "unsent_count": played.unsent_count, "ok_count": self.ok_count,
                "other_length_count": self.off_count,
            },
            "ended_early": played.ended_early or None,
            "client_bound": bool(self.client_bound),
            "client_bound_reason": self.client_bound or None,
            "client": {
                "lag_ns": _quantiled(self.lags_ns, LAG_QUANTILES), "lag_limit_ns": round(self.lag_limit_ns),
                "stall_ns": _quantiled(self.stalls_ns, LAG_QUANTILES), "busy_ratio": played.busy_ratio,
            },
            "source": statistics_named(self.source),
            "replayed": None if self.sent is None else statistics_named(self.sent),
            "errors": {k: {"requests_count": n, "first": says} for k, (n, says) in self.faults.items()},
            "latency": {name: _quantiled(values, QUANTILES) for name, values in asdict(self.latencies).items()},
            "measures": asdict(self.measures),
            "notes": list(plan.notes),
        }  # fmt: skip


def replay(path: Path, server: Server, wish: Wish, pace: Pace) -> Replayed:
    """Raises AskedWrongly where something has to be given or makes no sense, CannotAnswer where no request can be sent,
    Failed where no server answers at the start. What fails later is in the result."""
    workload = read(path)
    found = served(server.url, server.model, server.headers)
    room = room_of(found, server)
    plan = planned(workload, wish, room, found.dialect, pace.name)
    _many_sockets()
    until_s = wish.for_ns / S_NS if wish.for_ns is not None else math.inf
    bounds = Bounds(request_s=pace.timeout_s, until_s=until_s, give_up=True)
    played = play(Target(server.url, found.model, found.dialect, server.headers), plan.asks, bounds, pace.tell)
    sent = _sent(plan, played)
    good = [r for r in played.replies if r.ok]
    return Replayed(
        _conditions(path, server, found, room) | asdict(wish) | _named(pace), plan, played, statistics(plan.requests),
        statistics(sent) if sent is not None else None, measure(played.replies, played.duration_ns, kept(pace.slo)),
        latencies(played.replies), client_bound(played), len(good),
        sum(r.output_tokens != r.ask.output_tokens for r in good),
    )  # fmt: skip


def room_of(found: Served, server: Server) -> Room:
    """How long a request may be and which tokens there are. Raises AskedWrongly where that is not known."""
    said = [n for n in (found.context_tokens, server.context_tokens) if n is not None]
    if not said:
        raise AskedWrongly(f"{server.url} does not say how long a request may be. Try: --context-tokens 8192")
    given = server.model_config
    path = given if given is not None else Path(found.root) if found.root else None
    if path is not None and path.is_dir():
        path = path / "config.json"
    if path is None or not path.is_file():
        where = f"no config.json at {path}" if path is not None else f"{server.url} does not say where its model is"
        raise AskedWrongly(f"which tokens the model knows is not known: {where}. Try: --model-config FOLDER")
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise AskedWrongly(f"{path}: {error}. Try: --model-config FOLDER/config.json") from error
    counts = vocabulary_of(config) if isinstance(config, dict) else None
    if counts is None:
        raise AskedWrongly(f"{path} has no vocab_size. Try: --model-config FOLDER/config.json of the model itself")
    return Room(Vocabulary(*counts), min(said))


def _conditions(path: Path, server: Server, found: Served, room: Room) -> dict[str, Any]:
    return {
        "workload": str(path), "server": endpoint(server.url).name, "model": found.model, "engine": found.engine,
        "context_tokens": room.context_tokens, "first_token_id": room.vocabulary.reserved_count,
        "end_token_id": room.vocabulary.count,
    }  # fmt: skip


def _named(pace: Pace) -> dict[str, Any]:
    return {"timeout_s": pace.timeout_s, "request_ids": f"{pace.name}-*", "slo": [str(o) for o in pace.slo]}


def _sent(plan: Plan, played: Played) -> Workload | None:
    """What was sent, as a workload: the moments and the lengths as they were."""
    if not played.replies:
        return None
    places = {id(ask): place for place, ask in enumerate(plan.asks)}
    in_order = sorted(played.replies, key=lambda r: r.sent_ns)
    table = plan.requests.requests.take(pa.array([places[id(r.ask)] for r in in_order]))
    columns = {
        "arrival_ns": [r.sent_ns - played.began_ns for r in in_order],
        "output_tokens": [r.output_tokens if r.ok else None for r in in_order],
    }
    for name, values in columns.items():
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), pa.array(values, pa.int64()))
    return Workload(plan.requests.about, _prompts_as_counted(table, in_order))


def _prompts_as_counted(table: pa.Table, replies: Sequence[Reply]) -> pa.Table:
    """A prompt is as long as the engine said; where it said nothing, as it was sent."""
    asked = table.column("prompt_tokens").to_pylist()
    counted = [a if r.prompt_tokens is None else r.prompt_tokens for r, a in zip(replies, asked, strict=True)]
    place = SCHEMA.get_field_index("prompt_tokens")
    return table.set_column(place, SCHEMA.field(place), pa.array(counted, pa.int64()))


def _quantiled(values: Sequence[float] | None, at: Sequence[float]) -> dict[str, float] | None:
    return None if values is None else {f"p{q * 100:.0f}": round(v) for q, v in zip(at, values, strict=True)}


def _many_sockets() -> None:
    """Each request in flight is a socket: as many as this process is allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

"""The recorder: reads every ring of a folder, joins what several processes saw, writes one run. The only IO loop.

Processes write what they saw a little later, each at its own pace (the probe's outbox), so a frontend's or a worker's
word on a step can come before the step itself: it waits, HOLD_NS at most. So does a step for theirs.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid_probe import records

from pellucid.collect import experts
from pellucid.collect.engine_core import HOLD_NS, EngineCore
from pellucid.collect.facts import recorder_rows
from pellucid.collect.gpu.nvml import Gpus
from pellucid.collect.openmetrics.address import Endpoint
from pellucid.collect.request import Request, note_arrival
from pellucid.collect.source import ROLES, Source, discover, read_key
from pellucid.core.clock import Clock, monotonic_ns
from pellucid.core.errors import Failed
from pellucid.core.settings import number
from pellucid.core.units import S_NS
from pellucid.store.schema import HOST
from pellucid.store.write import Limits, RunWriter, lock

if TYPE_CHECKING:
    from pellucid.collect.openmetrics.beside import Beside

DESCRIBE_NS = 1 * S_NS
PAGE_NS = 1 * S_NS         # engines refresh their gauges every second or slower


def record(
    rings: Path, folder: Path, stop: Callable[[], bool], clock: Clock = monotonic_ns, page: Endpoint | None = None
) -> None:
    """Records until `stop()`; then drains and seals. Beside the rings the metrics page, where there is one. Raises
    Failed when a folder cannot be used or another recorder is at work on either of them."""
    if not rings.is_dir():
        raise Failed(f"{rings} is not a folder. Give the folder the engine has as PELLUCID_DIR")
    lock_fd = os.open(rings / "recorder.lock", os.O_CREAT | os.O_RDWR, 0o600)
    lock(lock_fd, rings)
    try:
        limits = Limits(number("flush_s"), number("seal_s"), int(number("seal_rows")))
        recorder = Recorder(rings, RunWriter(folder, limits, clock), clock, Gpus.open())
        poll_s = number("poll_s")
        beside = _beside(page, recorder) if page is not None else None
        while not stop():
            recorder.cycle()
            if beside is not None:
                beside.cycle()
            time.sleep(poll_s)
        if beside is not None:
            beside.close()
        recorder.end()
    finally:
        os.close(lock_fd)


def _beside(page: Endpoint, recorder: Recorder) -> Beside:
    from pellucid.collect.openmetrics.beside import Beside  # an HTTP client, which most recorders do without

    return Beside(page, PAGE_NS, recorder.writer.append, recorder.clock, {})


@dataclass(slots=True)
class Recorder:
    rings: Path
    writer: RunWriter
    clock: Clock
    gpus: Gpus
    sources: dict[str, Source] = field(default_factory=dict)
    cores: dict[str, EngineCore] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)        # internal id → alive, or not yet written
    _closing: deque[tuple[int, Request]] = field(default_factory=deque)
    _early: deque[tuple[Source, records.Deliver]] = field(default_factory=deque)   # their steps have not come yet
    _early_work: deque[tuple[Source, records.Work]] = field(default_factory=deque)
    _described_ns: int = 0
    bad_records_count: int = 0

    def cycle(self) -> None:
        now = self.clock()
        if now - self._described_ns >= DESCRIBE_NS:
            self._described_ns = now
            self._describe()
            pids = frozenset(s.pid for s in self.sources.values() if s.pid is not None)
            self.gpus.sample(now, self.writer.append, pids)
        polled = [(s, s.poll()) for role in ROLES for s in list(self.sources.values()) if s.role == role]
        for source, batch in reversed(polled):
            for kind, payload in batch:
                self._take(source, kind, payload)
        self._deliver(now - HOLD_NS)
        for core in self.cores.values():
            core.emit_older_than(now - HOLD_NS)
        self._write_requests(now - HOLD_NS)
        self.writer.tick()

    def end(self) -> None:
        """Takes what is left in the rings, writes what is held, seals."""
        self._described_ns = 0
        self.cycle()
        alive = [r for core in self.cores.values() for r in core.end()]
        self._write_requests(2**63 - 1)
        written = {id(r) for r in alive}
        for request in [*alive, *(r for r in self.requests.values() if id(r) not in written)]:
            self._write(request)
        for source in self.sources.values():
            self.writer.append("sources", source.row())
        self.writer.close()

    def __post_init__(self) -> None:
        for row in recorder_rows(self.gpus.reason):
            self.writer.append("facts", row)

    def _describe(self) -> None:
        discover(self.rings, self.sources)
        for source in self.sources.values():
            if source.refresh():
                self.writer.append("sources", source.row())
                for row in source.fact_rows():
                    self.writer.append("facts", row)

    def _take(self, source: Source, kind: int, payload: bytes) -> None:
        try:
            if kind == records.HOST:
                self._host(source, records.unpack_host(payload))
            elif kind == records.WORK:
                self._work(source, records.unpack_work(payload))
            elif kind == records.EXPERTS:
                for row in experts.rows(source.provenance(), records.unpack_json(payload)):
                    self.writer.append("experts", row)
            elif kind == records.DELIVER:
                self._early.append((source, records.unpack_deliver(payload)))
            elif kind == records.ARRIVE:
                seen = records.unpack_json(payload)
                note_arrival(self._request(seen["i"]), source.name, seen)
            elif kind == records.FRONT_END:
                self._front_end(records.unpack_json(payload))
            elif kind == records.ABORT:
                self._aborted(records.unpack_json(payload))
            else:
                self._core(source).take(kind, payload)
        except (ValueError, KeyError, TypeError, struct.error):
            self.bad_records_count += 1   # a probe of another version; the rest of the ring still counts

    def _core(self, source: Source) -> EngineCore:
        core = self.cores.get(source.name)
        if core is None:
            core = self.cores[source.name] = EngineCore(
                source.name, self.writer.append, source.provenance, self._request, self._done, read_key(self.rings)
            )
            while self._early_work:
                self._work(*self._early_work.popleft())
        return core

    def _request(self, internal_id: str) -> Request:
        request = self.requests.get(internal_id)
        if request is None:
            request = self.requests[internal_id] = Request(internal_id)
        return request

    def _done(self, request: Request) -> None:
        self._closing.append((request.fields["finish_ns"], request))

    def _write_requests(self, until_ns: int) -> None:
        """Rows of requests freed before a moment: by then the frontends have said all they had to say."""
        while self._closing and self._closing[0][0] <= until_ns:
            self._write(self._closing.popleft()[1])

    def _write(self, request: Request) -> None:
        core = self.cores.get(request.core)
        source = self.sources.get(request.core or request.frontend)
        self.writer.append("requests", request.row(source.provenance() if source else {}))
        self.requests.pop(request.internal_id, None)
        if core is not None:
            core.forget(request)

    def _front_end(self, seen: dict[str, Any]) -> None:
        request = self.requests.get(seen["i"])
        if request is not None and seen["f"]:
            request.fields["finish_reason"] = seen["f"]
            request.fields["last_delivered_ns"] = seen["t"]

    def _aborted(self, seen: dict[str, Any]) -> None:
        for internal_id in seen["i"]:
            request = self.requests.get(internal_id)
            if request is not None:
                request.aborted_ns = seen["t"]
                row = (request.core, "abort_seen", request.number, seen["t"], None, None)
                self.writer.append("request_events", row)

    def _deliver(self, given_up_ns: int) -> None:
        waiting = [(source, seen) for source, seen in self._early if not self._delivered(source, seen)]
        self._early = deque((source, seen) for source, seen in waiting if seen.end_ns > given_up_ns)

    def _delivered(self, source: Source, seen: records.Deliver) -> bool:
        """Whether the step was there."""
        stamp_ns = int(seen.engine_s * 1e9)
        for core in self.cores.values():
            row = core.step_at(stamp_ns)
            if row is None:
                continue
            row["delivered_ns"] = max(row.get("delivered_ns") or 0, seen.end_ns)
            for column, ended in (("first_delivered_ns", core.firsts), ("last_delivered_ns", core.lasts)):
                for request in ended.get(row["step"], ()):
                    if request.frontend in ("", source.name):
                        request.first(column, seen.end_ns)
            return True
        return False

    def _work(self, source: Source, seen: records.Work) -> None:
        if not self.cores:      # rings are read in turn: the first step's worker may come before its engine core
            self._early_work.append((source, seen))
            return
        rank = source.described.get("dp_rank")
        for core in self.cores.values():
            if len(self.cores) == 1 or core.provenance()["dp_rank"] == rank:
                core.worked(seen)

    def _host(self, source: Source, seen: records.Host) -> None:
        known = {
            **source.provenance(), "time_ns": seen.time_ns, "interval_ns": seen.interval_ns,
            "cpu_user_ns": seen.cpu_user_ns, "cpu_system_ns": seen.cpu_system_ns, "rss_bytes": seen.rss_bytes,
            "threads_count": seen.threads, "voluntary_switches_count": seen.voluntary_switches,
            "involuntary_switches_count": seen.involuntary_switches, "gc_count": seen.gc_count,
            "gc_pause_ns": seen.gc_pause_ns, "gc_pause_max_ns": seen.gc_pause_max_ns, "probe_ns": seen.probe_ns,
            "probe_errors_count": seen.probe_errors, "ring_dropped_count": seen.ring_dropped,
        }  # fmt: skip
        self.writer.append("host", tuple(known.get(name) for name in HOST.names()))

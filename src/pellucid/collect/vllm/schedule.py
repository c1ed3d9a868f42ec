"""The engine's own scheduler, asked on virtual time: settings, requests and the time of each step → who got what when.

    schedule(python, Settings(8, 2048, 4096, 900, 16), [Request(0, 500, 40), …], lambda step: 20_000_000)
    → Scheduled(engine_version="0.32.0", served=(Served(request=0, scheduled_ns=0, first_token_ns=20000000, …), …), …)

A child in the engine's environment drives the scheduler; it needs no weights and no device. How long a step takes is
the caller's to say, so this neither knows nor judges models of time. Its speed is that of the engine's code: bench
scheduler_speed.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Self

import msgspec

from pellucid.collect.vllm.child import Child
from pellucid.collect.vllm.plan import fault, need_python
from pellucid.collect.vllm.schedule_lines import End, Error, Line, PlannedStep, Ready, Refused, RequestLine
from pellucid.collect.vllm.schedule_settings import Settings
from pellucid.collect.vllm.scheduled import Gathered, Scheduled
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed, PellucidError

MODULE = "pellucid_probe.vllm.offline.schedule"
SENT_BYTES = 1 << 16       # of requests at a time
SHOWN_LETTERS = 120

StepNs = Callable[[PlannedStep], int]


@dataclass(frozen=True, slots=True)
class Request:
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    blocks: Sequence[int] | None = None      # a number for the tokens of each block and all before it
    block_tokens: int | None = None
    priority: int = 0                        # the smaller is the earlier, where the policy goes by it


@dataclass(frozen=True, slots=True)
class Limits:
    start_s: float = 240.0      # importing the engine, and looking into its model the first time: 53 s on 2 busy cores
    silent_s: float = 120.0     # a step takes milliseconds, and to hash thousands of long prompts at once some seconds


def schedule(
    python: str, settings: Settings, requests: Iterable[Request], step_ns: StepNs,
    environ: Mapping[str, str] = os.environ, limits: Limits = Limits(),
) -> Scheduled:  # fmt: skip
    """Once. Raises as `Schedules.ask` does."""
    with Schedules(python, environ, limits) as schedules:
        return schedules.ask(settings, requests, step_ns)


@dataclass(slots=True)
class Schedules:
    """As many as wanted, one after the other: the engine is imported once. A child is started when it is needed."""

    python: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    limits: Limits = Limits()
    _child: Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def ask(self, settings: Settings, requests: Iterable[Request], step_ns: StepNs) -> Scheduled:
        """Requests in order of arrival. Raises CannotAnswer where that Python has no engine, no probe, or a version
        that cannot do it; AskedWrongly where settings or requests make no sense; Failed where the child breaks."""
        if self._child is None:
            need_python(self.python, self.environ, self.limits.start_s)
            self._child = Child(self.python, MODULE, self.environ)
        told = False
        try:
            talk = _Talk(self.python, self._child, self.limits)
            ready = talk.settings(settings)
            told = isinstance(ready, Error)
            return talk.requests(ready, requests, step_ns)
        except BaseException:
            if not told:      # it waits for something, and not for settings
                self.end()
            raise

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


@dataclass(frozen=True, slots=True)
class _Talk:
    """About one schedule."""

    python: str
    child: Child
    limits: Limits

    def settings(self, settings: Settings) -> Line:
        self.child.send(msgspec.json.encode(settings.told()) + b"\n", self.limits.start_s)
        return self._line(self.limits.start_s, begun=False)

    def requests(self, ready: Line, requests: Iterable[Request], step_ns: StepNs) -> Scheduled:
        if not isinstance(ready, Ready):
            raise self._odd(ready)
        arrivals_ns: list[int] = []
        for text in _texts(requests, arrivals_ns):
            self.child.send(text, self.limits.silent_s)
        gathered = Gathered.of(arrivals_ns)
        while True:
            match self._line(self.limits.silent_s):
                case PlannedStep() as step:
                    self._answer(step, step_ns, gathered)
                case RequestLine() as line:
                    gathered.served(line)
                case Refused() as line:
                    gathered.refused(line)
                case End() as end:
                    return gathered.result(ready, end)
                case odd:
                    raise self._odd(odd)

    def _answer(self, step: PlannedStep, step_ns: StepNs, gathered: Gathered) -> None:
        if step.step != gathered.steps_count():
            raise self._odd(step)
        took_ns = operator.index(step_ns(step))
        if took_ns < 0:
            raise AskedWrongly(f"step {step.step} cannot take {took_ns:,} ns")
        self.child.send(b'{"ns": %d}\n' % took_ns, self.limits.silent_s)
        gathered.step(step, took_ns)

    def _line(self, limit_s: float, begun: bool = True) -> Line:
        text = self.child.line(limit_s)
        if text is None:
            raise self._died(begun)
        try:
            return DECODER.decode(text)
        except msgspec.MsgspecError as error:
            shown = text[:SHOWN_LETTERS].decode(errors="replace")
            raise Failed(f"{self.child.name} said {shown!r}: {error}{self.child.last_lines()}") from error

    def _died(self, begun: bool) -> CannotAnswer | Failed:
        code = self.child.exit_code()
        found = fault(self.python, MODULE, self.child.stderr()) if code and not begun else None
        if isinstance(found, CannotAnswer):
            return found
        how = "closed its output" if code is None else f"ended with exit code {code}"
        return Failed(f"{self.child.name} {how}{self.child.last_lines()}")

    def _odd(self, line: Line) -> PellucidError:
        if isinstance(line, Error):
            return (AskedWrongly if line.what == "asked" else CannotAnswer)(f"{self.python}: {line.message}")
        return Failed(f"{self.child.name} said {str(line)[:SHOWN_LETTERS]} out of turn{self.child.last_lines()}")


DECODER = msgspec.json.Decoder(Line)


def _texts(requests: Iterable[Request], arrivals_ns: list[int]) -> Iterator[bytes]:
    """Lines by the bundle, the empty one at last. Arrivals are noted."""
    waiting = bytearray()
    for request in requests:
        arrivals_ns.append(request.arrival_ns)
        given = {f.name: getattr(request, f.name) for f in fields(request)}
        waiting += msgspec.json.encode({name: value for name, value in given.items() if value is not None}) + b"\n"
        if len(waiting) > SENT_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting) + b"\n"

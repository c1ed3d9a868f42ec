"""Hooks: the original runs once whatever we do, a fault is ours alone, and a wrong target is left untouched."""

from __future__ import annotations

import asyncio
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from pellucid_probe.guard import COST, MAX_ERRORS, Governor, Hook, StepHook, Target, argument


class Engine:
    def __init__(self) -> None:
        self.calls = 0

    def work(self, tokens: int, times: int = 2) -> int:
        self.calls += 1
        return tokens * times

    async def serve(self, scope: str, receive: str, send: str = "s") -> str:
        self.calls += 1
        return scope + receive + send


@pytest.fixture
def module() -> Iterator[Any]:
    made = types.ModuleType("fake_engine")
    made.Engine = type("Engine", (Engine,), dict(Engine.__dict__))  # type: ignore[attr-defined]
    sys.modules["fake_engine"] = made
    yield made
    del sys.modules["fake_engine"]


WORK = Target("fake_engine", "Engine.work", ("self", "tokens"))
SERVE = Target("fake_engine", "Engine.serve", ("self", "scope", "receive", "send"))


def slow() -> None:
    sum(range(20_000))


def boom(*_args: Any) -> None:
    raise RuntimeError("ours")


@pytest.mark.parametrize("make", [
    lambda: Hook(WORK, before=boom), lambda: Hook(WORK, after=boom), lambda: StepHook(WORK, boom),
    lambda: StepHook(WORK, lambda *_a: None, before=boom),
])  # fmt: skip
def test_a_raising_hook_never_reaches_the_engine_and_falls_silent(module: Any, make: Any) -> None:
    hook = make()
    assert hook.install() == ""
    engine = module.Engine()
    assert [engine.work(3, times=3) for _ in range(MAX_ERRORS + 3)] == [9] * (MAX_ERRORS + 3)
    assert engine.calls == MAX_ERRORS + 3
    assert (hook.on, hook.errors_count) == (False, MAX_ERRORS)
    assert "ours" in hook.last_error


def test_a_hook_that_two_facts_need_looks_once(module: Any) -> None:
    seen: list[Any] = []
    hook = Hook(WORK, before=lambda a, _k: seen.append(a[1]))
    assert (hook.install(), hook.install()) == ("", "")
    assert module.Engine().work(3) == 6
    assert seen == [3]


def test_an_exception_of_the_engine_passes_through_once(module: Any) -> None:
    seen: list[Any] = []
    Hook(WORK, before=lambda a, _k: seen.append(a), after=boom).install()
    with pytest.raises(TypeError):
        module.Engine().work(3, 2, 1, 0)
    assert len(seen) == 1


def test_arguments_are_found_by_place_and_by_name(module: Any) -> None:
    seen: list[int] = []
    Hook(WORK, before=lambda a, k: seen.append(argument(a, k, 1, "tokens"))).install()
    engine = module.Engine()
    engine.work(5)
    engine.work(tokens=6)
    assert seen == [5, 6]


def test_an_async_target_stays_one_and_still_refuses_a_wrong_call_at_once(module: Any) -> None:
    seen: list[str] = []
    assert Hook(SERVE, before=lambda a, k: seen.append(argument(a, k, 1, "scope"))).install() == ""
    engine = module.Engine()
    assert inspect.iscoroutinefunction(engine.serve)
    with pytest.raises(TypeError):
        engine.serve()          # a server tells an application from a factory by this
    assert asyncio.run(engine.serve("a", "b")) == "abs"
    assert asyncio.run(engine.serve("a", receive="b", send="c")) == "abc"
    assert seen == ["a", "a"]


@pytest.mark.parametrize(("target", "says"), [
    (Target("fake_engine", "Engine.gone", ("self",)), "gone"),
    (Target("fake_engine", "Engine.work", ("self", "batch")), "expected"),
    (Target("no_such_engine", "Engine.work", ("self",)), "no_such_engine"),
])  # fmt: skip
def test_a_target_that_changed_is_left_alone(module: Any, target: Target, says: str) -> None:
    before = dict(vars(module.Engine))
    assert says in Hook(target, after=boom).install()
    assert dict(vars(module.Engine)) == before


def test_a_hook_that_falls_silent_says_so_once(module: Any) -> None:
    hook, told = Hook(WORK, before=boom), []
    hook.on_silence = lambda: told.append(hook.on)
    hook.install()
    for _ in range(MAX_ERRORS + 3):
        module.Engine().work(1)
    assert told == [False]


def test_cost_is_counted(module: Any) -> None:
    for hook in (StepHook(WORK, lambda *_a: slow()), Hook(WORK, before=lambda *_a: slow()),
                 Hook(WORK, after=lambda *_a: slow())):  # fmt: skip
        before_ns = COST.ns
        hook.install()
        module.Engine().work(1)
        assert COST.ns - before_ns > 10_000


def spend(governor: Governor, windows: int, cost_ns: int, unit_ns: int, requests: int) -> list[bool]:
    """Runs whole windows; returns what the governor wanted in the last one."""
    wanted: list[bool] = []
    for _ in range(windows * Governor.WINDOW):
        spend.cost_ns += cost_ns        # type: ignore[attr-defined]
        spend.time_ns += unit_ns        # type: ignore[attr-defined]
        wanted.append(governor.wants_optional())
        if wanted[-1]:
            governor.packed(spend.time_ns, requests)        # type: ignore[attr-defined]
    return wanted[-Governor.WINDOW :]


spend.cost_ns = spend.time_ns = 0       # type: ignore[attr-defined]


def test_the_governor_samples_before_it_drops_and_only_above_its_budget() -> None:
    governor = Governor(lambda: spend.cost_ns)  # type: ignore[attr-defined]
    assert all(spend(governor, 4, cost_ns=9_000, unit_ns=1_000_000, requests=256))
    spend(governor, 1, cost_ns=11_000, unit_ns=1_000_000, requests=256)
    # The first one is noted before anybody has looked; a window's worth of samples later it looks again.
    assert sum(spend(governor, 1, 11_000, 1_000_000, 256)) == 1 + Governor.WINDOW // Governor.SAMPLE_EVERY
    assert governor.level == 2
    assert sum(spend(governor, 1, 11_000, 1_000_000, 256)) == 0


def test_the_governor_allows_more_for_long_steps_and_large_batches() -> None:
    for cost_ns, unit_ns, requests in ((40_000, 10_000_000, 16), (35_000, 1_000_000, 1024)):
        governor = Governor(lambda: spend.cost_ns)  # type: ignore[attr-defined]
        spend(governor, 4, cost_ns, unit_ns, requests)
        assert governor.level == 0

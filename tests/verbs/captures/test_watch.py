"""Why a capture is due, on a recording of a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.core.units import S_NS
from pellucid.verbs.captures.ask import Wish
from pellucid.verbs.captures.watch import Trigger, watch
from pellucid.verbs.captures.when import condition

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"


def test_a_finding_is_due_once() -> None:
    trigger = Trigger(finding=True)
    assert [trigger.due(GOLDEN / "long-prompts", 0) for _ in range(2)] == ["batch.prefill_stalling_decode is new", ""]
    assert trigger.due(GOLDEN / "healthy", 0) == ""
    assert trigger.due(GOLDEN / "long-prompts", 0) == "batch.prefill_stalling_decode is new"


@pytest.mark.parametrize(("text", "due"), [
    ("itl_p99 > 1ms", "itl_p99_ns > 1e+06"), ("itl_p99 > 1h", ""), ("itl_p99 > 1000x baseline", ""),
])  # fmt: skip
def test_a_condition_is_due_while_it_holds(text: str, due: str) -> None:
    trigger = Trigger(condition=condition(text))
    assert [trigger.due(GOLDEN / "long-prompts", 0) for _ in range(2)] == [due] * 2


def test_a_time_is_due_when_it_has_passed_since_the_last_capture() -> None:
    trigger = Trigger(every_ns=60 * S_NS)
    assert trigger.due(GOLDEN, 0)
    trigger.taken(10 * S_NS)
    assert [bool(trigger.due(GOLDEN, n * S_NS)) for n in (11, 69, 70)] == [False, False, True]


def test_without_an_engine_watching_ends_at_once(tmp_path: Path) -> None:
    clock = iter(range(0, 10**9 * S_NS, 1000 * S_NS))
    with pytest.raises(CannotAnswer, match="not being recorded"):
        watch(tmp_path, str(GOLDEN / "healthy"), Wish(), Trigger(every_ns=1), lambda: False, lambda *_: None,
              clock=lambda: next(clock))  # fmt: skip

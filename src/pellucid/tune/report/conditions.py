"""Under which conditions a session or a trial ran: its first event and what its trials tell of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.tune.command import Command, shareable
from pellucid.tune.report.measured import Measured
from pellucid.tune.report.shape import Conditions
from pellucid.tune.state import State


def conditions(state: State, outcomes: Sequence[Measured], asked: Mapping[str, Any]) -> Conditions:
    """The journal does not name the machine; its trials do, if any came to an outcome. `asked` is traffic and the
    session's seed, from which each trial has its own."""
    started, one = state.started, outcomes[0] if outcomes else None
    where = one.conditions if one else None
    traffic, seed = _traffic(asked or (_of(one) if one else {}))
    return Conditions(
        engine=(started.engine if started else "") or (where.engine if where else None),
        engine_version=(started.engine_version if started else "") or (where.engine_version if where else None),
        model=where.model if where else None, machine=where.machine if where else None,
        places=where.places if where else (), traffic=traffic, seed=seed, spent_ns=state.spent_ns,
        command=shareable(Command(started.command)).argv if started else (),
        workload=(started.workload if started else "") or (where.workload if where else None),
        slo=started.slo if started else None, maximise=started.maximise if started else None,
        budget_ns=started.budget_ns if started else None, error_ratio=started.error_ratio if started else None,
        may_restart=started.may_restart if started else None, control=started.control if started else None,
    )  # fmt: skip


def conditions_of(one: Measured) -> Conditions:
    """Of a trial alone."""
    traffic, seed = _traffic(_of(one))
    where = one.conditions
    return Conditions(
        engine=where.engine, engine_version=where.engine_version, model=where.model, machine=where.machine,
        places=where.places, command=one.command(), workload=where.workload, traffic=traffic, seed=seed, slo=None,
        maximise=one.effect.metrics[0].metric if one.effect and one.effect.metrics else None, budget_ns=None,
        spent_ns=one.took_ns, error_ratio=one.effect.level if one.effect else None, may_restart=None, control=None,
    )  # fmt: skip


def _of(one: Measured) -> dict[str, Any]:
    return {**one.conditions.traffic, "block_ns": one.conditions.block_ns}


def _traffic(said: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    seed = said.get("seed")
    return {name: value for name, value in said.items() if name != "seed"}, seed if isinstance(seed, int) else None

"""`pellucid predict --check`: how right a twin of one run is on the requests of another.

    checked = check(fitted, on)
    checked.rows      ({"measure": "ttft_p95_ns", "predicted": …, "low": …, "high": …, "measured": …,
                        "error_ratio": 0.03, "covered": True}, …)

The steps of the one and the load of the other: what a twin is for. The same run twice asks less, since the twin has
seen the steps it is asked about; that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.core.units import unit_of
from pellucid.sim.outcome import measures, of_run
from pellucid.sim.predict import LEVEL, Predicted, predict
from pellucid.sim.step.energy import JOULES, token_joules
from pellucid.sim.step.model import StepModel
from pellucid.sim.step.seen import Steps, seen
from pellucid.store.read import open_run
from pellucid.verbs.predict.asks import asks_of
from pellucid.verbs.predict.settings import present
from pellucid.verbs.predict.twin import alike, known_engine, twin_of
from pellucid.workload.recorded import recorded

SAME = "the twin has learnt from this very run: another load asks more of it. Try: --run ONE --check ANOTHER"


@dataclass(frozen=True, slots=True)
class Checked:
    fitted_on: str
    on: str
    rows: tuple[dict[str, Any], ...]
    predicted: Predicted
    notes: tuple[str, ...]

    @property
    def covered_count(self) -> int:
        return sum(bool(row["covered"]) for row in self.rows)

    def json(self) -> dict[str, Any]:
        names = self.rows[0] if self.rows else ()
        return {"fitted_on": self.fitted_on, "on": self.on, "rows": list(self.rows), "notes": list(self.notes),
                "units": {n: unit_of(n) for n in names if unit_of(n)}}  # fmt: skip


def check(fitted: Path, on: Path, also: Sequence[Path] = ()) -> Checked:
    """The settings are those of `on`, the steps' times those of `fitted` and of `also`.

    Raises CannotAnswer where the runs are of different engines or versions, or one lacks what it takes.
    """
    made, other = twin_of(open_run(fitted), [open_run(path) for path in also]), open_run(on)
    engine = known_engine(other)
    alike(made.engine, fitted.name, engine, on.name)
    workload = recorded(other, on.name)
    predicted = predict(asks_of(workload), present(engine), made.twin)
    timed = {**measures(of_run(other)), JOULES: token_joules(other)}
    rows = tuple(row for name in timed if (row := _row(name, predicted, timed[name])) is not None)
    notes = (*made.notes, SAME) if on in (fitted, *also) else (*made.notes, *_drift(made.twin.model, seen(other)))
    return Checked(", ".join(path.name for path in (fitted, *also)), on.name, rows, predicted, notes)


def _drift(model: StepModel, steps: Steps) -> list[str]:
    """Whether the steps themselves are not what they were: the same batches on a machine that is slower, or busier."""
    if not len(steps):
        return []
    ratio = float(steps.took_ns.sum() / model.expected_ns(steps).sum())
    off = model.off(LEVEL, len(steps))
    if off.low <= ratio <= off.high:
        return []
    return [f"its steps took {ratio:.2f} times what the twin says of the very same steps, and {off.low:.2f} to "
            f"{off.high:.2f} is usual: another machine, other clocks or a neighbour. The load is not why it is off"]


def _row(name: str, predicted: Predicted, measured: float | None) -> dict[str, Any] | None:
    said = predicted.measures.get(name)
    if said is None or measured is None:
        return None
    return {"measure": name, "predicted": said.value, "low": said.low, "high": said.high, "measured": measured,
            "error_ratio": said.value / measured - 1 if measured else None,
            "covered": said.low <= measured <= said.high, "half_width_ratio": said.half_width_ratio}  # fmt: skip

"""A recorded run → its twin: the settings that its schedule follows from, and how long its steps take.

    made = twin_of(open_run(folder))
    made.settings, made.twin.model.steps_count
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.settings import Settings
from pellucid.sim.predict import Twin
from pellucid.sim.step.energy import all_drawn, drawn, fit_energy
from pellucid.sim.step.fit import fit
from pellucid.sim.step.seen import joined, seen
from pellucid.store.read import RunReader
from pellucid.verbs.predict.settings import groups_count, present
from pellucid.verbs.why import engine_of

# A request is queued between two steps, so most of what lies between its submission and that is the wait for the step
# at hand, which the schedule has already. What is left is what the quickest needed: it came just before a step's end.
_DELAY = """
SELECT median(submitted_ns - arrival_ns) + quantile_cont(queued_ns - submitted_ns, 0.02) AS delay_ns,
       count(DISTINCT process) AS cores
FROM requests
"""


def known_engine(run: RunReader) -> Engine:
    engine = engine_of(run)
    if engine is None:
        raise CannotAnswer(f"{run.folder.name} does not say which engine it was. Try: record it with the probe in it")
    return engine


def alike(one: Engine, name: str, other: Engine, others_name: str) -> None:
    """Raises CannotAnswer where steps of the one say nothing of the other's."""
    if (one.name, one.version) != (other.name, other.version):
        raise CannotAnswer(f"{name} is of {one.name} {one.version}, {others_name} of {other.name} {other.version}: one "
                           "says nothing of the other")  # fmt: skip
    if one.config.get("model") != other.config.get("model"):
        raise CannotAnswer(f"{name} serves {one.config.get('model')}, {others_name} {other.config.get('model')}: their "
                           "steps are not alike")  # fmt: skip


@dataclass(frozen=True, slots=True)
class TwinOf:
    engine: Engine
    settings: Settings
    twin: Twin
    notes: tuple[str, ...]             # what it cannot follow, in words


def twin_of(run: RunReader, also: Sequence[RunReader] = ()) -> TwinOf:
    """`also`: other runs of the same engine, under other loads, whose steps are learnt from too.

    Raises CannotAnswer where a run does not have what a twin is made of, or is of another engine or model.
    """
    engine = known_engine(run)
    for other in also:
        alike(engine, run.folder.name, known_engine(other), other.folder.name)
    settings = present(engine)
    row = run.one(_DELAY)
    if row["cores"] > 1:
        raise CannotAnswer(f"requests went to {row['cores']} engine cores, and how they are spread is not followed")
    notes = []
    if row["delay_ns"] is None:
        notes.append("arrivals at the frontend were not seen: TTFT begins when a request is queued")
    if groups_count(engine) > 1:
        notes.append("the model's layers differ in what they keep: KV of long requests is taken to be more than it is")
    runs = (run, *also)
    model, energy = fit(joined([seen(one) for one in runs])), fit_energy(all_drawn([drawn(one) for one in runs]))
    return TwinOf(engine, settings, Twin(model, float(row["delay_ns"] or 0.0), energy), tuple(notes))

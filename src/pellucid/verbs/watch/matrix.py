"""The observation matrix: what is watched of an engine, beside its baseline, row by row.

    matrix(folder)["rows"][0]  → {"area": "prefill_decode", "metric": "ttft_p50_ns", "value": 81000000,
                                  "baseline": 75000000, "baseline_from": "own_past", "state": "ok", …}

`since_ns` asks for the last part of the run; `horizon_ns` looks no further back for a baseline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid.catalog.load import Observation, observations
from pellucid.core.run import read_info
from pellucid.core.units import unit_of
from pellucid.diagnose.matrix import Observed, observe
from pellucid.diagnose.past import Frame
from pellucid.diagnose.run import BlindFact
from pellucid.store.read import RunReader, open_run
from pellucid.verbs.visible.facts import latest_facts, unseen
from pellucid.verbs.why import notes

Answer = dict[str, Any]


def matrix(folder: Path, since_ns: int | None = None, horizon_ns: int | None = None) -> Answer:
    """Every row of the catalogue, whether it was seen or not. Never raises for what was not recorded."""
    run = open_run(folder)
    found = observe(run, _facts(run), since_ns, horizon_ns)
    return {
        "run": read_info(folder).run_id,
        "window": _window(found.frame),
        "rows": [_row(row, observations()[row.metric]) for row in found.rows],
        "units": {row.metric: unit_of(row.metric) for row in found.rows},
        "notes": notes(run),
    }


def _window(frame: Frame) -> Answer:
    """The window observed, and how much of the run's own past a baseline may come from."""
    return {
        "start_ns": frame.edges[-1] or None,      # null: from the beginning
        "end_ns": frame.end_ns,
        "past_windows_count": len(frame.edges) - 1,
        "healthy_windows_count": len(frame.healthy),
    }


def _row(row: Observed, entry: Observation) -> Answer:
    taken = entry.page if row.from_page and entry.page else entry
    source = {"own_past": "median of the run's own healthy windows", "catalogue": entry.baseline_source}
    return {
        "area": entry.area,
        "metric": row.metric,
        "value": row.value,
        "baseline": row.baseline,
        "baseline_from": row.baseline_from,
        "baseline_source": source.get(row.baseline_from or ""),
        "state": row.state,
        "says": row.says,
        "collect": row.collect,
        "times_worse": row.times_worse,
        "worse": entry.worse,
        "numerator": row.numerator,
        "from_page": row.from_page,
        "numerator_name": taken.numerator or None,
        "denominator": row.denominator,
        "denominator_name": taken.denominator or None,
        "over": taken.over,
        "over_count": row.over_count,
        "meaning": entry.meaning,
    }


def _facts(run: RunReader) -> dict[str, BlindFact | None]:
    """Every fact that a process spoke of; None for one that some process sees."""
    latest = latest_facts(run)
    blind = {
        name: BlindFact(
            "; ".join(sorted({f["reason"] for f in said if f["reason"]})) or "not visible",
            next((f["collect"] for f in said if f["collect"]), ""),
        )
        for name, said in unseen(latest).items()
    }
    return {str(f["fact"]): blind.get(str(f["fact"])) for f in latest}

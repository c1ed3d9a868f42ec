"""What twins claimed in `tune`, beside what came of it: for ever, by knobs and regime.

    of_twin(home).claims      [{"source": "twin.max_running_requests.queueing", "trials_count": 4, …}]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pellucid.verbs.loop.trials import Trials, trials


def of_twin(home: Path) -> Trials:
    found = trials(home, None)
    rows = [row for row in found.rows if row["proposer"] == "twin"]
    return replace(found, rows=rows, claims=[c for c in found.claims if c["source"].startswith("twin.")])

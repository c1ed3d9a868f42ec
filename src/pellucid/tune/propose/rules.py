"""Moves of findings → proposals. The claim is the gain that the rule states, so rules are held to what they say.

    propose(brief).proposals[0]      Proposal((max_running_requests=64,), "rules", "queue.sequence_cap_binding", …)

Findings come by gain, and a finding's moves in the rule's order; each move is a candidate of its own, in the form
that a running engine takes where there is one (`live`). Which moves this engine cannot make, the guard says.
"""

from __future__ import annotations

from typing import Any

from pellucid.catalog.knobs.spelling import Engine
from pellucid.catalog.load import knobs
from pellucid.tune.events import Claim, Proposal
from pellucid.tune.propose import Answer, Brief
from pellucid.tune.propose.live import as_live
from pellucid.tune.space import Setting


def propose(brief: Brief) -> Answer:
    """Done until the next observation: findings do not change while nothing else does."""
    found = tuple(_proposal(finding, move, brief.engine) for finding in brief.findings for move in finding["moves"])
    return Answer(tuple(p for p in found if p.candidate not in brief.seen), done=True)


def _proposal(finding: dict[str, Any], move: dict[str, Any], engine: Engine) -> Proposal:
    """`finding` as in `why --json`. A target outside of the knob's range is brought into it, as `why` shows it."""
    knob = knobs()[move["knob"]]
    target = min(max(float(move["target"]), knob.low), knob.high)
    value = bool(target) if knob.unit == "switch" else target if knob.unit == "ratio" else round(target)
    gain = finding["gain"]
    claim = Claim(gain["metric"], gain["low_ratio"], gain["high_ratio"])
    settings = as_live((Setting(move["knob"], value),), engine)
    return Proposal(settings, "rules", finding["id"], finding["says"], claim)

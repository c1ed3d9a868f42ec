"""What a twin found best → proposals, with what it predicts as their claim.

    propose(found, brief).proposals[0]      Proposal((max_running_requests=64,), "twin", "twin.…", "…", Claim(…))

Nothing is proposed that the twin does not hold to be better than the present settings with its whole interval: a trial
costs minutes, and its time is better spent on what somebody else proposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.tune.events import Claim, Proposal
from pellucid.tune.propose import Answer, Brief
from pellucid.tune.propose.live import as_live
from pellucid.tune.space import Candidate

MOST = 3       # chosen: from one search; what is measured of the first tells how far to trust the next


@dataclass(frozen=True, slots=True)
class Promise:
    """A candidate, and what is predicted of it against the present settings."""

    candidate: Candidate
    claim: Claim | None                # None where the goal is no metric of the catalogue
    better: bool                       # its whole interval is
    says: str
    regime: str                        # what the load was to the present engine: queueing, or keeping_up

    @property
    def source(self) -> str:
        """Whose claims are counted together: by knobs and regime."""
        return ".".join(("twin", "+".join(s.knob for s in self.candidate), self.regime))


def propose(promises: Sequence[Promise], brief: Brief) -> Answer:
    good = [(as_live(p.candidate, brief.engine), p) for p in promises if p.better and p.candidate]
    fresh = [(settings, p) for settings, p in good if settings not in brief.seen][:MOST]
    return Answer(tuple(Proposal(s, "twin", p.source, p.says, p.claim) for s, p in fresh), done=True)

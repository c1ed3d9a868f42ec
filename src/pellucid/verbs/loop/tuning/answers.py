"""The verdict on answers alone, on two engines booted for it."""

from __future__ import annotations

import contextlib

from pellucid.core.units import S_NS
from pellucid.tune.command import Command
from pellucid.verbs.loop.fidelity import Fidelity
from pellucid.verbs.loop.trial.answers import judge_answers
from pellucid.verbs.loop.trial.arms.booted import Booted, boot
from pellucid.verbs.loop.trial.lab import Lab
from pellucid.verbs.loop.tuning.wish import Wish


def compare(lab: Lab, present: Command, candidate: Command, wish: Wish, at_most_ns: int) -> Fidelity | str:
    """Why there is none, where an engine does not boot."""
    here, there = lab.places
    starts = [lab.start("present", present, here, 0), lab.start("candidate", candidate, there, 0)]
    with contextlib.ExitStack() as stack:
        found = boot(starts, lab.wish.boot_limit_s)
        good = [one for one in found if isinstance(one, Booted)]
        for one in good:
            stack.callback(one.end)
        if len(good) < len(found):
            return next(str(one) for one in found if not isinstance(one, Booted))
        reference, other = good
        budget_ns = min(int(wish.fidelity_s * S_NS), at_most_ns)
        return judge_answers(other, reference, lab, budget_ns)

"""Proposals of ours in the form that a running engine takes, where it does the same downwards.

    as_live((Setting("step_token_budget", 512),), engine)      (Setting("scheduled_token_budget", 512),)
    as_live((Setting("step_token_budget", 8192),), engine)     as it is: above what the engine has room for

A trial of such a candidate needs one engine instead of two that differ by themselves: it costs a boot at most, and
finds smaller gains. What is kept is what was tried, a flag of the engine as well.
"""

from __future__ import annotations

from pellucid.catalog.knobs.spelling import Engine, fitting, number
from pellucid.catalog.load import knobs
from pellucid.tune.space import Candidate, Setting, candidate, present_value


def as_live(settings: Candidate, engine: Engine) -> Candidate:
    """As it is unless all of it can be: a part that needs a start anew needs it for all."""
    found = [_live(one, engine) for one in settings]
    known = [one for one in found if one is not None]
    return candidate(known) if known and len(known) == len(found) else settings


def _live(one: Setting, engine: Engine) -> Setting | None:
    knob = knobs()[one.knob]
    own = fitting(one.knob, engine)
    if own is not None and own.probe:
        return one
    other = fitting(knob.live_as, engine) if knob.live_as else None
    have, wanted = number(present_value(one.knob, engine)), number(one.value)
    if other is None or not other.probe or have is None or wanted is None or wanted > have:
        return None
    return Setting(knob.live_as, one.value)

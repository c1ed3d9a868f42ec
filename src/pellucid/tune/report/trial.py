"""One trial of a report: what the journal says of it, and what its outcome adds.

    trial(of_the_state, proposed, Seen(…), Measured(…), running=False)     Trial(number=1, state="kept", …)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from pellucid.tune import state as was
from pellucid.tune.command import Command, shareable
from pellucid.tune.events import FidelityJudged, Measure, Peeked
from pellucid.tune.fidelity.verdict import Fidelity
from pellucid.tune.report.measured import Measured
from pellucid.tune.report.shape import Answers, Course, Look, Proposed, Ruling, Speed, State, Trial

NO_REQUESTS = "latencies of single requests: the trial kept none"

NOT_ENDED = "the trial is not at its end"


@dataclass(slots=True)
class Seen:
    """What the journal says beside the state."""

    ruling: Ruling | None
    began_wall_ns: int
    last_wall_ns: int
    peeks: list[Peeked] = field(default_factory=list)


def trial(one: was.Trial, proposed: Proposed, seen: Seen, outcome: Measured | str, running: bool) -> Trial:
    """Of a session."""
    measured = outcome if isinstance(outcome, Measured) else None
    courses = (measured.courses() if measured else ()) or _courses(seen.peeks)
    answers = _answers(one.fidelity, measured)
    state: State = one.end or ("running" if running else "cut off")
    return Trial(
        number=one.number, proposed=proposed, command=shareable(Command(one.started.command)).argv, state=state,
        why=one.says, ruling=seen.ruling, speed=_speed(one, measured), answers=answers, courses=courses,
        arms=measured.arms() if measured else (), requests=measured.requests if measured else (), broke=one.broke,
        troubles=measured.faults() if measured else (),
        notes=measured.all_notes() if measured else (), missing=_missing(one, courses, answers, outcome),
        began_wall_ns=seen.began_wall_ns, took_ns=seen.last_wall_ns - seen.began_wall_ns if one.end else None,
    )  # fmt: skip


def trial_of(one: Measured) -> Trial:
    """Alone."""
    answers = _answers(None, one)
    return Trial(
        number=1, proposed=Proposed(one.candidate, one.settings, "the command line", "", "", None), command=(),
        state="tried", why="it was a trial only: it is judged and never kept", ruling=None, speed=_alone(one),
        answers=answers, courses=one.courses(), arms=one.arms(), requests=one.requests, broke=None,
        troubles=one.faults(), notes=one.all_notes(), missing=_missing(None, one.courses(), answers, one),
        began_wall_ns=one.began_ns, took_ns=one.took_ns,
    )  # fmt: skip


def _speed(one: was.Trial, measured: Measured | None) -> Speed | None:
    if one.speed is None:
        return None
    s = one.speed
    reason = measured.reason if measured else str(s.evidence.get("reason", ""))
    return Speed(s.word, reason, s.measures, s.guards, s.pairs_count, s.duration_ns,
                 s.minutes_needed, one.started.error_ratio)  # fmt: skip


def _alone(one: Measured) -> Speed:
    needed, level = (one.effect.minutes_needed, one.effect.level) if one.effect else (None, None)
    measures, took_ns = tuple(_last(c) for c in one.courses() if c.looks), sum(p.duration_ns for p in one.pairs)
    return Speed(one.word, one.reason, measures, (), len(one.pairs), took_ns, needed, level)


def _last(course: Course) -> Measure:
    look = course.looks[-1]
    return Measure(course.metric, look.ratio, look.low_ratio, look.high_ratio, look.word)


def _answers(judged: FidelityJudged | None, measured: Measured | None) -> Answers | None:
    detail = _detail(judged.evidence) if judged and judged.evidence else None
    detail = detail or (measured.fidelity if measured else None)
    if judged is not None:
        return Answers(judged.word, judged.says, detail)
    return Answers(detail.word, detail.reason, detail) if detail else None


def _detail(evidence: object) -> Fidelity | None:
    try:
        return msgspec.convert(evidence, Fidelity)
    except msgspec.ValidationError:
        return None


def _courses(peeks: Sequence[Peeked]) -> tuple[Course, ...]:
    """From the journal's peeks, where there is no outcome: without margins, which it does not tell."""
    looks: dict[str, list[Look]] = {}
    for peek in peeks:
        for m in peek.measures:
            word = m.word or peek.word
            look = Look(peek.pairs_count, None, m.ratio, m.low_ratio, m.high_ratio, word)
            looks.setdefault(m.metric, []).append(look)
    return tuple(Course(metric, None, None, tuple(seen)) for metric, seen in looks.items())


def _missing(
    one: was.Trial | None, courses: Sequence[Course], answers: Answers | None, outcome: Measured | str,
) -> tuple[str, ...]:
    found = []
    if not any(course.looks for course in courses):
        found.append(f"the verdict over time: {'no pair was looked at' if one is None or one.end else NOT_ENDED}")
    elif any(course.margin_ratio is None for course in courses):
        found.append("margins in the verdict over time: the journal does not hold them")
    if isinstance(outcome, str):
        found.append(f"the blocks of both arms: {outcome if one is None or one.end else NOT_ENDED}")
    elif not outcome.pairs:
        found.append("the blocks of both arms: no pair was measured")
    elif not outcome.requests:
        found.append(NO_REQUESTS)
    if answers is None:
        found.append(f"a verdict on fidelity: {_unjudged(one, outcome)}")
    elif answers.detail is None:
        found.append("fidelity by task, with its floor and power: the journal has the word alone")
    return tuple(found)


def _unjudged(one: was.Trial | None, outcome: Measured | str) -> str:
    if isinstance(outcome, Measured) and outcome.fidelity_blind:
        return outcome.fidelity_blind
    if one is not None and one.speed is not None and not was.fast(one.speed):
        return "it was not found faster with everything else held, so its answers were not asked for"
    return "the trial ended before it" if one is None or one.end else NOT_ENDED

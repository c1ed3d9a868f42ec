"""Evidence from two engines → a verdict in one of five words. Pure: scores in, words out.

    fidelity = judge(Evidence(answers, pairs, floor, troubles=(), …), np.random.default_rng(0))
    fidelity.word, fidelity.reason     "different", "code: surprise -0.31 nats per token (p = 0.0002)"

First whatever makes a verdict impossible; then the answers that were served, by permutation; then the tokens that were
shown to both. The worse word of the two tests is the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from pellucid.collect.client.scores import Scores
from pellucid.tune.fidelity.answers import (
    CANDIDATE,
    REFERENCE,
    STATISTICS,
    SURPRISE,
    Answered,
    Table,
    measured,
    once,
)
from pellucid.tune.fidelity.forced import distances, mean_bounds
from pellucid.tune.fidelity.permute import Compared, compare, grouped
from pellucid.tune.fidelity.power import Corruption, smallest_found
from pellucid.tune.fidelity.verdict import (
    EMPTY,
    FLOOR_LEVEL,
    SIDE,
    TASK_MARGIN,
    WORST_FIRST,
    Difference,
    Fidelity,
    Forced,
    Task,
    Terms,
    Word,
)

ALL = "all"
LEAST_PROMPTS = 8        # of 2 and 4 answers each; with fewer hardly any exchange is rare enough to tell one task apart
BOOTSTRAPS = 2000


@dataclass(frozen=True, slots=True)
class Trouble:
    arm: str
    kind: str                # error, hang, lost, unreadable, tokens
    during: str
    says: str


@dataclass(frozen=True, slots=True)
class Evidence:
    answers: Sequence[Answered]                      # of both arms, scored on the reference
    pairs: Sequence[tuple[Scores, Scores]]           # the same tokens on reference and candidate
    floor: Sequence[tuple[Scores, Scores]]           # the same tokens on the reference, twice
    troubles: Sequence[Trouble] = ()
    prompts_count: int = 0
    judged_count: int = 0
    too_long_count: int = 0
    took_ns: int = 0


def judge(evidence: Evidence, random: np.random.Generator, terms: Terms | None = None) -> Fidelity:
    """The same evidence and the same state of `random` give the same verdict."""
    terms = terms or Terms()
    if stopped := _impossible(evidence):
        return Fidelity(*stopped, notes=_notes(evidence), took_ns=evidence.took_ns, terms=terms)
    tasks, unstable = _served(evidence, random, terms)
    forced = _forced(evidence, random, terms)
    said: list[tuple[Word, str]] = [(t.word, f"{t.task}: {t.reason}") for t in tasks]
    said.append((forced.word, f"shown the same tokens: {forced.reason}") if forced
                else ("blind", "no tokens were shown to the candidate"))  # fmt: skip
    if unstable:
        said.append(("blind", unstable))
    word, reason = min(said, key=lambda pair: WORST_FIRST.index(pair[0]))
    return Fidelity(word, reason, tasks, forced, _notes(evidence), evidence.took_ns, terms)


def _impossible(evidence: Evidence) -> tuple[Word, str] | None:
    for arm, word in ((CANDIDATE, "failed"), (REFERENCE, "blind")):
        if told := [t for t in evidence.troubles if t.arm == arm]:
            (kind, during), count = Counter((t.kind, t.during) for t in told).most_common(1)[0]
            first = next(t for t in told if (t.kind, t.during) == (kind, during))
            times = f" ({count} requests)" if count > 1 else ""
            return _word(word), f"the {arm}, {during}: {first.says}{times}"
    by_arm = {arm: [a for a in evidence.answers if a.arm == arm] for arm in (CANDIDATE, REFERENCE)}
    if not by_arm[CANDIDATE] or not by_arm[REFERENCE]:
        return "blind", "no prompt was answered by both; the budget is too small, or no prompt fits the context"
    empty = {arm: float(np.mean([not a.text for a in told])) for arm, told in by_arm.items()}
    if empty[REFERENCE] >= EMPTY.value:
        return "blind", f"{empty[REFERENCE]:.0%} of the reference's answers are empty: nothing to compare with"
    if empty[CANDIDATE] >= EMPTY.value:
        return "failed", f"{empty[CANDIDATE]:.0%} of the candidate's answers are empty; {empty[REFERENCE]:.0%} of the reference's"  # noqa: E501
    earlier = {a.prompt for a in by_arm[REFERENCE] if not a.later}
    if not earlier & {a.prompt for a in by_arm[REFERENCE] if a.later}:
        return "blind", "the reference did not answer twice: without that nobody knows what it differs from itself by"
    return None


def _word(text: str) -> Word:
    return next(w for w in WORST_FIRST if w == text)


def _served(evidence: Evidence, random: np.random.Generator, terms: Terms) -> tuple[tuple[Task, ...], str]:
    """Verdicts by task, and why the reference cannot be trusted, or ""."""
    answers = once(evidence.answers)
    table = measured(answers)
    prompts_of = Counter({a.prompt: a.task for a in answers}.values())
    names = [ALL, *sorted(t for t, n in prompts_of.items() if n >= LEAST_PROMPTS and len(prompts_of) > 1)]
    groups = [frozenset(prompts_of) if name == ALL else frozenset({name}) for name in names]
    compared = compare(grouped(table, groups), terms.draws_count, terms.level_ratio, random)
    own = [a for a in answers if a.arm == REFERENCE]
    of_reference = measured(own)
    itself = replace(of_reference, candidate=of_reference.later)
    floor = compare(grouped(itself, groups), terms.draws_count, terms.level_ratio, random)
    found = smallest_found(Corruption(own, of_reference), groups, compared.critical, terms.tries_count, random)
    tasks = tuple(
        _task(name, _count(table, group), (compared, floor), n, found[n], terms)
        for n, (name, group) in enumerate(zip(names, groups, strict=True))
    )
    place = np.unravel_index(int(floor.adjusted.argmin()), floor.adjusted.shape)
    least = float(floor.adjusted[place])
    unstable = "" if least > FLOOR_LEVEL.value else (
        f"the reference differs from itself in {STATISTICS[place[1]].name}, {names[place[0]]} (p = {least:.2g})")
    return tasks, unstable


@dataclass(frozen=True, slots=True)
class _Counts:
    prompts: int
    candidate: int
    reference: int


def _count(table: Table, group: frozenset[str]) -> _Counts:
    part = table.only(np.array([t in group for t in table.tasks], dtype=np.bool_))
    both = set(part.prompts[part.candidate].tolist()) & set(part.prompts[~part.candidate].tolist())
    return _Counts(len(both), int(part.candidate.sum()), int((~part.candidate).sum()))


def _task(
    name: str, counts: _Counts, tests: tuple[Compared, Compared], n: int, found: float | None, terms: Terms
) -> Task:  # fmt: skip
    compared, floor = tests
    margin = terms.margin_nats * (1.0 if name == ALL else TASK_MARGIN.value)
    quantile = float(stats.t.ppf(1 - SIDE.value, max(float(compared.freedom[n]), 1.0)))
    rows = tuple(
        Difference(
            s.name, s.unit, s.says, float(compared.differences[n, f]),
            float(compared.differences[n, f] - quantile * compared.errors[n, f]),
            float(compared.differences[n, f] + quantile * compared.errors[n, f]),
            float(compared.adjusted[n, f]), float(floor.differences[n, f]), float(floor.adjusted[n, f]),
        )
        for f, s in enumerate(STATISTICS)
    )  # fmt: skip
    word, reason = _told(rows, found, margin, terms)
    return Task(name, word, reason, counts.prompts, counts.candidate, counts.reference, found, margin,
                _needed(rows[SURPRISE], counts.prompts, margin) if word == "inconclusive" else None, rows)  # fmt: skip


def _told(rows: Sequence[Difference], found: float | None, margin: float, terms: Terms) -> tuple[Word, str]:
    apart = [
        r for r, s in zip(rows, STATISTICS, strict=True)
        if r.p_adjusted <= terms.level_ratio and abs(r.difference) > s.negligible
    ]  # fmt: skip
    if apart:
        first = min(apart, key=lambda r: r.p_adjusted)
        return "different", f"{first.name} {first.difference:+.3g} {first.unit} (p = {first.p_adjusted:.2g})"
    if found is None:
        return "blind", "not even a corruption of every token would have been found with these prompts"
    surprise = rows[SURPRISE]
    bounds = f"{surprise.low:+.3f} to {surprise.high:+.3f} nats per token"
    if -margin < surprise.low and surprise.high < margin:
        power = f"corrupting {found:.1%} of tokens would be found"
        return "same", f"surprise differs by {bounds}, within ±{margin:g}; {power}"
    return "inconclusive", f"surprise differs by {bounds}; ±{margin:g} was not shown"


def _needed(surprise: Difference, prompts_count: int, margin: float) -> int | None:
    """Prompts at which the bounds would be within the margin, if the difference were 0 and the spread as seen."""
    half = (surprise.high - surprise.low) / 2
    return None if half <= 0 else max(prompts_count + 1, int(np.ceil(prompts_count * (2 * half / margin) ** 2)))


def _forced(evidence: Evidence, random: np.random.Generator, terms: Terms) -> Forced | None:
    if not evidence.pairs or not evidence.floor:
        return None
    seen, floor = distances(evidence.pairs), distances(evidence.floor)
    kl, itself, limit = float(seen.kl_nats.mean()), float(floor.kl_nats.mean()), terms.kl_nats
    low, high = mean_bounds(seen.kl_nats, SIDE.value, BOOTSTRAPS, random)
    agreeing = float(np.average(seen.agreeing_ratio, weights=seen.tokens))
    said = f"KL {kl:.2g} nats per token ({low:.2g} to {high:.2g}; limit {limit:g}), the likeliest token is the same in {agreeing:.1%}"  # noqa: E501
    word: Word = "different" if low > limit else "same" if high < limit else "inconclusive"
    if itself > limit / 2:
        word, said = "blind", f"of the same tokens the reference has a KL of {itself:.2g} nats per token to itself"
    return Forced(
        word, said, kl, low, high, limit, agreeing, itself,
        float(np.average(floor.agreeing_ratio, weights=floor.tokens)), len(seen.tokens), int(seen.tokens.sum()),
    )  # fmt: skip


def _notes(evidence: Evidence) -> tuple[str, ...]:
    notes = []
    if evidence.too_long_count:
        notes.append(f"{evidence.too_long_count} of {evidence.prompts_count} prompts do not fit the context: left out")
    prompts_of = Counter({a.prompt: a.task for a in evidence.answers}.values())
    if few := sorted(t for t, n in prompts_of.items() if n < LEAST_PROMPTS and len(prompts_of) > 1):
        notes.append(f"judged among all only, with fewer than {LEAST_PROMPTS} prompts: {', '.join(few)}")
    wanted = evidence.prompts_count - evidence.too_long_count
    if evidence.judged_count < wanted:
        notes.append(f"{evidence.judged_count} of {wanted} prompts were used in the time there was")
    return tuple(notes)

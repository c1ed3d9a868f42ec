"""Needs → evidence → judge, over the span and each of its windows. Never raises: a rule that fails is `broken`.

    report = diagnose(run, since_ns=None)
    report.results[0].verdict.kind

A finding persists: found over the whole span and in most windows that had enough steps (3 of 5; with fewer than
five such windows in more than half of them, and in 2 at least). Otherwise it is clear, and says in how many it was.
A rule about kernels is asked once: a capture has few steps, and its evidence says how many of them it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pellucid.diagnose.evidence import WHOLE, Evidence, Window, gather
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import (
    BLIND,
    CLEAR,
    FOUND,
    NOT_APPLICABLE,
    Limit,
    Need,
    Row,
    Rule,
    Value,
    Verdict,
    blind,
    broken,
    clear,
    not_applicable,
)
from pellucid.diagnose.span_of import captures, pages
from pellucid.diagnose.span_of.load import NEEDS as LOAD_NEEDS
from pellucid.diagnose.span_of.load import expired_load, load_of
from pellucid.diagnose.span_of.steps import NEEDS as SPAN_NEEDS
from pellucid.diagnose.span_of.steps import Span, span_of
from pellucid.store.read import RunReader

MIN_STEPS = Limit(10, "steps", "chosen: a share of fewer than ten steps moves by a tenth with every step")
MIN_WINDOWS = Limit(2, "windows", "chosen: one window alone is a burst, not a state")


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    window: Window
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Result:
    rule: Rule
    verdict: Verdict
    evidence: Row = field(default_factory=Row)
    windows: tuple[WindowVerdict, ...] = ()

    def found_count(self) -> int:
        return sum(w.verdict.kind == FOUND for w in self.windows)

    def judged_count(self) -> int:
        return sum(w.verdict.kind in (FOUND, CLEAR) for w in self.windows)


@dataclass(frozen=True, slots=True)
class Report:
    span: Span | None
    results: tuple[Result, ...]
    load: dict[str, Value] = field(default_factory=dict)   # without a span: of expired steps, or empty


@dataclass(frozen=True, slots=True)
class BlindFact:
    reason: str
    collect: str


NO_CAPTURE = "no kernels were captured: pellucid profile captures some steps of a running engine"
KERNELS_ONLY = "this run has kernel traces only, and no steps of a running engine"
EXPIRED = BlindFact("the steps have expired, and minutes of them do not say it",
                    "set PELLUCID_RETAIN_S or PELLUCID_RETAIN_BYTES higher while recording")  # fmt: skip


def diagnose(run: RunReader, since_ns: int | None = None, rules: Iterable[Rule] | None = None) -> Report:
    asked = tuple(all_rules() if rules is None else rules)
    facts = _blind_facts(run)
    needs = (*SPAN_NEEDS, *LOAD_NEEDS, *pages.NEEDS, *captures.NEEDS, *(n for r in asked for n in r.needs))
    evidence = gather(run, needs, since_ns)
    stepped = span_of(evidence)
    span = stepped or pages.span_of(evidence)
    if span is None and (found := captures.span_of(evidence)) is not None:
        only = tuple(judge_rule(r, evidence, found, facts) if r.asked_of == "captures"
                     else Result(r, not_applicable(KERNELS_ONLY)) for r in asked)  # fmt: skip
        return Report(found, only, captures.load_of(evidence))
    requests_seen = bool(run.one("SELECT count(*) AS n FROM requests")["n"])
    if span is None:
        load = expired_load(run, evidence, requests_seen) if since_ns is None else {}
        known = facts | {"steps": EXPIRED} if load else facts
        return Report(None, tuple(Result(r, _nothing_recorded(r, known, since_ns)) for r in asked), load)
    results = tuple(judge_rule(r, evidence, span, facts) for r in asked)
    if stepped is None:
        return Report(span, results, pages.load_of(evidence, span))
    return Report(span, results, load_of(evidence, span, requests_seen))


def judge_rule(rule: Rule, evidence: Evidence, span: Span, facts: dict[str, BlindFact]) -> Result:
    least = MIN_STEPS.value if rule.asked_of == "windows" else 1
    row, whole = judge_once(rule, evidence, WHOLE, facts, least)
    if whole.kind != FOUND or rule.asked_of == "captures":
        return Result(rule, whole, row)
    parts = tuple(WindowVerdict(w, judge_once(rule, evidence, w, facts)[1]) for w in span.windows)
    return persist(Result(rule, whole, row, parts))


def persist(result: Result) -> Result:
    """Turns a finding that did not last into `clear`."""
    k, n = result.found_count(), result.judged_count()
    if k >= MIN_WINDOWS.value and k * 2 > n:
        return result
    says = f"{result.verdict.says}; but only in {k} of {n} windows, so it did not last"
    return replace(result, verdict=clear(says))


def judge_once(
    rule: Rule, evidence: Evidence, window: Window, facts: dict[str, BlindFact], min_rows: float = MIN_STEPS.value
) -> tuple[Row, Verdict]:
    """One rule over the span or one window of it."""
    if rule.instead_of in evidence.columns and evidence.seen(rule.instead_of, WHOLE)["*"]:
        return Row(), not_applicable(f"{rule.instead_of} were recorded: finer rules judge")
    if rule.asked_of == "captures" and not evidence.seen("captures", WHOLE)["*"]:
        return Row(), not_applicable(NO_CAPTURE)
    for need in rule.needs:
        if not need.columns:
            continue
        seen = evidence.seen(need.table, window)
        rows = seen["*"]
        lacking = [c for c in need.columns if not seen[c]]
        if not rows and need.fact in evidence.visible:
            return Row(), not_applicable(f"no {need.table}: the engine has none, or they were not used")
        if lacking and (rows or window == WHOLE):
            return Row(), _blind(need, lacking, rows, facts)
        if rows < min_rows:
            return Row(), not_applicable(f"only {rows} {need.table} here; it takes {min_rows:.0f} to judge")
    row = Row()
    try:
        row = evidence.row(rule, window)
        return row, rule.judge(row)
    except Exception as error:  # the promise of this file: one rule's bug never hides the others
        return row, broken(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}")


def _blind(need: Need, lacking: list[str], rows: int, facts: dict[str, BlindFact]) -> Verdict:
    names = [need.fact, *(n for c in lacking for n in (f"{need.table}.{c}", c, need.table))]
    known = next((facts[n] for n in names if n in facts), None)
    saw = f"null in all {rows} rows" if rows else "no row was recorded"
    says = f"no {', '.join(f'{need.table}.{c}' for c in lacking)}: {known.reason if known else saw}"
    return blind(says, known.collect if known and known.collect else need.collect)


def _nothing_recorded(rule: Rule, facts: dict[str, BlindFact], since_ns: int | None) -> Verdict:
    need = next(n for n in rule.needs if n.columns)
    if since_ns is not None:
        return blind(f"no {need.table} in the time asked for", "ask for a longer time, or send the engine traffic")
    return _blind(need, list(need.columns), 0, facts)


def _blind_facts(run: RunReader) -> dict[str, BlindFact]:
    """Facts no process could see. One that some process sees is not blind."""
    rows = run.rows(
        "SELECT fact, any_value(reason) AS reason, any_value(collect) AS collect FROM facts "
        "GROUP BY fact HAVING count(*) FILTER (state = 'visible') = 0"
    )
    return {r["fact"]: BlindFact(r["reason"] or "not visible", r["collect"] or "") for r in rows}


__all__ = ["BLIND", "CLEAR", "FOUND", "NOT_APPLICABLE", "Report", "Result", "diagnose", "judge_once", "persist"]

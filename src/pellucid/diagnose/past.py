"""Where an observation looks: the window asked for, and the run's own past before it, judged by the rules.

    |  past 0  |  past 1  |  past 2  |  past 3  | window |
     healthy    found      healthy    healthy     ← observed

Without a span asked for, the run is cut into parts with the same busy time and the last of them is the window. A past
window is healthy when a rule could judge it and none found anything in it; rules that cannot judge the whole are not
asked. A run of metrics pages is cut by time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.diagnose.evidence import WHOLE, Evidence, Window, gather
from pellucid.diagnose.rule import Limit, Rule
from pellucid.diagnose.run import CLEAR, FOUND, judge_once
from pellucid.diagnose.span_of import pages
from pellucid.diagnose.span_of.steps import NEEDS, Span, cuts, span_of
from pellucid.store.read import RunReader

PAST_WINDOWS = Limit(5, "windows", "chosen: as many as a finding is looked for in; an odd one does not move the median")
WINDOW_STEPS = Limit(20, "steps", "chosen: twice what a rule takes to judge, since every rule has to be asked")
WINDOW_PAGES = Limit(4, "pages", "chosen: three increases at least, whichever page the cut falls on")
Cut = Callable[[Evidence, int, int, int], list[int] | None]


@dataclass(frozen=True, slots=True)
class Frame:
    edges: tuple[int, ...]       # starts of the windows: the past ones, then the one asked for, which has no end
    healthy: tuple[int, ...]     # which past windows are
    end_ns: int | None           # end of the last step, or the last metrics page; None without either


def look_back(
    run: RunReader, rules: Sequence[Rule], since_ns: int | None = None, horizon_ns: int | None = None
) -> Frame:
    """`since_ns` asks for the last part of the run, `horizon_ns` looks no further back than that."""
    evidence = gather(run, (*NEEDS, *pages.NEEDS, *(n for r in rules for n in r.needs)), horizon_ns)
    stepped = span_of(evidence)
    span = stepped or pages.span_of(evidence)
    if span is None:
        return Frame((0,), (), None)
    first_ns = 0 if horizon_ns is None else span.start_ns     # 0: with what came before the first step
    cut = _cut_steps if stepped else _cut_pages
    edges = _edges(evidence, span, since_ns, first_ns, cut)
    if stepped is None:  # a page tells what came before it
        edges = (edges[0], *(edge + 1 for edge in edges[1:]))
    past = [Window(a, b) for a, b in pairwise(edges)]
    windowed = [rule for rule in rules if rule.asked_of == "windows"]
    able = [rule for rule in windowed if past and judge_once(rule, evidence, WHOLE, {})[1].kind in (CLEAR, FOUND)]
    healthy = tuple(n for n, window in enumerate(past) if _healthy(able, evidence, window))
    return Frame(edges, healthy, span.end_ns)


def _edges(evidence: Evidence, span: Span, since_ns: int | None, first_ns: int, cut: Cut) -> tuple[int, ...]:
    whole_ns = span.end_ns + 1
    start_ns = whole_ns if since_ns is None else max(span.start_ns, span.end_ns - since_ns)
    inner = cut(evidence, span.start_ns, start_ns, int(PAST_WINDOWS.value) + (since_ns is None))
    if since_ns is None:
        return (first_ns, *(inner or ()))
    return (start_ns,) if inner is None else (first_ns, *inner, start_ns)


def _cut_steps(evidence: Evidence, start_ns: int, end_ns: int, most: int) -> list[int] | None:
    """Cuts into parts of the same busy time with enough steps in each; None where not even one has enough."""
    (steps,) = evidence.rows(f"SELECT count(*) AS steps_count FROM _all_steps WHERE start_ns < {end_ns}")
    parts = min(most, int(steps.number("steps_count") // WINDOW_STEPS.value))
    return cuts(evidence, start_ns, end_ns, parts) if parts > 1 else [] if parts else None


def _cut_pages(evidence: Evidence, start_ns: int, end_ns: int, most: int) -> list[int] | None:
    """The same by pages and time: how busy the engine was, no page says."""
    (row,) = evidence.rows(f"SELECT count(DISTINCT end_ns) AS pages_count FROM _all_metrics WHERE end_ns < {end_ns}")
    parts = min(most, int(row.number("pages_count") // WINDOW_PAGES.value))
    return [start_ns + (end_ns - start_ns) * n // parts for n in range(1, parts)] if parts else None


def _healthy(rules: Sequence[Rule], evidence: Evidence, window: Window) -> bool:
    kinds = {judge_once(rule, evidence, window, {})[1].kind for rule in rules}
    return CLEAR in kinds and FOUND not in kinds

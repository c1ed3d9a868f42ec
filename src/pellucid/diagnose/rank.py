"""Findings in order: by gain, symptoms folded under their cause. What users of the engine feel comes first.

    ranked = rank(report.results)
    ranked[0].result.rule.id, [s.rule.id for s in ranked[0].symptoms]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.diagnose.rule import FOUND
from pellucid.diagnose.run import Result


@dataclass(frozen=True, slots=True)
class Ranked:
    result: Result
    symptoms: tuple[Result, ...]     # found too, but explained by this one


def rank(results: Iterable[Result]) -> list[Ranked]:
    found = {r.rule.id: r for r in results if r.verdict.kind == FOUND}
    roots = {name: _root(name, found) for name in found}
    causes = sorted(sorted(n for n, root in roots.items() if n == root), key=lambda n: _size(found[n]), reverse=True)
    return [
        Ranked(found[c], tuple(found[n] for n, root in sorted(roots.items()) if root == c and n != c)) for c in causes
    ]


def _root(name: str, found: dict[str, Result]) -> str:
    """Follows `explained_by` as long as the cause was found too. The rules have no cycle (a test sees to it)."""
    cause = next((c for c in found[name].rule.explained_by if c in found), None)
    return name if cause is None else _root(cause, found)


def _size(result: Result) -> tuple[bool, float]:
    """End to end before local (memory set free makes no request faster), then the middle of the claimed range."""
    gain = result.verdict.gain
    return (gain.scope == "end_to_end", (gain.low_ratio + gain.high_ratio) / 2) if gain else (False, 0.0)

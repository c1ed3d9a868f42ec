"""Span and load of a run that has nothing but kernel traces.

    load_of(evidence)   {"captures_count": 1, "captured_steps_count": 16, "kernels_count": 14455, "kernels_ns": …}
"""

from __future__ import annotations

from pellucid.diagnose.evidence import Evidence
from pellucid.diagnose.rule import Need, Value
from pellucid.diagnose.span_of.steps import Span

NEEDS = (Need("captures", (), "", ("capture", "start_ns", "end_ns", "steps_count", "kernels_count", "kernels_ns")),
         Need("kernels", (), "", ("kind", "duration_ns")))  # fmt: skip


def span_of(evidence: Evidence) -> Span | None:
    """None without a capture. A table of sums has no times: its span is empty."""
    (edge,) = evidence.rows("SELECT count(*) AS captures_count, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM _all_captures")  # noqa: E501
    if not edge["captures_count"]:
        return None
    return Span(int(edge["first_ns"] or 0), int(edge["last_ns"] or 0), 0, ())


def load_of(evidence: Evidence) -> dict[str, Value]:
    (row,) = evidence.rows("""
        SELECT count(*) AS captures_count, sum(steps_count)::BIGINT AS captured_steps_count,
               sum(kernels_count)::BIGINT AS kernels_count, sum(kernels_ns)::BIGINT AS kernels_ns,
               (SELECT sum(duration_ns) FROM _all_kernels WHERE kind = 'memcpy')::BIGINT AS copies_ns
        FROM _all_captures""")
    return dict(row)

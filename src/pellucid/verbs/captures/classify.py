"""Names of kernels → what kind of work each does. Lines in, one answer for each in the same order; nothing is kept.

    list(classified(["nvjet_tst_128x8_v_bz_TNT"]))  == [{"name": "nvjet_…", "class": "gemm", "detail": "nvjet", …}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pellucid.trace.classify import classify

Answer = dict[str, str | float | None]


def classified(names: Iterable[str], op: str | None = None) -> Iterator[Answer]:
    """`op`: the operator that launched them, where known. Keys are always there; null: the name does not tell."""
    for name in names:
        label = classify(name, op)
        yield {
            "name": name, "class": label.category, "detail": label.detail or None, "confidence": label.confidence,
            "told": label.told or None, "phase": label.phase or None, "precision": label.precision,
            "library": label.library or None,
        }  # fmt: skip

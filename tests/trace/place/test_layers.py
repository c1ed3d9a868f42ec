"""Layers by what repeats, on classes written out."""

from __future__ import annotations

import pytest

from pellucid.trace.place.layers import OUTSIDE, layers

SHORT = {"e": "embedding", "n": "norm", "g": "gemm", "A": "attention", "S": "ssm_linear_attn", "s": "sampling"}


def seen(text: str) -> str:
    """Kernels a letter each → their layers, a digit each, "." outside."""
    classes = [SHORT[c] for c in text]
    found = layers(classes, [c in "AS" for c in text])
    return "".join("." if n == OUTSIDE else str(n) for n in found.tolist())


@pytest.mark.parametrize(("kernels", "wanted"), [
    ("engAgngngAgngngAgngns", ".000000111111222222.."),       # what is before and behind is outside
    ("eAgAgAgs", ".001122."),
    ("engAgns", "......."),                                    # once is no repetition
    ("", ""),
    ("gggg", "...."),
    ("engSgngngAgngngSgngns", ".000000111111222222.."),       # layers whose mixers differ
    ("engAAgngngAAgngns", ".00000001111111.."),                 # two kernels in a row are one mixer
    ("AA", ".."),
    ("AgA", "001"),                                            # the last layer is cut
])  # fmt: skip
def test_a_layer_begins_where_it_looks_like_the_next(kernels: str, wanted: str) -> None:
    assert seen(kernels) == wanted

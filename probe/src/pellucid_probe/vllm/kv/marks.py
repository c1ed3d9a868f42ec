"""Places in a prompt that are found again wherever its text stands: behind a date of another length, say.

    marks(tokens) → [37, 102, …]     positions; at each, a fingerprint of the WINDOW tokens from there on is comparable

A place is chosen by the two tokens that stand there and by nothing before them (content-defined chunking, as in
Muthitacharoen et al., LBFS, SOSP 2001, by one pair of tokens instead of a rolling hash: that is one pass in C).
"""

from __future__ import annotations

from operator import xor
from typing import List, Sequence

from pellucid_probe.kv_records import LOOKED_AT

WINDOW = 16            # tokens: the smallest block of the engine, so what is alike by a window could have been a block
_EVERY, _ONE = 31, 7   # a prime: one pair in so many is a place; equal neighbours (padding, placeholders) never are


def marks(tokens: Sequence[int]) -> List[int]:
    """Positions with WINDOW tokens to follow, in order; one in 31 on average."""
    last = min(len(tokens) - WINDOW, LOOKED_AT)
    pairs = map(xor, tokens[: last + 1], tokens[1 : last + 2])
    return [at for at, pair in enumerate(pairs) if pair % _EVERY == _ONE] if last >= 0 else []

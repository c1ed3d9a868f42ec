"""Places in a prompt that are found again wherever its text stands: behind a date of another length, say.

    marks(low) → [37, 102, …]     positions; at each, a fingerprint of the WINDOW tokens from there on is comparable

A place is chosen by the two tokens that stand there and by nothing before them (content-defined chunking, as in
Muthitacharoen et al., LBFS, SOSP 2001, by one pair of tokens instead of a rolling hash): the low bytes of their ids are
of two kinds, which a regular expression finds at 10 ns a token. No byte is of both, so equal neighbours, as padding and
placeholders are, choose nothing.
"""

from __future__ import annotations

import re
from typing import List

from pellucid_probe.kv_records import LOOKED_AT

WINDOW = 16            # tokens: the smallest block of the engine, so what is alike by a window could have been a block


def _bytes(*kinds: int) -> bytes:
    return re.escape(bytes(byte for byte in range(256) if byte % 11 in kinds))


_PAIR = re.compile(b"[%b](?=[%b])" % (_bytes(0, 1), _bytes(5, 6)))     # one pair in 30, ids being spread evenly


def marks(low: bytes) -> List[int]:
    """The low bytes of a prompt's token ids → positions with WINDOW tokens to follow, in order."""
    last = min(len(low) - WINDOW, LOOKED_AT)
    return [found.start() for found in _PAIR.finditer(low, 0, max(0, last + 2))]

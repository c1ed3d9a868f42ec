"""Text → words as rules spell them, one space between and at both ends.

    spelled("reshape_and_cache_flash")         == " reshape and cache flash "
    spelled("BatchDecodeWithPagedKVCache")     == " batch decode with paged kv cache "
    head_words("engine::act_and_mul_kernel")   == " engine ^ act and mul kernel $ "
"""

from __future__ import annotations

import re

from pellucid.catalog.kernels.names_of import words

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MARKS = ("^", "$", "..")
_SAME = words().same
_JOINED = tuple(words().joined.items())


def spelled(text: str) -> str:
    same = _SAME.get
    return joined(" " + " ".join([same(w, w) for w in map(str.lower, WORD.findall(text))]) + " ")


def joined(text: str) -> str:
    for torn, whole in _JOINED:
        if torn in text:
            text = text.replace(torn, whole)
    return text


def head_words(head: str) -> str:
    """`^` and `$` stand where the function's own name begins and ends."""
    space, _, own = head.rpartition("::")
    return f"{spelled(space)}^{spelled(own)}$ " if space else f" ^{spelled(own)}$ "


def phrase(text: str) -> tuple[str, ...]:
    """A phrase of a rule → pieces that have to be found one after the other."""
    pieces: list[list[str]] = [[]]
    for word in text.split():
        if word == "..":
            pieces.append([])
        else:
            pieces[-1].append(word if word in MARKS else spelled(word).strip())
    return tuple(joined(" " + " ".join(piece) + " ") for piece in pieces)


def follows(pieces: tuple[str, ...], text: str) -> bool:
    """Are they all in the text, one after the other?"""
    at = 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece) - 1
    return True

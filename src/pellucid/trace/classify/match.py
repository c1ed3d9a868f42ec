"""Words of a name → the rule with the highest rank that they keep. Rules are indexed by one word of each phrase.

    best(" engine ^ rms norm kernel $ ", "c10::half") == Hit("norm", Rule(rank=75, detail="rmsnorm", …))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pellucid.catalog.kernels.names_of import Op, Rule, ops, rules, words
from pellucid.trace.classify.spelling import MARKS, follows, phrase

# Most names have these, few phrases do: as if so many phrases had them.
EVERYWHERE = dict.fromkeys(("kernel", "at", "native", "fused", "device", "to", "fp", "bf", "float"), 1000)


@dataclass(frozen=True, slots=True)
class Hit:
    category: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Phrase:
    order: tuple[int, int, int]            # rank, words, minus place in the files: the highest counts
    pieces: tuple[str, ...]
    unless: tuple[tuple[str, ...], ...]
    hit: Hit


@cache
def index() -> dict[str, list[Phrase]]:
    """Word → phrases that have it, the highest first. Of a phrase's words it is the one that fewest phrases have."""
    listed = list(_phrases())
    counts = Counter(word for phrase_ in listed for word in _said(phrase_))
    found: dict[str, list[Phrase]] = {}
    for phrase_ in listed:
        rarest = min(_said(phrase_), key=lambda w: (counts[w] + EVERYWHERE.get(w, 0), -len(w)))
        found.setdefault(rarest, []).append(phrase_)
    return {word: sorted(of, key=lambda p: p.order, reverse=True) for word, of in found.items()}


def _phrases() -> Iterator[Phrase]:
    listed = [(category, rule) for category, of in rules().items() for rule in of]
    for place, (category, rule) in enumerate(listed):
        unless = tuple(phrase(text) for text in rule.unless)
        for text in rule.name:
            pieces = phrase(text)
            order = (rule.rank, sum(len(piece.split()) for piece in pieces), -place)
            yield Phrase(order, pieces, unless, Hit(category, rule))


def _said(phrase_: Phrase) -> set[str]:
    return {w for piece in phrase_.pieces for w in piece.split() if w not in MARKS}


def best(text: str, arguments: str) -> Hit | None:
    """`text` as `head_words` gives it, `arguments` in small letters."""
    order: tuple[int, int, int] = (0, 0, 0)
    hit: Hit | None = None
    lookup = index().get
    for word in set(text.split()):
        for candidate in lookup(word, ()):
            if candidate.order <= order:
                break
            if _keeps(candidate, text, arguments):
                order, hit = candidate.order, candidate.hit
                break
    return hit


def _keeps(candidate: Phrase, text: str, arguments: str) -> bool:
    """Loops instead of `any`: this is most of what a name costs."""
    if not follows(candidate.pieces, text):
        return False
    for pieces in candidate.unless:
        if (pieces[0] in text) if len(pieces) == 1 else follows(pieces, text):
            return False
    within = candidate.hit.rule.within
    for needle in within:
        if needle in arguments:
            return True
    return not within


@cache
def _op_phrases() -> tuple[tuple[Op, tuple[tuple[str, ...], ...]], ...]:
    return tuple((op, tuple(phrase(text) for text in op.name)) for op in ops())


def op_of(text: str) -> Op | None:
    return next((op for op, phrases in _op_phrases() if any(follows(p, text) for p in phrases)), None)


@cache
def wrapper_phrases() -> tuple[tuple[str, ...], ...]:
    return tuple(phrase(text) for text in words().wrappers)


def is_wrapper(text: str) -> bool:
    return any(follows(pieces, text) for pieces in wrapper_phrases())


def fragment(text: str) -> str:
    """What long words of the text are made of, in the rules' spelling; "" where nothing is known of them."""
    said = []
    for word in text.split():
        if len(word) >= 8:
            said += [meaning for piece, meaning in words().fragments.items() if piece in word]
    return f" {' '.join(said)} " if said else ""

"""The name of a GPU kernel → what kind of work it does. Text in, one label out; nothing is looked up anywhere.

    classify("void engine::rms_norm_kernel<c10::BFloat16>(…)")  == Label("norm", "rmsnorm", 0.92, "words", …)
    classify("void at::native::elementwise_kernel<…>(…)", op="aten::copy_").category  == "copy"
    classify("kernel_7").category  == "unknown"

The rules are data: `catalog/kernels/names`. A wrong answer costs more than none, so what no rule knows is `unknown`.
Where an operator is given, it decides for names that are unknown, and for those of kernels that do many kinds of work
where `ops.toml` says so (`over`). Names are read up to `READ_CHARS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pellucid.catalog.kernels.names_of import Phase, Precision, words
from pellucid.trace.classify.demangle import demangle
from pellucid.trace.classify.match import Hit, best, fragment, is_wrapper, op_of
from pellucid.trace.classify.parts import Parts, split
from pellucid.trace.classify.spelling import head_words, spelled

UNKNOWN = "unknown"
# Chosen, all of them: what tells the work stands first, and template arguments by the thousand after it. READ_CHARS has
# 96 % of the corpus's names whole, PRECISION_CHARS the types a kernel works on, INSIDE_CHARS the first of all.
READ_CHARS, PRECISION_CHARS, INSIDE_CHARS = 2_048, 256, 300
WRAPPED_BELOW = 85      # a rule of this rank stands above what is between a wrapper's brackets
INSIDE_RANK = 50        # words that mean one thing: weaker ones mean nothing among the names of types
Word = TypeVar("Word", bound=str)
Told = Literal["family", "words", "word", "hint", "inside", "op", ""]


@dataclass(frozen=True, slots=True)
class Label:
    """What a name tells. `confidence` is the share of right answers among names told alike: see CONFIDENCE."""

    category: str                    # of categories.toml, or "unknown"
    detail: str = ""                 # generation, library or format; "" where not known
    confidence: float = 0.0          # 0 … 1; 0 for unknown
    told: Told = ""                  # how it was told
    phase: Phase = ""                # a hint: decode kernels run in mixed steps too; "" where the name does not tell
    precision: Precision | None = None   # the narrowest the name speaks of; None where it does not
    library: str = ""                # "" where not known


# Family and words: measured on 480 names of families that the rules had not seen (268 of 275, and 167 of 181, right).
# The others told 6 of them, too few to measure: chosen, in that order.
CONFIDENCE: dict[Told, float] = {
    "family": 0.97, "words": 0.92, "word": 0.8, "inside": 0.6, "hint": 0.6, "op": 0.5, "": 0.0,
}  # fmt: skip
PRECISIONS = tuple((needle, entry.label) for entry in words().precision for needle in entry.has)
LIBRARIES = tuple((needle, entry.label) for entry in words().library for needle in entry.has)


def classify(name: str, op: str | None = None) -> Label:
    """Never raises, whatever the text. `op` is the operator that launched the kernel, as a profiler names it."""
    text = demangle(name[:READ_CHARS].strip())
    parts = split(text)
    head, said = head_words(parts.head), text[:PRECISION_CHARS].lower()
    hit, told = _hit(head, parts)
    rule = hit.rule if hit else None
    label = Label(
        hit.category if hit else UNKNOWN, rule.detail if rule and told != "inside" else "", CONFIDENCE[told], told,
        _phase(hit, head) if hit else "", _first(PRECISIONS, said),
        (rule.library if rule else "") or _first(LIBRARIES, parts.head.lower()) or "",
    )  # fmt: skip
    return _with_op(label, op) if op else label


def _hit(head: str, parts: Parts) -> tuple[Hit | None, Told]:
    """The function's own name first, then pieces of its long words, then what is between the brackets."""
    hit = best(head, parts.arguments.lower())
    if hit and not (hit.rule.rank < WRAPPED_BELOW and is_wrapper(head)):
        return hit, _told(hit.rule.rank)
    if (pieces := fragment(head)) and (found := best(pieces, "")):
        return found, "hint"
    found = best(spelled(parts.arguments[:INSIDE_CHARS]), "") if parts.arguments else None
    if found and found.rule.rank >= INSIDE_RANK:
        return found, "inside"
    return hit, _told(hit.rule.rank) if hit else ""


def _told(rank: int) -> Told:
    return "family" if rank >= 90 else "words" if rank >= 70 else "word" if rank >= 50 else "hint"


def _phase(hit: Hit, head: str) -> Phase:
    if hit.rule.phase or not hit.rule.only_phase or hit.category not in words().phase_categories:
        return hit.rule.phase
    return next((phase for word, phase in words().phases.items() if f" {word} " in head), "")


def _first(listed: tuple[tuple[str, Word], ...], text: str) -> Word | None:
    for needle, meaning in listed:
        if needle in text:
            return meaning
    return None


def _with_op(label: Label, op: str) -> Label:
    said = op_of(spelled(op)) if "::" in op or op.startswith("nccl:") else None   # annotations are free text
    if said is None or not (label.category == UNKNOWN or label.category in said.over):
        return label
    return replace(label, category=said.category, detail=said.detail, confidence=CONFIDENCE["op"], told="op")

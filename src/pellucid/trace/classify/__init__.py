"""The name of a GPU kernel → what kind of work it does. Text in, one label out; nothing is looked up anywhere.

    classify("void vllm::rms_norm_kernel<c10::BFloat16>(…)")  == Label("norm", "rmsnorm", 0.9, "words", …)
    classify("void at::native::elementwise_kernel<…>(…)", op="aten::copy_").category  == "copy"
    classify("kernel_7").category  == "unknown"

The rules are data: `catalog/kernel_names`. A wrong answer costs more than none, so what no rule knows is `unknown`.
Where an operator is given, it decides for names that are unknown, and for those of kernels that do many kinds of work
where `ops.toml` says so (`over`). Names are read up to `READ_CHARS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pellucid.catalog.load_kernel_names import Phase, Precision, words
from pellucid.trace.classify.demangle import demangle
from pellucid.trace.classify.match import Hit, best, fragment, is_wrapper, op_of
from pellucid.trace.classify.parts import Parts, split
from pellucid.trace.classify.spelling import head_words, spelled

UNKNOWN = "unknown"
READ_CHARS = 2_048      # chosen: whole for 96 % of the corpus; the rest are template arguments by the thousand, after what tells
PRECISION_CHARS = 256   # chosen: the types that a kernel works on come first, its other parameters later
WRAPPED_BELOW = 85
INSIDE_RANK = 50
INSIDE_CHARS = 300      # chosen: the first type between the brackets of a wrapper names the work, later ones are layouts
Told = Literal["family", "words", "word", "hint", "inside", "op", ""]


@dataclass(frozen=True, slots=True)
class Label:
    """What a name tells. `confidence` is a share of right answers expected of names told in the same way."""

    category: str                    # of catalog/kernel_names/categories.toml, or "unknown"
    detail: str = ""                 # generation, library or format; "" where not known
    confidence: float = 0.0          # 0 … 1; 0 for unknown. CONFIDENCE has its source
    told: Told = ""                  # how it was told
    phase: Phase = ""                # a hint: decode kernels run in mixed steps too; "" where the name does not tell
    precision: Precision | None = None   # the narrowest the name speaks of; None where it does not
    library: str = ""                # "" where not known


CONFIDENCE: dict[Told, float] = {"family": 0.97, "words": 0.9, "word": 0.8, "hint": 0.6, "inside": 0.6, "op": 0.5, "": 0.0}

PRECISIONS = tuple((needle, entry.label) for entry in words().precision for needle in entry.has)
LIBRARIES = tuple((needle, entry.label) for entry in words().library for needle in entry.has)
Word = TypeVar("Word", bound=str)


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
    if parts.arguments and (found := best(spelled(parts.arguments[:INSIDE_CHARS]), "")) and found.rule.rank >= INSIDE_RANK:
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
    said = op_of(spelled(op))
    if said is None or not (label.category == UNKNOWN or label.category in said.over):
        return label
    return replace(label, category=said.category, detail=said.detail, confidence=CONFIDENCE["op"], told="op")

"""The folder `names` → frozen records: what tells the work of a GPU kernel from its name.

    words().same["attn"]              == "attention"
    rules()["attention"][0].name      == ["flash attention forward", …]
    ops()[0].category                 == "gemm"
    categories()["comm"]              == "data that moves between devices …"

Strict as `load`: an unknown key, a wrong type, a category that `categories.toml` does not have, each with the file's
name. How the records decide is said at the top of `words.toml`; deciding is `trace.classify`'s.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

NAMES = Path(__file__).with_name("names")
NO_RULES = ("words.toml", "categories.toml", "ops.toml")
Phase = Literal["", "prefill", "decode"]
Precision = Literal["fp4", "int4", "fp8", "int8", "bf16", "fp16", "tf32", "fp32"]
Rank = Annotated[int, msgspec.Meta(ge=1, le=99)]
Phrases = Annotated[list[str], msgspec.Meta(min_length=1)]
Kind = TypeVar("Kind")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the phrases of `name` is in the name, none of `unless` is, and one of `within` is between its brackets."""

    rank: Rank
    name: Phrases
    within: list[str] = []     # pieces of text, small letters; [] where the brackets do not matter
    unless: list[str] = []
    detail: str = ""           # "" where the name tells no more than the category
    library: str = ""          # "" where `words.toml` finds it, or nothing does
    phase: Phase = ""
    only_phase: bool = True    # False: words such as "decode" mean something else here


class Op(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator's name says of the kernels it launches."""

    category: str
    name: Phrases
    detail: str = ""
    over: list[str] = []       # categories of kernels that do many kinds of work, which this operator decides


class Needles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of a name that has one of these pieces of text, small letters."""

    label: str
    has: Phrases


class PrecisionNeedles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: Precision
    has: Phrases


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    same: dict[str, str]               # a word → how rules spell it
    joined: dict[str, str]             # words that were torn apart → how rules spell them
    fragments: dict[str, str]          # part of a long word → what to look for instead
    wrappers: list[str]                # names that say nothing: what is between their brackets says it
    phases: dict[str, Literal["prefill", "decode"]]
    phase_categories: list[str]        # where those words tell the phase
    library: list[Needles]
    precision: list[PrecisionNeedles]


def read_words(path: Path) -> Words:
    return _decode(path, Words)


@cache
def words() -> Words:
    return read_words(NAMES / "words.toml")


@cache
def categories() -> dict[str, str]:
    """Category → meaning, in the order of the reference page."""
    return _decode(NAMES / "categories.toml", dict[str, str])


def read_rules(path: Path) -> dict[str, list[Rule]]:
    """Category → rules of one file. Raises ValueError that names the file and the category."""
    found = _decode(path, dict[str, list[Rule]])
    if strange := found.keys() - categories().keys():
        raise ValueError(f"{path.name}: {', '.join(sorted(strange))} is in no line of categories.toml")
    return found


@cache
def rules() -> dict[str, list[Rule]]:
    """Category → rules, in the order of the files' names."""
    found: dict[str, list[Rule]] = {name: [] for name in categories()}
    for path in sorted(NAMES.glob("*.toml")):
        if path.name not in NO_RULES:
            for category, listed in read_rules(path).items():
                found[category] += listed
    return found


def read_ops(path: Path) -> list[Op]:
    """Raises ValueError that names the file and the category."""
    found = _decode(path, dict[Literal["op"], list[Op]])["op"]
    for op in found:
        if strange := {op.category, *op.over} - categories().keys():
            raise ValueError(f"{path.name}: {', '.join(sorted(strange))} is in no line of categories.toml")
    return found


@cache
def ops() -> list[Op]:
    return read_ops(NAMES / "ops.toml")


def _decode(path: Path, kind: type[Kind]) -> Kind:
    try:
        return msgspec.toml.decode(path.read_text(), type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from error

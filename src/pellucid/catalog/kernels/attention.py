"""`attention_generations.toml` → frozen records: which attention kernels were made for a compute capability.

    generations()["9.0"].made_for                     ["fa3", …]
    generations()["9.0"].older_of("fa2").high_times   1.94: as many times as fast its successor was seen to be
    generations().get("12.0")                         None: not judged
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

FILE = "attention_generations.toml"


class Older(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A generation that runs here and was made for an earlier device."""

    detail: str
    low_times: float       # how many times as fast the newer one was seen to be, at least …
    high_times: float      # … and at most
    source: str
    knob: str              # of knobs.toml
    target: float          # what to set it to


class Generations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one compute capability."""

    newer: str             # name of the generation that older ones are compared with
    made_for: list[str]    # details of kernels
    source: str
    older: list[Older] = []

    def older_of(self, detail: str) -> Older | None:
        """None where a kernel is of no older generation, or of none that is known."""
        return next((o for o in self.older if o.detail == detail), None)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    capability: dict[str, Generations]


def read_generations(text: str, name: str = FILE) -> dict[str, Generations]:
    """Raises ValueError with the file's name, and that of the capability where the types do not say it."""
    try:
        found = msgspec.toml.decode(text, type=_File).capability
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{name}: {error}") from error
    for capability, of in found.items():
        for older in of.older:
            if older.detail in of.made_for or not 1 <= older.low_times < older.high_times:
                raise ValueError(f"{name}: {capability}: {older.detail} is no older generation, or its times are odd")
    return found


@cache
def generations() -> dict[str, Generations]:
    """By compute capability."""
    return read_generations((Path(__file__).with_name(FILE)).read_text())

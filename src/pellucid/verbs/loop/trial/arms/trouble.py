"""What can be wrong with an arm, each with one word, what was seen, and the end of its log.

    Trouble("candidate", "does not boot", "ended with code 1 after 14 s", log_tail=("ValueError: …",))
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Role = Literal["present", "candidate"]
Word = Literal["does not fit", "does not boot", "boots too slowly", "died", "hangs", "answers with errors"]
TAIL_LINES = 12      # what a stack trace's end takes


@dataclass(frozen=True, slots=True)
class Trouble:
    role: Role
    word: Word
    detail: str
    log_tail: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        who = "the present configuration" if self.role == "present" else "the candidate"
        return f"{who} {self.word}: {self.detail}"


def tail(log: Path) -> tuple[str, ...]:
    """The last lines of a log; empty where there is none."""
    try:
        return tuple(log.read_text(errors="replace").rstrip().splitlines()[-TAIL_LINES:])
    except OSError:
        return ()

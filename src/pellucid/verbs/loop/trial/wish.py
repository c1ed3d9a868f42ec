"""What is to be tried, and with what: all that a trial is told by its user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.catalog.servers.command_line import Words
from pellucid.tune.effect.aim import Aim
from pellucid.tune.effect.spend import Spend
from pellucid.tune.slo import Slo
from pellucid.verbs.loop.asks import Wish as Traffic
from pellucid.verbs.loop.trial.arms.resident import Resident

Say = Callable[[str], None]
PAUSE_S = 1.2             # before a block: workers spin for about 1 s after their last request (a CPU engine, 2 cores)
LIMIT_BLOCKS = 6.0
OVERDUE_S = 30.0          # chosen: above six times its length, what a block may take; an arm that slow is not worth it
FIDELITY_S = 300.0        # what the verdict on fidelity takes unless it is told otherwise
BOOT_LIMIT_S = 900.0      # chosen: models of some hundred GB are read from a disk and compiled in ten minutes


@dataclass(frozen=True, slots=True)
class Wish:
    settings: tuple[str, ...]                       # NAME=VALUE, as typed; none: the present one against itself
    command: Words                                  # the engine's, as its user starts it
    workload: Path
    home: Path
    # Goes before the command, to have it recorded in that folder, and where asked with live settings.
    launcher: Callable[[Path, bool], Sequence[str]]
    budget_s: float
    aim: Aim
    slo: Slo = ()
    pairs_most: int | None = None
    block_s: float = 10.0
    traffic: Traffic = field(default_factory=Traffic)
    boot_limit_s: float = BOOT_LIMIT_S
    pause_s: float = PAUSE_S
    overdue_s: float = OVERDUE_S
    fidelity_s: float = FIDELITY_S                  # for the verdict on answers, above the budget; 0: none
    spend: Spend = field(default=Spend(number=1))   # of the session's error; a trial alone is a session of one
    live: bool | None = None                        # whether one engine is both arms; None: as the settings allow
    resident: Resident | None = None                # stays up for the next trial that is live; None: none does
    noise: Path | None = None                       # A/A blocks to use; None: those of these conditions in `home`

    @property
    def block_limit_s(self) -> float:
        """What a block may take."""
        return self.overdue_s + LIMIT_BLOCKS * self.block_s

"""Two arms on one engine: a setting that it takes while it runs, put in or taken back when an arm's turn begins.

    present, other = shared(booted, {"sequence_cap": 4})
    other.use()        the engine has it now, until the lease ends
    other.still()      raises where it has not had it since
    present.use()      it has what it was started with

The lease is as long as there are any: should this process be killed, its engine goes too (`booted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pellucid.catalog.knobs.resolve import resolve
from pellucid.catalog.load import knobs
from pellucid.collect.client.play import Target
from pellucid.core.errors import CannotAnswer
from pellucid.core.run import read_info, run_folders
from pellucid.tune.space import Value
from pellucid.verbs.loop.live import LEASE_S, Desk, open_desk, renew, revert, set_values
from pellucid.verbs.loop.trial.arms.booted import Booted
from pellucid.verbs.loop.trial.arms.trouble import Role, Trouble


@dataclass(frozen=True, slots=True)
class Shared:
    role: Role
    engine: Booted
    desk: Desk
    values: Mapping[str, Value]      # none: as it was started

    @property
    def target(self) -> Target:
        return self.engine.target

    def use(self) -> None:
        """Raises AskedWrongly with the engine's own bound, Failed where it does not answer."""
        if self.values:
            set_values(self.desk, self.values, LEASE_S)
        else:
            revert(self.desk)

    def still(self) -> None:
        """Raises AskedWrongly where the lease has ended meanwhile, Failed where the engine does not answer."""
        if self.values:
            renew(self.desk, LEASE_S)

    def trouble(self) -> Trouble | None:
        return self.engine.trouble()

    def rss_bytes(self) -> int | None:
        return self.engine.rss_bytes()


def shared(booted: Booted, values: Mapping[str, Value]) -> tuple[Shared, Shared]:
    """Raises CannotAnswer where the engine takes no live settings."""
    found = run_folders(booted.start.folder)
    if not found:
        raise CannotAnswer("the engine is not recorded, so nothing can be set while it runs. Try: pellucid doctor")
    desk = open_desk(Path(read_info(found[0]).source), by="pellucid try")
    return Shared("present", booted, desk, {}), Shared("candidate", booted, desk, values)


def are_live(names: list[str], engine: str) -> bool:
    """Whether an engine takes all of these settings while it runs. Raises AskedWrongly on a name that is none."""
    found = [knobs()[resolve(name, engine)].spellings for name in names]
    return bool(found) and all(any(s.engine == engine and s.probe for s in spellings) for spellings in found)

"""An engine that stays up from one trial of live settings to the next: a boot takes as long as many pairs.

    resident = Resident()
    with resident.engine(start, boot_it) as booted: …     boots, or goes on with the one that is up
    resident.end()                                        before anything else needs the machine, and at the end

It is used again only as it was started: same command and variables, alive, and nothing of the last trial in force. What
ends a trial by an exception ends the engine too, for nobody knows then what is in force.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pellucid.verbs.loop.trial.arms.booted import Booted, Start


@dataclass(slots=True)
class Resident:
    booted: Booted | None = None

    @property
    def is_up(self) -> bool:
        return self.booted is not None

    def end(self) -> None:
        """Twice is once."""
        booted, self.booted = self.booted, None
        if booted is not None:
            booted.end()

    @contextlib.contextmanager
    def engine(self, start: Start, boot: Callable[[Start], Booted]) -> Iterator[tuple[Booted, bool]]:
        """The engine, and whether it was up before. Raises as `boot` does."""
        was_up = self._serves_as(start)
        if not was_up:
            self.end()
            self.booted = boot(start)
        assert self.booted is not None
        try:
            yield self.booted, was_up
        except BaseException:
            self.end()
            raise

    def _serves_as(self, start: Start) -> bool:
        booted = self.booted
        same = booted is not None and (booted.start.words, booted.start.env) == (start.words, start.env)
        return same and booted is not None and booted.trouble() is None

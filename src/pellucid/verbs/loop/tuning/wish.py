"""What a session is asked for; kept in its folder, so that it can go on after its process was killed.

    $PELLUCID_HOME/sessions/20261130-091500-a1b2/wish.json
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pellucid.core.errors import CannotAnswer
from pellucid.core.whole import replacing
from pellucid.tune.effect.aim import Aim, Guard
from pellucid.tune.effect.pairs import DIRECTIONS
from pellucid.tune.slo import Slo, read_goal, read_slo
from pellucid.verbs.loop.asks import Wish as Traffic

FILE = "wish.json"


class Wish(msgspec.Struct, frozen=True):
    command: tuple[str, ...]                  # the engine's, as its user starts it
    workload: str
    slo: str = ""                             # as typed
    maximise: str = "throughput"
    budget_s: float = 1800.0
    trial_s: float = 600.0                    # most for one trial, starts of engines included
    observe_s: float = 40.0                   # of traffic, before a diagnosis
    block_s: float = 10.0
    fidelity_s: float = 300.0
    listed: str = ""                          # a file of candidates
    program: tuple[str, ...] = ()             # an outside proposer
    rules: bool = True                        # moves of findings are proposed
    twin: bool = True                         # what a twin of the observed run holds to be better is proposed
    speed: float = 1.0
    scale_tokens: float = 1.0
    seed: int = 0

    @property
    def limits(self) -> Slo:
        return read_slo(self.slo) if self.slo else ()

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.speed, self.scale_tokens, self.seed)

    def aim(self) -> Aim:
        """The goal, and each limit's own measure beside it. Raises AskedWrongly."""
        goal = read_goal(self.maximise, self.limits)
        beside = dict.fromkeys(o.measure for o in self.limits if o.measure in DIRECTIONS and o.measure != goal)
        return Aim(goal, guards=tuple(Guard(measure) for measure in beside))


def save(wish: Wish, folder: Path) -> None:
    """Raises Failed where the disk refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / FILE) as part:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(wish)))


def read(folder: Path) -> Wish:
    """Raises CannotAnswer where the session did not say what it wants."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Wish)
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotAnswer(f"session {folder.name} cannot go on: {folder / FILE} does not read ({error}). Start a new one") from error  # noqa: E501

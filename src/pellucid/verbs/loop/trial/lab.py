"""Where a trial takes place: the machine, the command, the traffic. Made once; boots what it is asked to.

    lab = Lab.of(wish, os.environ, trial_id)
    lab.start("candidate", command, place, number=0)     → Start: an engine's words, environment and folder
    lab.pieces(booted)                                   → the workload's pieces, as this engine can take them
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pellucid.catalog.knobs.spelling import Engine
from pellucid.catalog.servers.command_line import CommandLine, understood
from pellucid.collect.client.served import vocabulary_of
from pellucid.core.errors import AskedWrongly
from pellucid.tune.command import Command
from pellucid.verbs.loop.asks import Room
from pellucid.verbs.loop.trial.arms import memory
from pellucid.verbs.loop.trial.arms.booted import Booted, Start
from pellucid.verbs.loop.trial.arms.machine import Machine, here
from pellucid.verbs.loop.trial.arms.place import Place, placed, places, whole
from pellucid.verbs.loop.trial.arms.shared import are_live
from pellucid.verbs.loop.trial.arms.trouble import Role
from pellucid.verbs.loop.trial.outcome import Conditions
from pellucid.verbs.loop.trial.pieces import Pieces
from pellucid.verbs.loop.trial.wish import Wish
from pellucid.workload.file import Workload, read
from pellucid.workload.prompts import Vocabulary

# Where a model's files do not say it. Chosen: below any vocabulary in use; the first ids are often special ones.
ANY_VOCABULARY = (1000, 10)


@dataclass(frozen=True, slots=True)
class Lab:
    wish: Wish
    entry: CommandLine
    machine: Machine
    places: tuple[Place, Place]
    environ: Mapping[str, str]
    workload: Workload
    folder: Path

    @classmethod
    def of(cls, wish: Wish, environ: Mapping[str, str], trial_id: str) -> Lab:
        """Raises AskedWrongly where the command, the machine or the workload does not allow a trial."""
        entry = understood(wish.command)
        machine = here(environ, entry)
        clean = {k: v for k, v in environ.items() if k != "PELLUCID_DIR"}
        where = places(machine, entry, wish.command, environ)
        lab = cls(wish, entry, machine, where, clean, read(wish.workload), wish.home / "trials" / trial_id)
        up = wish.resident is not None and wish.resident.is_up      # and what it takes is not available any more
        if not up and (fault := lab.memory_fault(Command(wish.command))):
            raise AskedWrongly(f"{fault}. Try a smaller KV cache in the command, for both")
        return lab

    def is_live(self) -> bool:
        """Whether the engine takes all of the settings while it runs. Raises AskedWrongly on a name that is none."""
        if self.wish.live is not None:
            return self.wish.live
        return are_live([text.partition("=")[0].strip() for text in self.wish.settings], self.entry.engine)

    def start(self, role: Role, command: Command, place: Place, number: int, control: bool = False) -> Start:
        folder = self.folder / f"start-{number}" / role
        env = {**self.environ, **dict(command.env), **place.env}
        words = placed(command.argv, place, self.entry)
        return Start(role, self.entry, words, env, folder, self.wish.launcher(folder, control))

    def memory_fault(self, candidate: Command) -> str:
        """Why the present configuration and the candidate do not fit beside each other, or on one engine; "" if they
        may."""
        apart = ((Command(self.wish.command), self.places[0]), (candidate, self.places[1]))
        both = ((Command(self.wish.command), whole(self.machine)),) if self.is_live() else apart
        needs = [
            memory.needs_bytes(placed(c.argv, p, self.entry), {**self.environ, **dict(c.env)}, self.entry, self.machine)
            for c, p in both
        ]
        return memory.fault(needs, self.machine)

    def pieces(self, booted: Booted) -> Pieces:
        """Raises AskedWrongly where the engine does not say how long a request may be."""
        said = booted.served
        if said is None or said.context_tokens is None:
            raise AskedWrongly("the engine does not say how long a request may be: it is none whose answers we know")
        room = Room(vocabulary(said.root), said.context_tokens)
        return Pieces.cut(self.workload, self.wish.traffic, room, said.dialect, self.wish.block_s)

    def conditions(self, engine: Engine, booted: Booted, left_out: dict[str, int]) -> Conditions:
        here = (whole(self.machine).name,) if self.is_live() else tuple(p.name for p in self.places)
        return Conditions(
            machine=self.machine.name, places=here, engine=engine.name,
            engine_version=engine.version, model=booted.target.model, command=self.wish.command,
            workload=f"{self.wish.workload.name} ({self.workload.about.source})", traffic=asdict(self.wish.traffic),
            block_ns=int(self.wish.block_s * 1e9), left_out=left_out,
        )  # fmt: skip


def vocabulary(root: str | None) -> Vocabulary:
    """Of the model in that folder, from its configuration."""
    try:
        found = vocabulary_of(json.loads((Path(root or "") / "config.json").read_text()))
    except (OSError, ValueError):
        found = None
    return Vocabulary(*(found or ANY_VOCABULARY))


def noise_conditions(conditions: Conditions) -> dict[str, str]:
    """What two engines' bias may depend on, as text. Not the seed."""
    traffic = {name: value for name, value in conditions.traffic.items() if name != "seed"}
    return {
        "machine": conditions.machine, "places": " | ".join(conditions.places), "model": conditions.model,
        "engine": f"{conditions.engine} {conditions.engine_version}", "command": " ".join(conditions.command),
        "workload": conditions.workload, "traffic": json.dumps(traffic, sort_keys=True),
        "block": f"{conditions.block_ns / 1e9:g} s",
    }  # fmt: skip

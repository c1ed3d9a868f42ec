"""The two arms of a trial as engines: booted, watched, ended. Whatever ends this process ends them (`launch/guarded`).

    found = boot([Start("present", words, env, folder), Start("candidate", …)], limit_s=600)
    found                      [Booted(…), Trouble("candidate", "does not boot", …)]: one for each, in order
    found[0].use()             it is this arm's turn
    found[0].trouble()         None, or Trouble("present", "died", …)

    folder/engine.log          what the engine said
    folder/runs/…              its recording: the probe is in, and a recorder beside it, as with `pellucid run`
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pellucid.catalog.knobs.spelling import Engine
from pellucid.catalog.servers.command_line import CommandLine, Words, put, value
from pellucid.collect.client.play import Target
from pellucid.collect.client.served import Served, served
from pellucid.core.errors import Failed, PellucidError
from pellucid.core.run import read_info, run_folders
from pellucid.verbs.launch.descent import rss_bytes
from pellucid.verbs.launch.guarded import Guarded, start
from pellucid.verbs.launch.run import probe_sources
from pellucid.verbs.launch.serving import free_port, healthy, told
from pellucid.verbs.loop.trial.arms.trouble import Role, Trouble, tail

HOST = "127.0.0.1"      # nobody else is to send to an engine that is being measured
LOOK_S = 0.2
END_S = 30.0            # chosen: an idle engine goes in 2 to 5 s, and its recorder drains in one more
LOG = "engine.log"


class Arm(Protocol):
    """One side of a trial. An engine of its own, or one that both sides share and that is set anew at each turn."""

    @property
    def role(self) -> Role: ...

    @property
    def target(self) -> Target:
        """Where requests go."""

    def use(self) -> None:
        """Its turn begins. Raises Failed where it cannot be made to."""

    def trouble(self) -> Trouble | None:
        """Why it does not serve any more."""

    def rss_bytes(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Start:
    """An engine to be booted."""

    role: Role
    entry: CommandLine
    words: Words                     # the user's, changed and placed; the port is ours
    env: Mapping[str, str]           # all of it
    folder: Path
    launcher: Sequence[str]          # goes before the words: `pellucid run --home FOLDER --`


@dataclass(slots=True)
class Booted:
    """An engine that serves; an arm of its own."""

    role: Role
    start: Start
    guarded: Guarded
    target: Target                         # its model is known once it serves
    boot_s: float = 0.0
    served: Served | None = None           # what it says of itself, once it serves

    def use(self) -> None:
        """It is there anyway."""

    def trouble(self) -> Trouble | None:
        code = self.guarded.code()
        log_tail = tail(self.guarded.log)
        if code is not None:
            return Trouble(self.role, "died", f"ended with code {code}", log_tail)
        if not any(healthy(self.target.url + self.start.entry.health) for _ in range(3)):
            return Trouble(self.role, "died", "its processes are there, its health page is not", log_tail)
        return None

    def rss_bytes(self) -> int | None:
        return None if self.guarded.pid is None else rss_bytes(self.guarded.pid)

    def end(self) -> int:
        """How many processes had to be killed."""
        return self.guarded.end(END_S)


def boot(starts: Sequence[Start], limit_s: float) -> list[Booted | Trouble]:
    """Starts them at once and waits until each serves or is known not to. Ends those that do not; the others stay."""
    begun = [_begin(one) for one in starts]
    try:
        return _wait(begun, limit_s)
    except BaseException:
        for one in begun:
            if isinstance(one, Booted):
                one.guarded.cut()
        raise


def seen(booted: Booted) -> Engine:
    """What the engine is, by its probe. Without one its own page has the version, and the configuration is unknown."""
    entry = booted.start.entry
    for run in run_folders(booted.start.folder):
        for source in probe_sources(Path(read_info(run).source)).values():
            if source.get("config") and source.get("engine_version"):
                return Engine(entry.engine, str(source["engine_version"]), source["config"])
    version = (told(booted.target.url + entry.version, booted.target.headers) or {}).get("version")
    return Engine(entry.engine, str(version or ""), {})


def _begin(one: Start) -> Booted | Trouble:
    port = free_port()
    words = put(put(one.words, one.entry.port, str(port)), one.entry.host, HOST)
    try:
        guarded = start((*one.launcher, *words), one.env, one.folder / LOG)
    except Failed as error:
        return Trouble(one.role, "does not boot", str(error))
    key = value(words, one.entry.api_key) or one.env.get(one.entry.api_key_env)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Booted(one.role, one, guarded, Target(f"http://{HOST}:{port}", "", headers=headers))


def _wait(begun: Sequence[Booted | Trouble], limit_s: float) -> list[Booted | Trouble]:
    found = list(begun)
    began_s = time.monotonic()
    waiting = {i for i, one in enumerate(found) if isinstance(one, Booted)}
    while waiting:
        for i in sorted(waiting):
            one = found[i]
            assert isinstance(one, Booted)
            waited_s = time.monotonic() - began_s
            now = _look(one, waited_s, limit_s)
            if now is not None:
                found[i] = now
                waiting.remove(i)
        time.sleep(LOOK_S)
    return found


def _look(one: Booted, waited_s: float, limit_s: float) -> Booted | Trouble | None:
    """The engine if it serves, its trouble if it will not, None while that is open."""
    code = one.guarded.code()
    if code is not None:
        one.end()
        detail = f"ended with code {code} after {waited_s:.0f} s"
        return Trouble(one.role, "does not boot", detail, tail(one.guarded.log))
    if healthy(one.target.url + one.start.entry.health):
        return _served(one, waited_s)
    if waited_s > limit_s:
        one.guarded.cut()
        return Trouble(one.role, "boots too slowly", f"does not serve after {waited_s:.0f} s", tail(one.guarded.log))
    return None


def _served(one: Booted, waited_s: float) -> Booted | Trouble:
    try:
        said = served(one.target.url, None, one.target.headers)
    except PellucidError as error:
        one.guarded.cut()
        return Trouble(one.role, "does not boot", f"healthy after {waited_s:.0f} s, but {error}", tail(one.guarded.log))
    one.boot_s, one.served = waited_s, said
    one.target = replace(one.target, model=said.model, dialect=said.dialect)
    return one

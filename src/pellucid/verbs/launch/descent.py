"""Processes by descent and by session, from /proc; and killing all of them.

    members(4711)       → [Member(4711, "python", "python -m …"), Member(4730, "engine-core", …)]   of the session 4711
    descendants(4711)   → the same, whatever session they are in, without 4711 itself
    kill_all(lambda: members(4711))

A session outlives its leader, so its members are found after a crash, too. Linux only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GONE_LIMIT_S = 10.0      # chosen: a killed process that holds much memory takes a second or two


@dataclass(frozen=True, slots=True)
class Member:
    pid: int
    name: str          # as the kernel has it, cut at 15 characters
    command: str
    parent: int = 0
    session: int = 0


def members(session: int) -> list[Member]:
    """Every live process of a session, whoever its parent is now; by pid.

    Session 0 has none: it is how /proc names a session outside of this container, whose processes are nobody's to end.
    """
    return [m for m in alive() if m.session == session and session > 0]


def descendants(ancestor: int) -> list[Member]:
    """Children, their children, and so on. Orphans are among them where the ancestor is a subreaper."""
    everybody = alive()
    inside, found = {ancestor}, True
    while found:
        found = False
        for member in everybody:
            if member.parent in inside and member.pid not in inside:
                inside.add(member.pid)
                found = True
    return [m for m in everybody if m.pid in inside and m.pid != ancestor]


def alive() -> list[Member]:
    """All processes but zombies."""
    read = (_member(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted((m for m in read if m is not None), key=lambda m: m.pid)


def kill_all(whose: Callable[[], list[Member]]) -> list[Member]:
    """SIGKILL until nobody is left: a process may fork while it is looked at. Returns those that do not go."""
    deadline = time.monotonic() + GONE_LIMIT_S
    while (left := whose()) and time.monotonic() < deadline:
        for member in left:
            kill(member.pid)
        time.sleep(0.02)
    return left


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def rss_bytes(session: int) -> int | None:
    """Memory of a session in RAM, shared pages counted for each process; None when nobody is there."""
    found = [_rss_pages(m.pid) for m in members(session)]
    return sum(found) * os.sysconf("SC_PAGE_SIZE") if found else None


def _rss_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0      # gone since: it holds nothing


def _member(entry: Path) -> Member | None:
    """The name may itself hold blanks and brackets."""
    try:
        head, _, tail = (entry / "stat").read_text().rpartition(")")
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    state, parent, _group, session = tail.split()[:4]
    if state == "Z":
        return None
    return Member(int(entry.name), head.partition("(")[2], command.strip(), int(parent), int(session))

"""Sessions of the loop on disk: found, read, written. What the lines mean is in `tune`.

    $PELLUCID_HOME/sessions/20261130-091500-a1b2/
        journal.jsonl   the audit log; held by the one process that writes it
        head            number and hash of its last line

    with writing(home, new_session_id(wall_ns), clocks) as journal:
        journal.record(Started(…))          on disk when it returns
    read_session(folder).entries
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.clock import Anchor
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.lock import held
from pellucid.core.run import new_run_id
from pellucid.core.whole import replacing
from pellucid.tune import journal as j
from pellucid.tune.events import AnyEvent, kind_of, to_plain
from pellucid.tune.state import State, replay

JOURNAL, HEAD = "journal.jsonl", "head"
Now = Callable[[], Anchor]         # both clocks at one moment
new_session_id = new_run_id


@dataclass(frozen=True, slots=True)
class Session:
    folder: Path
    entries: tuple[j.Entry, ...]
    breaks: tuple[j.Break, ...]    # the end that was cut off in it
    torn_bytes: int
    running: bool                  # a process holds it

    def state(self) -> State:
        """Raises Failed where the entries cannot follow each other."""
        return replay(self.entries)


class Journal:
    """The one writer of a session. Made by `writing`."""

    def __init__(self, folder: Path, fd: int, last: j.Entry | None, now: Now) -> None:
        self.folder, self._fd, self._last, self._now = folder, fd, last, now

    def record(self, event: AnyEvent) -> int:
        """The event on disk; → CLOCK_MONOTONIC ns of its entry. Raises Failed where the disk refuses, and then again
        for whatever comes: what is on disk and what was told are no longer the same, and only a new start knows it."""
        if self._fd < 0:
            raise Failed(f"the journal in {self.folder} could not be written before; nothing more goes into it")
        now = self._now()
        text, entry = j.line(self._last, kind_of(event), to_plain(event), now.wall_ns, now.mono_ns)
        try:
            written = os.write(self._fd, text)
            os.fsync(self._fd)
            self._last = entry
            if written != len(text):
                raise Failed(f"cannot write {self.folder / JOURNAL}: the disk took {written} of {len(text)} bytes")
            with replacing(self.folder / HEAD) as part:
                part.write_text(j.head_text(entry))
        except OSError as error:
            self._fd = -1
            raise Failed(f"cannot write {self.folder / JOURNAL}: {error.strerror}") from error
        except Failed:
            self._fd = -1
            raise
        return now.mono_ns

    def state(self) -> State:
        """Of what is on disk. A Ctrl-C may have come between a line and the note that it was written."""
        found = read_session(self.folder)
        self._last = found.entries[-1] if found.entries else None
        return found.state()


@contextlib.contextmanager
def writing(home: Path, session: str, now: Now) -> Iterator[tuple[Journal, int]]:
    """The journal, and how many bytes of a last line were torn and are taken off. Raises Failed where another process
    writes it, and where the chain is broken: nothing is added to what was edited."""
    folder = home / "sessions" / session
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / JOURNAL, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failed(f"session {session} is being worked on by another process. Try: pellucid trials") from error
        found = _read(folder, running=False)
        if found.breaks:
            raise Failed(f"the journal of session {session} is broken in line {found.breaks[0].line}: "
                         f"{found.breaks[0].says}. Try: pellucid audit --session {session}")  # fmt: skip
        if found.torn_bytes:
            os.ftruncate(fd, os.fstat(fd).st_size - found.torn_bytes)
        _sync_folder(folder)
        yield Journal(folder, fd, found.entries[-1] if found.entries else None, now), found.torn_bytes
    finally:
        os.close(fd)


def session_folders(home: Path) -> list[Path]:
    """All sessions, newest first: their names begin with the time."""
    root = home / "sessions"
    return sorted((p.parent for p in root.glob(f"*/{JOURNAL}")), key=lambda p: p.name, reverse=True)


def find_session(home: Path, wanted: str | None) -> Path:
    """By id or unique start of it; the newest for None. Raises CannotAnswer or AskedWrongly."""
    folders = session_folders(home)
    if wanted is None:
        if not folders:
            raise CannotAnswer(f"no session in {home}/sessions: nothing was tried here yet")
        return folders[0]
    hits = [f for f in folders if f.name == wanted] or [f for f in folders if f.name.startswith(wanted)]
    if len(hits) != 1 or not wanted:
        saw = "no session has that id" if not hits else f"{len(hits)} sessions start so"
        raise AskedWrongly(f"session {wanted!r}: {saw} in {home}/sessions. Try: pellucid trials")
    return hits[0]


def read_session(folder: Path) -> Session:
    """Never raises for what is in the journal. Raises Failed where it cannot be opened."""
    return _read(folder, held(folder / JOURNAL))


def _read(folder: Path, running: bool) -> Session:
    head = _head(folder)           # first: a writer may add a line meanwhile, and then its head
    try:
        reading = j.read((folder / JOURNAL).read_bytes())
    except OSError as error:
        raise Failed(f"cannot read {folder / JOURNAL}: {error.strerror}") from error
    cut = j.against_head(reading, head) if not running else None
    breaks = (*reading.breaks, *((cut,) if cut and not reading.breaks else ()))
    return Session(folder, reading.entries, breaks, reading.torn_bytes, running)


def _head(folder: Path) -> j.Head | None:
    try:
        return j.read_head((folder / HEAD).read_text(errors="replace"))
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    """So that a file that is there is there after a power failure, too."""
    for path in (folder, folder.parent):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

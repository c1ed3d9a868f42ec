"""What must be on disk before an engine starts: the site's key and the probe's folder.

    $PELLUCID_HOME/key              32 random bytes, 0600, made once; block hashes are keyed with it
    /dev/shm/pellucid-run-x4k2/     0700, one per `pellucid run`, removed at its end
        key                         a copy, for the probe
        control.key                 of this engine alone, where live control was asked for
        owner.lock                  held by the launcher and its recorder: a folder nobody holds is swept

Everything here raises OSError or Failed; the caller decides that the engine starts anyway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.errors import Failed

KEY_BYTES = 32
PREFIX = "pellucid-run-"
OWNER = "owner.lock"
CONTROL_KEY = "control.key"


@dataclass(frozen=True, slots=True)
class ProbeFolder:
    path: Path
    ours: bool             # made by us, so removed by us
    owner_fd: int | None   # holds owner.lock; children that inherit it hold it too


def site_key(home: Path) -> bytes:
    """The site's key, made at the first call. Two first calls at once agree on one key."""
    path = home / "key"
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        tmp = home / f"key.{os.getpid()}.{secrets.token_hex(4)}"
        _write_private(tmp, secrets.token_bytes(KEY_BYTES))
        try:
            os.link(tmp, path)  # unlike a rename, it never replaces a key that another process has just made
        except FileExistsError:
            pass
        finally:
            tmp.unlink()
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise Failed(f"{path} holds {len(key)} bytes, a key has {KEY_BYTES}. Remove it to have a new one made")
    return key


def put_key(folder: Path, key: bytes) -> None:
    """The key for the probe; one that is there stays, since an engine may be hashing with it."""
    with contextlib.suppress(FileExistsError):
        _write_private(folder / "key", key)


def put_control_key(folder: Path) -> Path:
    """A secret of this engine's own: who has it may change the engine's live settings. One that is there stays."""
    path = folder / CONTROL_KEY
    with contextlib.suppress(FileExistsError):
        _write_private(path, secrets.token_bytes(KEY_BYTES))
    return path


def given_folder(path: Path) -> ProbeFolder:
    if not path.is_dir():
        raise Failed(f"{path} is not a folder. Make it on a tmpfs first, or leave --dir out")
    return ProbeFolder(path, ours=False, owner_fd=None)


def make_folder(shm: Path) -> ProbeFolder:
    """A fresh probe folder, after those of launchers that were killed have been swept."""
    sweep(shm)
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=shm))  # 0700
    fd = os.open(path / "owner.new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    (path / "owner.new").rename(path / OWNER)  # it is held from the moment a sweeper can see it
    return ProbeFolder(path, ours=True, owner_fd=fd)


def remove_folder(folder: ProbeFolder) -> None:
    if folder.ours:
        shutil.rmtree(folder.path, ignore_errors=True)


def sweep(shm: Path) -> list[Path]:
    """Removes our folders that no launcher and no recorder holds any more; returns them.

    Asked of the lock, not of process ids: those mean nothing across containers that share a tmpfs.
    """
    swept = []
    for path in shm.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            fd = os.open(path / OWNER, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
                swept.append(path)
            finally:
                os.close(fd)
    return swept


def _write_private(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)

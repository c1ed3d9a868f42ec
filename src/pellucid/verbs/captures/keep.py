"""A trace file → segments of a run. One at a time for a run: the numbers of segments are taken under a lock.

    keep(Path("rank0.pt.trace.json.gz"), run_folder, Identity("c1", "rank0.pt.trace.json.gz"))
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.physics.ceilings import Measured
from pellucid.physics.config.read import read as read_config
from pellucid.store.schema import TABLES
from pellucid.store.segment import add_segment
from pellucid.trace.load import load
from pellucid.trace.rows.columns import Identity
from pellucid.trace.work.model import Model, model_of_geometry

LOCK = "captures.lock"


@dataclass(frozen=True, slots=True)
class Kept:
    rows_count: int
    kinds: dict[str, int]           # what there is of it, for a line on the screen
    damage: tuple[str, ...] = ()    # what was not whole


def new_capture_id() -> str:
    return f"c{secrets.token_hex(6)}"


def model_of_config(path: Path) -> Model:
    """Raises AskedWrongly where the file is no configuration of a model, or of one that is not known."""
    if path.exists() and not path.is_file():
        raise AskedWrongly(f"cannot read {path}: it is no regular file")
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise AskedWrongly(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise AskedWrongly(f"{path} holds no object: a model's config.json does")
    return model_of_geometry(read_config(config))


def keep(
    path: Path, folder: Path, who: Identity, model: Model | None = None, own: Sequence[Measured] = ()
) -> Kept:
    """`own`: what was measured on devices here. Raises AskedWrongly where the file holds no kernels, Failed where the
    run cannot be written."""
    loaded = load(path, who, model, own)
    if not loaded.tables["kernels"].num_rows:
        damage = "; ".join(loaded.about.damage) or "nothing of it is damaged"
        raise AskedWrongly(f"{path} holds no kernels: {damage}. Was it cut, or recorded without its device?")
    put(folder, loaded.tables)
    (capture,) = loaded.tables["captures"].to_pylist()
    kernels = loaded.tables["kernels"]
    kinds = Counter({"kernels": capture["kernels_count"] or kernels.num_rows})
    for name in ("steps_count", "damaged_count", "redacted_count"):
        if capture[name]:
            kinds[name.removesuffix("_count")] = capture[name]
    return Kept(sum(t.num_rows for t in loaded.tables.values()), dict(kinds), loaded.about.damage)


def put(folder: Path, tables: dict[str, pa.Table]) -> None:
    """Raises Failed on a full disk: captures are written last, so a capture that is there is whole."""
    try:
        with _alone(folder):
            for name in sorted(tables, key=lambda n: n == "captures"):
                if tables[name].num_rows:
                    add_segment(folder, TABLES[name], tables[name])
    except OSError as error:
        raise Failed(f"cannot write the capture into {folder}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    fd = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

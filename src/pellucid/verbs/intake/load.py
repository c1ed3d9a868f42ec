"""Load files that somebody has into a run: `pellucid load FILE…`. What a file is, its contents say, not its name.

    load([Path("serve.log.gz")], RecordInto(home)) → Loaded(folder, rows=[{"file": "serve.log.gz", "format": "log", …}])

A new kind of file is one more entry of FORMATS; the first that fits is taken, so the pickiest stand first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.collect.kv_events import saved
from pellucid.collect.kv_events.stream import Stream
from pellucid.collect.kv_events.wire import Unreadable
from pellucid.collect.logs.read import is_log, read_log
from pellucid.collect.openmetrics.pair import is_pair, read_pair
from pellucid.collect.openmetrics.rows import Pages
from pellucid.collect.openmetrics.saved import is_page, listed, read_page
from pellucid.collect.openmetrics.translate import Speaker
from pellucid.core.clock import monotonic_ns
from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.core.units import unit_of
from pellucid.physics.ceilings import Measured
from pellucid.store.write import Limits, Row, RunWriter
from pellucid.trace.detect import loader, refusal
from pellucid.trace.rows.columns import Identity
from pellucid.trace.work.model import Model
from pellucid.verbs.captures.ceilings import ceilings_here
from pellucid.verbs.captures.keep import keep, model_of_config, new_capture_id
from pellucid.verbs.record import RecordInto, new_run
from pellucid.verbs.site import site_key

HEAD_BYTES = 256 * 1024
SAVE_PAGE = "Try: curl http://HOST:PORT/metrics > page.prom, and load that"
Append = Callable[[str, Row], None]


@dataclass(frozen=True, slots=True)
class Into:
    """Where rows go."""

    folder: Path
    key: bytes                          # the site's
    append: Append
    model: Model | None = None          # that ran in traces of kernels
    ceilings: tuple[Measured, ...] = () # what was measured on devices here


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    fits: Callable[[bytes], bool]                                # the beginning of the file, unpacked
    load: Callable[[Path, Into], dict[str, Any]]                 # → what was found


@dataclass(frozen=True, slots=True)
class Loaded:
    folder: Path
    rows: list[dict[str, Any]]

    def json(self) -> dict[str, Any]:
        return {"run_id": self.folder.name, "rows": self.rows, "units": {c: unit_of(c) for c in FOUND if unit_of(c)}}


FOUND = ("file", "format", "engine", "engine_version", "model", "lines_count", "rows_count", "kinds", "damage")


def load(paths: Sequence[Path], into: RecordInto, config: Path | None = None) -> Loaded:
    """`config`: a config.json of the model that ran in traces of kernels. Raises AskedWrongly before anything is
    written if a file is missing or of no kind we know."""
    model = None if config is None else model_of_config(config)
    chosen = [(path, detect(path)) for path in paths]
    folder = new_run(into, " ".join(path.name for path in paths))
    writer = RunWriter(folder, Limits(), monotonic_ns)
    rows_count = [0]

    def append(table: str, row: Row) -> None:
        rows_count[0] += 1
        writer.append(table, row)
        writer.tick()

    rows = []
    try:
        place = Into(folder, site_key(into.home), append, model, ceilings_here(into.home))
        for path, kind in chosen:
            rows_count[0] = 0
            said = kind.load(path, place)
            found = {"rows_count": rows_count[0], **said, "file": path.name, "format": kind.name}
            rows.append({name: found.get(name) for name in FOUND})
    except (Unreadable, AskedWrongly) as error:
        before = f"The {len(rows)} before it are in run {folder.name}" if rows else "The run is empty"
        raise AskedWrongly(f"{error}. Nothing after this file was loaded. {before}") from error
    finally:
        writer.close()
    return Loaded(folder, rows)


def load_logs(paths: Sequence[Path], into: RecordInto) -> Loaded:
    """As `load`, and refuses what is no log."""
    for path in paths:
        if (kind := detect(path)).name != "log":
            raise AskedWrongly(f"{path} is no engine log but a {kind.name}. Try: pellucid load {path}")
    return load(paths, into)


def detect(path: Path) -> Format:
    """Raises AskedWrongly."""
    if not str(path).isprintable() or any("\ud800" <= c <= "\udfff" for c in str(path)):
        raise AskedWrongly(f"{str(path)!r}: give the file a name that can be printed")
    if path.exists() and not path.is_file():
        raise AskedWrongly(f"cannot read {path}: it is no regular file")
    try:
        head = content(path, HEAD_BYTES)
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror}") from error
    for kind in FORMATS:
        if kind.fits(head):
            return kind
    if names := listed(head.decode(errors="replace")):
        raise AskedWrongly(f"{path} is a list of {len(names)} metric names without their values. {SAVE_PAGE}")
    if reason := refusal(head, path.name):
        raise AskedWrongly(f"{path} is {reason}")
    raise AskedWrongly(f"{path} is nothing we know how to load. Known: {', '.join(k.name for k in FORMATS)}")


def _log(path: Path, into: Into) -> dict[str, Any]:
    seen = read_log(path, into.append)
    return {"engine": seen.engine, "engine_version": seen.version, "model": seen.model,
            "lines_count": seen.lines_count, "kinds": dict(seen.kinds)}  # fmt: skip


def _capture(path: Path, into: Into) -> dict[str, Any]:
    return _events(saved.read_capture(path, into.key, into.append))


def _event(path: Path, into: Into) -> dict[str, Any]:
    return _events(saved.read_event(path, into.key, into.append))


def _events(stream: Stream) -> dict[str, Any]:
    counts, losses = stream.lives.counts, stream.losses
    return {"kinds": {"stored": counts.stored, "removed": counts.removed, "lost": losses.lost,
                      "damaged": losses.damaged, **counts.unknown_kinds}}  # fmt: skip


def _page(path: Path, into: Into) -> dict[str, Any]:
    return _pages(*read_page(path, into.append))


def _pair(path: Path, into: Into) -> dict[str, Any]:
    return _pages(*read_pair(path, into.append))


def _pages(pages: Pages, damaged_count: int) -> dict[str, Any]:
    (speaker,) = list(pages.speakers.values())[:1] or [Speaker()]
    kinds = {"mapped": pages.mapped_count, "kept as they are": len(pages.unmapped_names), "damaged": damaged_count}
    return {"engine": speaker.engine or None, "model": speaker.model, "kinds": kinds}


def _trace(path: Path, into: Into) -> dict[str, Any]:
    kept = keep(path, into.folder, Identity(new_capture_id(), path.name), into.model, into.ceilings)
    return {"rows_count": kept.rows_count, "kinds": kept.kinds, "damage": list(kept.damage) or None}


FORMATS = (
    Format("kv event capture", saved.is_capture, _capture),
    Format("kv event", saved.is_event, _event),
    Format("kernel trace", lambda head: loader(head) is not None, _trace),
    Format("log", is_log, _log),
    Format("metrics page", is_page, _page),
    Format("pair of metrics pages", is_pair, _pair),
)

"""A file that somebody asked for is there as a whole or not at all.

    with replacing(Path("run.json.gz")) as part:      beside its place, a name of this process's own
        part.write_bytes(…)
    …                                                 renamed now; had anything failed, nothing would be left
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pellucid.core.errors import Failed


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write, which takes the place of `path` at the end. Raises Failed where the disk refuses."""
    target = path.resolve()     # what a link leads to is replaced, and not the link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as f:
            os.fsync(f.fileno())
        part.replace(target)
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)

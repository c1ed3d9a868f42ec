"""Where Python source is read from: the members of a wheel, or a folder of installed packages. Nothing is run.

    wheel = open_source(Path("vllm-0.33.0-….whl"))
    wheel.text("vllm.v1.request")     → the module's source, None if it is not there
    wheel.version("vllm")             → "0.33.0"
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    members: frozenset[str]               # of a wheel all, "vllm/v1/request.py"; of a folder what is directly in it
    read: Callable[[str], str | None]     # a member's text, None if there is none

    def text(self, module: str) -> str | None:
        path = module.replace(".", "/")
        found = self.read(f"{path}.py")
        return self.read(f"{path}/__init__.py") if found is None else found

    def has_top(self, module: str) -> bool:
        """Whether the package that a module belongs to is here at all."""
        return module.split(".")[0] in {PurePosixPath(m).parts[0].removesuffix(".py") for m in self.members}

    def is_package(self, module: str) -> bool:
        return self.read(f"{module.replace('.', '/')}/__init__.py") is not None

    def metadata(self, distributions: Iterable[str]) -> dict[str, list[str]]:
        """Name, Version, Requires-Dist of the first of these distributions that is here; {} if none is."""
        for wanted in distributions:
            start = wanted.replace("-", "_") + "-"
            for member in sorted(self.members):
                top = PurePosixPath(member).parts[0]
                if top.lower().startswith(start) and top.endswith(".dist-info"):
                    headers = HeaderParser().parsestr(self.read(f"{top}/METADATA") or "")
                    return {key: headers.get_all(key, []) for key in ("Name", "Version", "Requires-Dist")}
        return {}


def open_source(path: Path) -> Source:
    """A wheel, or a folder that holds packages. Raises FileNotFoundError, zipfile.BadZipFile."""
    if path.is_dir():
        return Source(str(path), frozenset(p.name for p in path.iterdir()), lambda member: _file(path / member))
    archive = zipfile.ZipFile(path)
    members = frozenset(archive.namelist())
    return Source(path.name, members, lambda m: archive.read(m).decode() if m in members else None)


def _file(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None

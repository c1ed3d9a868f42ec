"""The engines we know, by folder: each `collect/<engine>/` may have a `launch` and a `plan` module.

    extend_environment({"PATH": "…"}) → the same, with what an engine needs to load the probe
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from types import ModuleType
from typing import Any

from pellucid import collect
from pellucid.core.errors import CannotAnswer


def extend_environment(environ: Mapping[str, str]) -> dict[str, str]:
    extended = dict(environ)
    for module in _modules("launch"):
        extended = module.extend_environment(extended)
    return extended


def plan(python: str) -> dict[str, Any]:
    """The first engine's answer to what the probe would hook in that Python; the last refusal when none answers."""
    refusal = CannotAnswer("no engine here has an offline check")
    for module in _modules("plan"):
        try:
            found: dict[str, Any] = module.plan(python)
            return found
        except CannotAnswer as error:
            refusal = error
    raise refusal


def part_of(engine: str, part: str) -> ModuleType:
    """`collect/<engine>/<part>`. Raises CannotAnswer where that engine has no such part."""
    try:
        return import_module(f"{collect.__name__}.{engine}.{part}")
    except ModuleNotFoundError as error:
        raise CannotAnswer(f"{engine or 'an unknown engine'} has no {part} here") from error


def spellings(python: str) -> list[dict[str, Any]]:
    """What the argument parser of the first engine in that Python says of our spellings (collect/<engine>/knobs.py)."""
    refusal = CannotAnswer("no engine here has a parser that we know")
    for module in _modules("knobs"):
        try:
            return [asdict(found) for found in module.ask(python)]
        except CannotAnswer as error:
            refusal = error
    raise refusal


def _modules(name: str) -> list[ModuleType]:
    folders = [m.name for m in pkgutil.iter_modules(collect.__path__) if m.ispkg]
    return [
        import_module(f"{collect.__name__}.{folder}.{name}")
        for folder in folders
        if any(m.name == name for m in pkgutil.iter_modules([f"{p}/{folder}" for p in collect.__path__]))
    ]

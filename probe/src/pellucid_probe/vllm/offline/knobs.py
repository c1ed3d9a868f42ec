"""What settings this engine's own argument parser knows, by flag; touching nothing.

    python -m pellucid_probe.vllm.offline.knobs
    {"engine": "vllm", "engine_version": "0.32.0", "variables": ["VLLM_CPU_KVCACHE_SPACE", …], "flags": {
      "--max-num-seqs": {"type": "int", "default": null, "choices": null, "fields": null, "negated": false},
      "--enable-prefix-caching": {…, "negated": true},            there is --no-enable-prefix-caching
      "--compilation-config": {…, "fields": {"cudagraph_mode": ["NONE", "PIECEWISE", …], …}}}}

A default of null is one that the engine works out when it starts. `fields` are those of a configuration written as
`--compilation-config.cudagraph_mode=…`, with their choices where their type lists them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import importlib
import json
import sys
import typing
from typing import Any, Dict, List, Optional

from pellucid_probe.vllm.config import engine_version

# The server's parser has the engine's flags and its own; where it lives moved between versions.
PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
ARGUMENTS = "vllm.engine.arg_utils"
PLAIN = (bool, int, float, str, type(None))


def knobs() -> Dict[str, Any]:
    """Raises ImportError where the engine has no such parser."""
    arguments = importlib.import_module(ARGUMENTS)
    fields = _fields(arguments.EngineArgs)
    flags: Dict[str, Any] = {}
    for action in server_parser(arguments)._actions:
        long = [name for name in action.option_strings if name.startswith("--")]
        for name in long:
            if not name.startswith("--no-"):
                flags[name] = {**_told(action), "fields": fields.get(action.dest),
                               "negated": f"--no-{name[2:]}" in long}  # fmt: skip
    variables = sorted(importlib.import_module("vllm.envs").environment_variables)
    return {"engine": "vllm", "engine_version": engine_version(), "flags": flags, "variables": variables}


def server_parser(arguments: Any) -> argparse.ArgumentParser:
    """The server's, of whatever version this is. Raises ImportError where the engine has none."""
    for name in PARSERS:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        made: argparse.ArgumentParser = module.make_arg_parser(arguments.FlexibleArgumentParser())
        return made
    raise ImportError(f"no argument parser in {' or '.join(PARSERS)}")


def _told(action: argparse.Action) -> Dict[str, Any]:
    kind = getattr(action.type, "__name__", None) or (str(action.type) if action.type else "switch")
    default = action.default if isinstance(action.default, PLAIN) else str(action.default)
    choices = list(map(str, action.choices)) if action.choices else None
    return {"type": kind, "default": default, "choices": choices}


def _fields(engine_args: Any) -> Dict[str, Dict[str, Optional[List[str]]]]:
    """For each argument that is a configuration of its own: its fields, and their choices."""
    found = {}
    for field in dataclasses.fields(engine_args):
        hint = _hint(engine_args, field)
        for kind in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(kind):
                found[field.name] = {f.name: _choices(_hint(kind, f)) for f in dataclasses.fields(kind)}
    return found


def _hint(owner: Any, field: Any) -> Any:
    """A field's type; None where its text names what is imported for type checkers only."""
    if not isinstance(field.type, str):
        return field.type
    try:
        return eval(field.type, vars(sys.modules[owner.__module__]))
    except (NameError, TypeError, SyntaxError, AttributeError):
        return None


def _choices(hint: Any) -> Optional[List[str]]:
    """What a type lists as its values, or None."""
    found: List[str] = []
    for kind in (hint, *typing.get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            found += [member.name for member in kind]
        elif typing.get_origin(kind) is typing.Literal:
            found += [str(value) for value in typing.get_args(kind)]
    return found or None


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):   # the engine prints while it is imported
        found = knobs()
    print(json.dumps(found))

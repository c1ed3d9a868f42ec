"""The user's engine command with a candidate in it: the flag replaced where it stands, or put at the end.

    changed(Command(("serve", "m", "--max_num_seqs=8")), (Setting("max_running_requests", 64),), engine)
        .argv == ("serve", "m", "--max-num-seqs=64")
    changed(Command(("env", "SPACE=1", "serve")), (Setting("kv_cache_memory", 5460),), engine)
        .argv == ("env", "SPACE=2", "serve")          a variable that the command does not set goes into `.env`

A flag is known in all ways to write it: `--max-num-seqs 8`, `--max-num-seqs=8`, underscores, a short name, a key of an
object as JSON (`--x '{"k": 1}'`) or with a dot (`--x.k 1`). What else an object holds stays.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pellucid.catalog.knobs.spelling import Engine, fitting, whole
from pellucid.catalog.load import Spelling
from pellucid.core.errors import AskedWrongly
from pellucid.tune.space import KEY, Candidate, Setting, in_engines_unit

SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish"}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
SECRET = re.compile(r"(?i)(?:^|[-_])(?:key|token|secret|passw(?:or)?d|credentials?|authorization|header)$")
HIDDEN = "<secret>"
Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    argv: Argv
    env: tuple[tuple[str, str], ...] = ()      # variables over those that are there, by name


def changed(command: Command, settings: Candidate, engine: Engine) -> Command:
    """Raises AskedWrongly where the command cannot be read, CannotAnswer where a value cannot be said."""
    if settings and (shell := _shell(command.argv)):
        raise AskedWrongly(f"{shell} has the engine's command as one text, in which nothing can be set. "
                           "Give the command itself after --")  # fmt: skip
    for one in settings:
        spelling = fitting(one.knob, engine)
        if spelling is None or spelling.client:
            raise AskedWrongly(f"{one.knob} is nothing this engine is started with. Try: pellucid why")
        command = _with(command, one, spelling, engine)
    return command


def shareable(command: Command) -> Command:
    """As it may be written down: what a flag or variable named like a secret holds is taken out."""
    argv: list[str] = []
    hide = False
    for word in command.argv:
        name, equals, _ = word.partition("=")
        secret = bool(SECRET.search(name)) and (word.startswith("-") or bool(ASSIGNMENT.match(word)))
        argv.append(HIDDEN if hide else f"{name}={HIDDEN}" if secret and equals else word)
        hide = secret and not equals
    return Command(tuple(argv), tuple((n, HIDDEN if SECRET.search(n) else v) for n, v in command.env))


def _with(command: Command, one: Setting, spelling: Spelling, engine: Engine) -> Command:
    argv, flag = command.argv, spelling.flag.partition(" ")[0]
    if spelling.env:
        return _put_variable(command, spelling.env, _text(one, spelling, engine))
    if spelling.form in ("switch", "pair", "without"):
        there = (bool(one.value) == bool(spelling.makes)) == (spelling.form != "without")
        return Command(_switched(argv, spelling, there, one), command.env)
    if spelling.form == "json":
        return Command(_put_object(argv, spelling, one, engine), command.env)
    if spelling.form == "ceiling":
        return Command(_put(argv, flag, spelling.short, f"{spelling.ceiling:g}"), command.env)
    text = _text(one, spelling, engine)
    parent, dot, path = flag.partition(".")
    if dot and (found := _objects(argv, parent)):
        return Command(_in_object(argv, found, path.split("."), json.loads(text)), command.env)
    return Command(_put(argv, flag, spelling.short, text), command.env)


def _text(one: Setting, spelling: Spelling, engine: Engine) -> str:
    if spelling.form in KEY:
        return str(in_engines_unit(one, spelling, engine))
    return f"{one.value:.10g}" if isinstance(one.value, float) else str(one.value)


def _switched(argv: Argv, spelling: Spelling, there: bool, one: Setting) -> Argv:
    """The flag put or taken away. One that turns something on by being there carries how, and has a value."""
    flag, _, argument = spelling.flag.partition(" ")
    carries = spelling.form == "without" and not spelling.makes
    if there and carries:
        raise AskedWrongly(f"{one}: {flag} takes a configuration. Put it into the engine's command itself")
    no = f"--no-{flag[2:]}"
    left = argv if argument or carries else _without(argv, no, "", takes=False)
    if there:
        return _put(left, flag, spelling.short, argument or None)
    left = _without(left, flag, spelling.short, takes=bool(argument) or carries)
    return (*left, no) if left == argv and not argument and not carries else left


def _put_object(argv: Argv, spelling: Spelling, one: Setting, engine: Engine) -> Argv:
    """The one key of an object; the whole object, from what was recorded, where the command has none."""
    flag, key = spelling.flag, next(k for k, config in spelling.keys.items() if not config)
    value = round(float(one.value))
    if found := _objects(argv, flag):
        return _in_object(argv, found, [key], value)
    if any(_plain(word).startswith(f"{flag}.") for word in argv):
        return _put(argv, f"{flag}.{key}", "", str(value))
    return (*argv, flag, json.dumps(whole(spelling, value, engine)))


@dataclass(frozen=True, slots=True)
class _Object:
    place: int                 # of the word that holds the text
    joined: str                # "--flag=" where the text follows it in one word
    parts: dict[str, Any]


def _objects(argv: Argv, flag: str) -> list[_Object]:
    """A flag's value that is an object as JSON. Raises AskedWrongly where it should be one and is not."""
    found = []
    for n, word in enumerate(argv):
        if _plain(word) != flag:
            continue
        joined = word.partition("=")[0] + "=" if "=" in word else ""
        place = n if joined else n + 1
        text = argv[place][len(joined):] if place < len(argv) else ""
        try:
            parts = json.loads(text)
        except ValueError:
            parts = None
        if not isinstance(parts, dict):
            raise AskedWrongly(f"{flag} {text!r} in the engine's command is no object as JSON, so nothing in it can be set")  # noqa: E501
        found.append(_Object(place, joined, parts))
    return found


def _in_object(argv: Argv, found: list[_Object], path: list[str], value: object) -> Argv:
    """The last of them, which is the one that counts."""
    last = found[-1]
    text = f"{last.joined}{json.dumps(_set(last.parts, path, value))}"
    return (*argv[:last.place], text, *argv[last.place + 1:])


def _set(parts: Mapping[str, Any], path: list[str], value: object) -> dict[str, Any]:
    inner = parts.get(path[0])
    new = value if len(path) == 1 else _set(inner if isinstance(inner, dict) else {}, path[1:], value)
    return {**parts, path[0]: new}


def _put(argv: Argv, flag: str, short: str, value: str | None) -> Argv:
    """In the place where it first stands, once; else at the end. Without a value it is a flag alone."""
    place = next((n for n, word in enumerate(argv) if _is(word, flag, short)), None)
    joined = place is not None and "=" in argv[place]
    new = (flag,) if value is None else (f"{flag}={value}",) if joined else (flag, value)
    if place is None:
        return (*argv, *new)
    before, after = argv[:place], _without(argv[place:], flag, short, takes=value is not None)
    return (*before, *new, *after)


def _without(argv: Argv, flag: str, short: str, takes: bool) -> Argv:
    """All of its places, keys with a dot in them; with its value where it `takes` one."""
    left: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
            continue
        dotted = _plain(word).startswith(f"{flag}.")
        if _is(word, flag, short) or dotted:
            skip = (takes or dotted) and "=" not in word
            continue
        left.append(word)
    return tuple(left)


def _is(word: str, flag: str, short: str) -> bool:
    return _plain(word) == flag or (bool(short) and word.partition("=")[0] == short)


def _plain(word: str) -> str:
    """`--max_num_seqs=8` → `--max-num-seqs`. Keys behind a dot are names of fields, and stay."""
    if not word.startswith("--"):
        return word
    name = word.partition("=")[0]
    top, dot, rest = name.partition(".")
    return f"--{top[2:].replace('_', '-')}{dot}{rest}"


def _put_variable(command: Command, name: str, value: str) -> Command:
    """Where the command sets it itself, there; the launcher's environment would not reach it."""
    words = list(command.argv)
    for n, word in enumerate(words):
        if word.startswith(f"{name}="):
            words[n] = f"{name}={value}"
            return Command(tuple(words), command.env)
        if not (ASSIGNMENT.match(word) or (n == 0 and PurePath(word).name == "env")):
            break
    return Command(command.argv, tuple(sorted({**dict(command.env), name: value}.items())))


def _shell(argv: Argv) -> str:
    """The shell that has the command as one text: `sh -c '…'`."""
    for word, following in itertools.pairwise(argv):
        if PurePath(word).name in SHELLS and re.fullmatch(r"-[a-z]*c[a-z]*", following):
            return f"{word} {following}"
    return ""


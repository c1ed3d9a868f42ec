"""A knob by any of its names: ours, or the engine's. And the words that set it.

    resolve("max_num_seqs", "vllm")         "max_running_requests"
    resolve("--max-num-seqs", "vllm")       the same
    resolve("max_num_seq", "vllm")          AskedWrongly: no knob is called … Did you mean max_num_seqs?
    arguments("prefix_caching", False, Where("vllm", "0.32.0", "cuda"))     Words(flags=("--no-enable-prefix-caching",))
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from pellucid.catalog.load import Knob, Spelling, knobs
from pellucid.core.errors import AskedWrongly, CannotAnswer

Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Where:
    """The engine that is to be started."""

    engine: str
    version: str
    device: str


@dataclass(frozen=True, slots=True)
class Words:
    """What a setting is on a command line and in the environment."""

    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def resolve(name: str, engine: str) -> str:
    """Our name. Raises AskedWrongly with what was probably meant, or with the knobs that share a flag."""
    if name in knobs():
        return name
    plain = _plain(name)
    found = names(engine).get(plain)
    if found is None:
        close = difflib.get_close_matches(plain, [*names(engine), *knobs()], n=3, cutoff=0.6)
        hint = f"Did you mean {' or '.join(close)}?" if close else "Names are in docs/reference/knobs.md"
        raise AskedWrongly(f"no knob is called {name!r}, with us or in {engine}. {hint}")
    if len(found) > 1:
        raise AskedWrongly(f"{name} sets several things in {engine}. Say which: {', '.join(found)}")
    return found[0]


def names(engine: str) -> dict[str, list[str]]:
    """The engine's names without dashes → ours. Where one is a value of its own, the fixed values do not count."""
    open_ones: dict[str, list[str]] = {}
    fixed: dict[str, list[str]] = {}
    for ours, knob in knobs().items():
        for s in knob.spellings:
            if s.engine == engine and (s.flag or s.env):
                into = fixed if " " in s.flag or s.form in ("without", "json", "ceiling") else open_ones
                spelled = into.setdefault(_plain(s.flag.split(" ")[0] or s.env), [])
                if ours not in spelled:
                    spelled.append(ours)
    # Two knobs that are one setting, asked for in two ways, are told apart by their rules only.
    return {**fixed, **{name: found[:1] for name, found in open_ones.items()}}


def check_value(name: str, value: Value) -> None:
    """Raises AskedWrongly where the catalog's range or choices do not have it, before anything is started."""
    knob = knobs()[name]
    if knob.unit == "choice":
        if value not in knob.choices:
            raise AskedWrongly(f"{name} is one of {', '.join(knob.choices)}, not {value!r}")
    elif knob.unit == "switch":
        if type(value) is not bool:
            raise AskedWrongly(f"{name} is true or false, not {value!r}")
    elif type(value) not in (int, float) or (type(value) is float and knob.unit != "ratio"):
        raise AskedWrongly(f"{name} is a number of {knob.unit}, not {value!r}")
    elif not knob.low <= float(value) <= knob.high:
        raise AskedWrongly(f"{name} is {knob.low:g} to {knob.high:g} {knob.unit}, not {value!r}")


def arguments(name: str, value: Value, where: Where) -> Words:
    """Raises AskedWrongly for a value out of range, CannotAnswer where this engine cannot be started with it."""
    check_value(name, value)
    knob = knobs()[name]
    spelling = spelling_of(knob, where)
    if spelling is None or not (spelling.flag or spelling.env):
        raise CannotAnswer(f"{name} is not set when {where.engine} {where.version} starts on {where.device}: {_how(knob)}")  # noqa: E501
    if spelling.form in ("value", "word"):
        text = str(value)
        return Words(environment={spelling.env: text}) if spelling.env else Words((spelling.flag, text))
    if spelling.form == "pair":
        return Words((spelling.flag if value else f"--no-{spelling.flag[2:]}",))
    if spelling.form == "switch":
        return Words(tuple(spelling.flag.split(" ")) if value else ())
    if spelling.form == "without" and spelling.flag == "--enforce-eager":
        return Words(() if value else (spelling.flag,))
    raise CannotAnswer(f"{name} has no words of its own in {where.engine}: {spelling.flag or spelling.env} is made from what the engine has now")  # noqa: E501


def spelling_of(knob: Knob, where: Where) -> Spelling | None:
    """The first that fits an engine of which no configuration is known."""
    return next((
        s for s in knob.spellings
        if s.engine == where.engine and s.device in ("", where.device) and s.not_device != where.device
        and not s.needs_config and (not s.since or _version(where.version) >= _version(s.since))
        and (not s.until or _version(where.version) < _version(s.until))
    ), None)  # fmt: skip


def _how(knob: Knob) -> str:
    if any(s.probe for s in knob.spellings):
        return "it is a live setting of a running one"
    return next((s.client for s in knob.spellings if s.client), "no spelling of it fits")


def _plain(name: str) -> str:
    return name.removeprefix("--").removeprefix("no-").replace("-", "_").lower()


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())

"""What may be changed: settings in our words, read from anybody's, and what is wrong with them before anything starts.

    one = read_setting("max_num_seqs=64", engine)       Setting("max_running_requests", 64); our name does as well
    candidate([one])                                    (Setting("max_running_requests", 64),)
    problems((one,), engine)                            ("step_token_budget is 32 and max_running_requests 64: …",)

A value is in the knob's own unit: blocks where the engine counts GiB, true and false where it has a flag without a
value. A candidate without settings is the present configuration: tried against itself it shows the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.catalog.knobs.spelling import GIB, Engine, block_bytes, fitting, number
from pellucid.catalog.load import Spelling, knobs
from pellucid.core.errors import AskedWrongly, CannotAnswer

Value = int | float | str | bool
TRUE, FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")
KEY = {"gib": GIB, "bytes": 1}      # bytes in the engine's unit


@dataclass(frozen=True, slots=True)
class Setting:
    knob: str
    value: Value                   # in the knob's unit; a switch is true or false

    def __str__(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else f"{self.value}"
        return f"{self.knob}={value}"


Candidate = tuple[Setting, ...]    # each knob once, by name


def read_setting(text: str, engine: Engine) -> Setting:
    """`NAME=VALUE` as a user types it. Raises AskedWrongly."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise AskedWrongly(f"--set {text!r} is no NAME=VALUE. Try: --set max_running_requests=64")
    return setting(name.strip(), value.strip(), engine)


def setting(name: str, value: Value, engine: Engine) -> Setting:
    """A name of ours or of the engine's, and a value in its unit → a setting. Raises AskedWrongly, or CannotAnswer
    where the engine's unit is not ours and the recording does not say how they go together."""
    if name in knobs():
        return Setting(name, _value(name, value))
    knob, spelling = _engines(name, engine)
    if spelling.form in KEY:
        return Setting(knob, _blocks(name, _number(name, value), spelling, engine))
    if spelling.form == "switch" and " " in spelling.flag:
        argument = spelling.flag.split()[1]
        if str(value) != argument:
            raise AskedWrongly(f"{name}={value}: of this, only {argument} can be tried. Try: {knob}=true")
        return Setting(knob, bool(spelling.makes))
    if spelling.form in ("switch", "pair", "without"):
        there = 1 - spelling.makes if spelling.form == "without" else spelling.makes
        return Setting(knob, bool(there) == _switch(name, value))
    return Setting(knob, _value(knob, value))


def candidate(settings: Iterable[Setting]) -> Candidate:
    """Raises AskedWrongly where one knob is set twice."""
    found: dict[str, Setting] = {}
    for one in settings:
        if found.setdefault(one.knob, one) is not one:
            raise AskedWrongly(f"{one.knob} is set twice: {found[one.knob]} and {one}. Keep one of them")
    return tuple(found[knob] for knob in sorted(found))


def merged(present: Candidate, more: Candidate) -> Candidate:
    """What is in effect when `more` comes on top of `present`."""
    values = {s.knob: s for s in (*present, *more)}
    return tuple(values[knob] for knob in sorted(values))


def words(settings: Candidate) -> str:
    return ", ".join(map(str, settings)) or "nothing changed"


def present_value(knob: str, engine: Engine) -> Value | None:
    """In the knob's unit; None where it is not recorded or not set."""
    spelling = fitting(knob, engine)
    if spelling is None:
        return None
    if spelling.form in (*KEY, "ceiling"):
        return engine.config.get("num_gpu_blocks") if spelling.config else None
    if spelling.config not in engine.config:
        return None
    current = engine.config[spelling.config]
    if spelling.form in ("switch", "pair"):
        argument = spelling.flag.partition(" ")[2]
        return (argument in str(current) if argument else current is True) == bool(spelling.makes)
    if spelling.form == "without":
        return (current is None or current is False) == bool(spelling.makes)
    return current


def in_effect(one: Setting, engine: Engine) -> bool | None:
    """Whether the engine runs with it; None where the recording does not tell. Memory is compared in what the engine
    counts it in: blocks less than a GiB apart are one setting."""
    spelling, have = fitting(one.knob, engine), present_value(one.knob, engine)
    if spelling is None or have is None:
        return None
    told = number(engine.config.get(spelling.config)) if spelling.form in KEY else None
    if told is not None and have != one.value:
        return math.ceil(told / KEY[spelling.form]) == in_engines_unit(one, spelling, engine)
    return have == one.value


def in_engines_unit(one: Setting, spelling: Spelling, engine: Engine) -> int:
    """Blocks → GiB or bytes, rounded up. Raises CannotAnswer where the size of a block was not recorded."""
    each = _block_bytes(one.knob, engine)
    return math.ceil(float(one.value) * each / KEY[spelling.form])


def problems(settings: Candidate, engine: Engine) -> tuple[str, ...]:
    """What is wrong, in words: unknown knobs, values out of range, couplings. What is not recorded is no problem."""
    own = tuple(fault for one in settings if (fault := _fault(one, engine)))
    return own or tuple(_couplings(settings, engine))


def _fault(one: Setting, engine: Engine) -> str:
    knob = knobs().get(one.knob)
    if knob is None:
        return f"{one.knob} is no knob of ours. Try: {_known(engine)}"
    spelling = fitting(one.knob, engine)
    where = f"{engine.name or 'an unknown engine'} {engine.version} on {engine.config.get('device') or 'its device'}"
    if spelling is None:
        return f"{where} has no {one.knob}"
    if spelling.client:
        return f"{one.knob} is what clients change, and nothing an engine is started with: {spelling.client}"
    if knob.unit == "switch":
        return "" if isinstance(one.value, bool) else f"{one}: it is true or false"
    if knob.unit == "choice":
        return "" if one.value in knob.choices else f"{one}: it is one of {', '.join(knob.choices)}"
    if isinstance(one.value, (bool, str)) or not math.isfinite(one.value):
        return f"{one}: it is a number of {knob.unit}"
    if knob.unit != "ratio" and one.value != int(one.value):
        return f"{one}: it is a whole number of {knob.unit}"
    if not knob.low <= one.value <= knob.high:
        return f"{one}: {one.knob} goes from {knob.low:g} to {knob.high:g} {knob.unit}"
    if spelling.form in KEY and block_bytes(engine) is None:
        return f"{one}: the recording does not say how large a KV block is, so it cannot be said in the engine's unit"
    return ""


def _couplings(settings: Candidate, engine: Engine) -> Iterable[str]:
    """Those that can be told from the recorded configuration. The catalog's words for all of them: `couplings`."""
    chosen = {s.knob: s.value for s in settings}

    def value(knob: str) -> float | None:
        return number(chosen[knob]) if knob in chosen else number(present_value(knob, engine))

    running, budget, threshold = map(value, ("max_running_requests", "step_token_budget", "long_prefill_threshold"))
    context, drafted = number(engine.config.get("max_model_len")), value("speculative_tokens") or 0
    if "speculation" in chosen and not chosen["speculation"]:
        drafted = 0
    if running is not None and budget is not None and budget < running * (1 + drafted):
        each = f", each with {drafted:.0f} drafted tokens" if drafted else ""
        yield f"step_token_budget is {budget:.0f} and max_running_requests {running:.0f}{each}: a step must hold them"
    if context is not None and budget is not None and engine.config.get("enable_chunked_prefill") is False and (
            budget < context):  # fmt: skip
        yield f"step_token_budget is {budget:.0f} and prompts of {context:.0f} tokens come in one piece: chunked prefill is off"  # noqa: E501
    if context is not None and threshold is not None and threshold > context:
        yield f"long_prefill_threshold is {threshold:.0f} and no prompt is longer than {context:.0f}"
    needed = number(engine.config.get("kv_context_blocks"))
    for knob in sorted(chosen.keys() & {"kv_cache_memory", "kv_cache_limit"}):
        if needed is not None and (number(chosen[knob]) or 0) < needed:
            yield f"{knob} is {chosen[knob]} blocks and one request of the context length takes {needed:.0f}"
    yield from _experts(chosen, engine)


def _experts(chosen: dict[str, Value], engine: Engine) -> Iterable[str]:
    balanced = chosen.get("expert_balancing", engine.config.get("enable_eplb"))
    if chosen.get("expert_balancing") and engine.config.get("enable_expert_parallel") is False:
        yield "expert_balancing moves experts between ranks, and this engine is not expert-parallel"
    if "expert_copies" in chosen and balanced is False:
        yield "expert_copies needs expert_balancing, which is off"


def _engines(name: str, engine: Engine) -> tuple[str, Spelling]:
    """The knob that this engine spells so. Objects and bounds are no way to say a value: those knobs have our names."""
    wanted = _plainly(name)
    for knob in knobs():
        spelling = fitting(knob, engine)
        if spelling is None or spelling.client or spelling.form in ("json", "ceiling"):
            continue
        if wanted == _plainly(spelling.flag.split()[0]) if spelling.flag else name == spelling.env:
            return knob, spelling
    raise AskedWrongly(f"{name} is no knob of {engine.name or 'this engine'} {engine.version}. Known: {_known(engine)}")


def _known(engine: Engine) -> str:
    spelled = (knob for knob in knobs() if (s := fitting(knob, engine)) is not None and not s.client)
    return ", ".join(sorted(spelled)) or "none, for an engine that was not recorded with the probe"


def _plainly(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _value(knob: str, value: Value) -> Value:
    if knobs()[knob].unit == "switch":
        return _switch(knob, value)
    if knobs()[knob].unit == "choice":
        return _choice(knob, value)
    found = _number(knob, value)
    return int(found) if found.is_integer() else found


def _choice(knob: str, value: Value) -> str:
    """As the catalog writes it: engines differ in whether case matters."""
    found = next((c for c in knobs()[knob].choices if c.lower() == str(value).lower()), None)
    if found is None:
        raise AskedWrongly(f"{knob}={value}: it is one of {', '.join(knobs()[knob].choices)}")
    return found


def _switch(name: str, value: Value) -> bool:
    text = f"{value:g}" if isinstance(value, float) else str(value).lower()
    if text not in (*TRUE, *FALSE):
        raise AskedWrongly(f"{name}={value}: it is true or false")
    return text in TRUE


def _number(name: str, value: Value) -> float:
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise AskedWrongly(f"{name}={value}: it is a number")
    return found


def _blocks(name: str, value: float, spelling: Spelling, engine: Engine) -> int:
    """The engine's GiB or bytes → blocks. Whole ones: half a block holds nothing."""
    return math.floor(value * KEY[spelling.form] / _block_bytes(name, engine))


def _block_bytes(name: str, engine: Engine) -> float:
    each = block_bytes(engine)
    if each is None:
        raise CannotAnswer(f"{name}: the recording does not say how large a KV block is. Record the engine with the probe first")  # noqa: E501
    return each


"""A knob by any of its names: ours, or the engine's.

    resolve("max_num_seqs", "vllm")         "max_running_requests"
    resolve("--max-num-seqs", "vllm")       the same
    resolve("max_num_seq", "vllm")          AskedWrongly: no knob is called … Did you mean max_num_seqs?
"""

from __future__ import annotations

import difflib

from pellucid.catalog.load import knobs
from pellucid.core.errors import AskedWrongly


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


def _plain(name: str) -> str:
    return name.removeprefix("--").removeprefix("no-").replace("-", "_").lower()

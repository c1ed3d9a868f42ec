"""What a schedule is asked for: lines of JSON → settings and requests that are checked, and the token ids of a prompt.

    {"max_model_len": 4096, "max_num_seqs": 9, "max_num_batched_tokens": 512, "num_gpu_blocks": 900, "block_size": 16}
    {"arrival_ns": 0, "prompt_tokens": 500, "output_tokens": 40, "blocks": [0, 1], "block_tokens": 256}

Names of settings are the engine's. Whether a version has one, and what it makes of its value, is for the engine to say
(scheduler.py). A number in `blocks` stands for the tokens of its block and of all before it.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

# Those without which nothing can be said; defaults of the engine's own depend on the device it finds.
NEEDED = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "block_size")
# Type of each setting. Of these a version may lack some.
SETTINGS = {
    **dict.fromkeys(NEEDED, int),
    "model": str,                       # a folder with a config.json; without it, a small one is made
    "enable_prefix_caching": bool, "enable_chunked_prefill": bool, "scheduler_reserve_full_isl": bool,
    "long_prefill_token_threshold_adaptive": bool,
    "max_num_active_seqs": int, "max_num_scheduled_tokens": int, "long_prefill_token_threshold": int,
    "max_num_partial_prefills": int, "max_long_partial_prefills": int,
    "watermark": float, "scheduling_policy": str, "prefix_caching_hash_algo": str,
}  # fmt: skip
COUNTS = {"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}     # least value of what each request has
OPTIONAL = ("blocks", "block_tokens", "priority")


class CannotServe(Exception):
    """Told to the other end as an error: `what` is asked (wrongly asked), version (not in this one) or engine."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class Asked(NamedTuple):
    number: int                  # from 0 on, in order of arrival
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    blocks: Tuple[int, ...]
    block_tokens: int            # 0 without blocks
    priority: int


def settings(line: str) -> Dict[str, Any]:
    told = _object(line, "settings")
    unknown = sorted(set(told) - set(SETTINGS))
    if unknown:
        raise CannotServe("asked", f"no setting of a schedule: {', '.join(unknown)}. There are: {', '.join(SETTINGS)}")
    missing = [name for name in NEEDED if name not in told]
    if missing:
        raise CannotServe("asked", f"a schedule needs {', '.join(missing)}: the engine's defaults depend on the device")
    for name, value in told.items():
        if not _is(value, SETTINGS[name]):
            raise CannotServe("asked", f"setting {name} is {value!r}, not {SETTINGS[name].__name__}")
    if min(told["block_size"], told["num_gpu_blocks"] - 1) < 1:
        raise CannotServe("asked", "a KV block holds 1 token or more, and a cache 2 blocks: one of them is never used")
    return told


def requests(lines: Iterable[str]) -> Iterator[Asked]:
    """Up to the empty line. Lines that end before it are an error: the other end died."""
    before_ns = 0
    for number, line in enumerate(lines):
        if not line.strip():
            return
        one = _request(number, _object(line, f"request {number}"))
        if one.arrival_ns < before_ns:
            raise CannotServe("asked", f"request {number} arrives at {one.arrival_ns} ns, after one at {before_ns}")
        before_ns = one.arrival_ns
        yield one
    raise CannotServe("asked", "requests ended without an empty line")


def _request(number: int, told: Dict[str, Any]) -> Asked:
    unknown = sorted(set(told) - set(COUNTS) - set(OPTIONAL))
    if unknown:
        raise CannotServe("asked", f"request {number} has unknown {', '.join(unknown)}")
    for name, least in COUNTS.items():
        if not _is(told.get(name), int) or told[name] < least:
            raise CannotServe("asked", f"request {number}: {name} is {told.get(name)!r}, not a number from {least} on")
    blocks, size, priority = told.get("blocks") or [], told.get("block_tokens") or 0, told.get("priority") or 0
    if not isinstance(blocks, list) or not all(_is(n, int) for n in [*blocks, size, priority]):
        raise CannotServe("asked", f"request {number}: blocks, block_tokens and priority are whole numbers")
    if size < bool(blocks):
        raise CannotServe("asked", f"request {number} has blocks, and block_tokens {size}")
    arrival_ns, prompt, output = (told[name] for name in COUNTS)
    return Asked(number, arrival_ns, prompt, output, tuple(blocks), size, priority)


def _object(line: str, what: str) -> Dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise CannotServe("asked", f"{what}: no JSON object in {line.strip()[:80]!r}")
    return told


def _is(value: Any, kind: type) -> bool:
    """A bool is no number, and a whole number is good for any."""
    return isinstance(value, bool) == (kind is bool) and isinstance(value, (int, float) if kind is float else kind)


class Prompts:
    """Token ids. They stand for equal and different only, so they need not be of any vocabulary:

        even   tokens of a block, 2 × the number's place among all seen
        odd    a request's own: its prompt behind the known blocks, and all of its answer
    """

    def __init__(self) -> None:
        self._places: Dict[int, int] = {}

    def tokens(self, one: Asked) -> List[int]:
        found: List[int] = []
        for number in one.blocks:
            found += [2 * self._places.setdefault(number, len(self._places))] * one.block_tokens
        del found[one.prompt_tokens :]
        return found + [own(one)] * (one.prompt_tokens - len(found))


def own(one: Asked) -> int:
    return 2 * one.number + 1


def refusal(one: Asked, told: Dict[str, Any], usable_tokens: Optional[int]) -> Optional[str]:
    """Why a request can never be served, or None. The engine's server refuses the first kind; of the second the engine
    would wait, or preempt the request itself, for ever. `usable_tokens`: positions the KV cache holds of one request;
    None where that is not so simple."""
    whole = one.prompt_tokens + one.output_tokens
    if whole > told["max_model_len"]:
        return f"{whole} tokens with the answer, and max_model_len is {told['max_model_len']}"
    # The last token's keys and values are never needed.
    if usable_tokens is not None and whole - 1 > usable_tokens:
        return f"it needs KV blocks for {whole - 1} tokens, and those that can be used hold {usable_tokens}"
    return None

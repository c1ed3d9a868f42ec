"""A run of ours → a workload: what was asked, when, how long, and what prompts shared.

    recorded(open_run(folder), "20261130-091500-a1b2") → Workload

What a prompt shares is seen at its first admission: how many of its leading blocks had been computed before (found in
the cache, or evicted since), and the keyed fingerprint of its first block, its family. Whose blocks they were is not
seen. The latest earlier request of the family that is long enough, answer included, is taken:

    request  family  before   blocks
    1        f       0        0 1 2 3
    2        f       2        0 1 4        shares two blocks with request 1
    3        f       3        0 1 4 5      the latest that is long enough: request 2

So how much each prompt shares is as recorded, and with whom is a guess within its family. Each engine core has a cache
of its own, so across cores nothing is shared. Numbers of blocks are counted up: nothing of a prompt is in them.

A prompt that begins with another's prompt and answer is the next turn of its conversation (`collect/kv/turns.py`).
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pellucid.catalog.load import knobs
from pellucid.core.errors import CannotAnswer
from pellucid.store.read import RunReader
from pellucid.workload.fields import NO_PROMPT
from pellucid.workload.file import Workload
from pellucid.workload.rows import Request, Rows

NOT_RECORDED = {
    "blocks": "no prefix lookup was recorded (engine with the probe and prefix caching on): prompts are made without",
    "output_tokens": "no answer's length was recorded",
    "session": "no prompt was seen to go on from another's answer (KV block lives, answers of a block at least)",
    "think_ns": "no prompt was seen to go on from another's answer",
    **dict.fromkeys(("temperature", "top_p", "top_k"), "no sampling was recorded: the replay's own counts"),
    "seeded": "no sampling was recorded: a replay gives no seed",
}
_REQUESTS = """
SELECT r.process, r.request, r.arrival_ns, coalesce(r.arrival_ns, r.submitted_ns, r.queued_ns) AS asked_ns,
       r.prompt_tokens, r.output_tokens, r.max_tokens, r.task, r.response_format, r.finish_reason,
       r.temperature, r.top_p, r.top_k, r.seeded,
       l.request IS NOT NULL AS looked, l.family, l.skipped_tokens,
       l.cached_tokens + coalesce(l.evicted_tokens, 0) AS before_tokens
FROM requests r LEFT JOIN prefix_lookups l ON l.process = r.process AND l.request = r.request
ORDER BY coalesce(l.time_ns, asked_ns) NULLS LAST, r.process, r.request
"""
_TURNS = """
SELECT l.process, l.request, l.follows,
       coalesce(r.arrival_ns, r.submitted_ns, r.queued_ns) - b.last_token_ns AS think_ns
FROM prefix_lookups l
JOIN requests r ON r.process = l.process AND r.request = l.request
JOIN requests b ON b.process = l.process AND b.request = l.follows
WHERE think_ns >= 0
ORDER BY l.time_ns
"""
_BLOCK_TOKENS = """
SELECT process, mode(tokens) AS block_tokens FROM kv_residency WHERE tokens > 0 AND tier = 'device' GROUP BY process
"""
ENDED = ("stop", "length", "repetition")       # an answer that is as long as it would be


@dataclass(slots=True)
class Chain:
    numbers: list[int]
    blocks_count: int                   # with the answer's; those of its numbers that nobody shared are not made yet


@dataclass(slots=True)
class Tree:
    """Prompts of one engine core, one after another, by family."""

    numbers: Iterator[int]
    chosen_count: int = 0               # prompts that share with an earlier one that was chosen for them
    unseen_count: int = 0               # prompts that share with what was cached before the recording
    _chains: dict[str | None, list[Chain]] = field(default_factory=dict)    # of a family: each longer than the next
    _earlier: dict[str | None, list[int]] = field(default_factory=dict)     # cached before the recording

    def blocks(self, family: str | None, before: int, prompt: int, whole: int) -> list[int]:
        """Numbers of a prompt's blocks. Counts in blocks: those computed before, those of the prompt, and those with
        the answer."""
        found = self._shared(family, before) + [next(self.numbers) for _ in range(prompt - before)]
        chains = self._chains.setdefault(family, [])
        while chains and chains[-1].blocks_count <= whole:      # the new one is later, and as long
            chains.pop()
        chains.append(Chain(list(found), whole))
        return found

    def knows(self, family: str | None) -> bool:
        return family in self._chains

    def _shared(self, family: str | None, count: int) -> list[int]:
        """The beginning of the latest chain that is long enough."""
        if not count:
            return []
        chains = self._chains.get(family, [])
        at = bisect_right(chains, -count, key=lambda chain: -chain.blocks_count)
        self.chosen_count += at > 0
        self.unseen_count += at == 0
        chain = chains[at - 1].numbers if at else self._earlier.setdefault(family, [])
        chain.extend(next(self.numbers) for _ in range(count - len(chain)))
        return chain[:count]


def recorded(reader: RunReader, run_id: str) -> Workload:
    """Raises CannotAnswer where the run has no request with a prompt's length."""
    rows, sizes, turns = Rows(in_order=False), _block_tokens(reader), _turns(reader)
    numbers, kinds = count(), Counter[str]()
    trees: dict[str, Tree] = {}
    for row in reader.rows(_REQUESTS):
        rows.read_count += 1
        if not row["prompt_tokens"]:
            rows.left_out[NO_PROMPT] += 1
            continue
        kinds["no arrival"] += row["arrival_ns"] is None
        kinds["not ended"] += row["finish_reason"] not in ENDED
        size = sizes.get(row["process"])
        tree = trees.setdefault(row["process"], Tree(numbers))
        session, think_ns = turns.get((row["process"], row["request"]), (None, None))
        rows.add(Request(
            row["prompt_tokens"], row["output_tokens"], row["asked_ns"], _blocks(row, tree, size),
            size if row["looked"] else None, row["task"], session, row["response_format"], think_ns,
            row["temperature"], row["top_p"], row["max_tokens"], row["top_k"], row["seeded"],
        ))  # fmt: skip
    rows.notes.extend(_notes(kinds, trees, reader))
    workload = rows.workload(f"run {run_id}", "recorded", why_missing=NOT_RECORDED)
    if not len(workload):
        seen = f"{rows.read_count:,} requests, none with a prompt's length" if rows.read_count else "no request"
        raise CannotAnswer(f"run {run_id} has {seen}. Try: pellucid doctor")
    return workload


def _blocks(row: dict[str, Any], tree: Tree, size: int | None) -> list[int] | None:
    """None where nobody looked; [] for a prompt below a block."""
    if not row["looked"] or not size or row["before_tokens"] is None:
        return None
    prompt = row["prompt_tokens"] // size
    if not prompt:
        return []
    before = min(row["before_tokens"] // size, prompt)
    if row["skipped_tokens"] and tree.knows(row["family"]):     # the engine did not look; the first block is the same
        before = max(before, 1)
    return tree.blocks(row["family"], before, prompt, (row["prompt_tokens"] + (row["output_tokens"] or 0)) // size)


def _turns(reader: RunReader) -> dict[tuple[str, int], tuple[str, int | None]]:
    """Process and number of a request → its conversation, and how long its user thought; None for the first turn.

    One that arrived before the answer it goes on from had ended only says the same by chance.
    """
    found: dict[tuple[str, int], tuple[str, int | None]] = {}
    for row in reader.rows(_TURNS):
        before = (row["process"], row["follows"])
        session, _ = found.setdefault(before, (str(len(found) + 1), None))
        found[row["process"], row["request"]] = (session, row["think_ns"])
    return found


def _block_tokens(reader: RunReader) -> dict[str, int]:
    """Process → tokens of a block: as cached blocks have it; where they have expired, as configured."""
    names = {spelling.engine: spelling.config for spelling in knobs()["kv_block_tokens"].spellings}
    found = {}
    for row in reader.rows("SELECT process, engine, config_json FROM sources WHERE config_json IS NOT NULL"):
        with contextlib.suppress(ValueError, AttributeError):        # not JSON, or no object
            said = json.loads(row["config_json"]).get(names.get(row["engine"]))
            if isinstance(said, int) and said > 0:
                found[row["process"]] = said
    return found | {row["process"]: row["block_tokens"] for row in reader.rows(_BLOCK_TOKENS)}


def _notes(kinds: Counter[str], trees: dict[str, Tree], reader: RunReader) -> Iterator[str]:
    chosen, unseen = (sum(getattr(t, n) for t in trees.values()) for n in ("chosen_count", "unseen_count"))
    if kinds["no arrival"]:
        yield f"{kinds['no arrival']:,} requests were not seen to arrive: the engine's first sight of them stands in"
    if kinds["not ended"]:
        yield f"{kinds['not ended']:,} requests were aborted or did not end: their answer is as long as it had become"
    if chosen:
        yield (f"how much of {chosen:,} prompts had been computed before was recorded, for whom was not: the latest "
               "earlier request of the same first block that is long enough was taken")  # fmt: skip
    if unseen:
        yield f"{unseen:,} prompts share with what was cached before the recording: one prompt for each first block"
    if len(trees) > 1 and (chosen or unseen):
        yield f"{len(trees)} engine cores have caches of their own: what prompts share across them was not recorded"
    if reader.damaged:
        yield f"{len(reader.damaged)} damaged files of the run were left out"

"""Prompts share text that was computed before, and the prefix cache cannot give it: the reason is named.

Looks like
    Requests of one kind start alike, or hold the same document, and hardly a token is found in the cache, however
    large it is. One of: each request carries a cache salt of its own; an id, a date or the question stands in front
    of what is the same; or the same part ends in the middle of a large KV block.

Why it costs
    A block is found by the hash of its tokens and all before them, salt included. One differing token in front makes
    every block behind it a new one, and what does not fill a block is never found.

Not this when
    The prompts are different, in their text or in their images and sounds; adapters are (their KV blocks are too);
    blocks were evicted (prefix.evicted_before_reuse); or prefill is a small part of TTFT.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

SOME = Limit(0.05, "ratio", "chosen: the rest of a well cached prompt is small, and its prefill mostly what a step costs anyhow")
FELT = Limit(0.1, "ratio", "chosen: removing less than a tenth of TTFT is not felt")
LOW_SHARE = Limit(0.5, "ratio", "chosen: steps are shared, so up to half of a request's prefill time may be other requests' work")
SMALL = Limit(32, "tokens", "the smallest block that the attention kernels of GPUs and of CPUs both take")
WORDS = {
    "salt": "were computed before under another cache salt",
    "tokenisation": "were computed before, but behind other leading tokens (an id, a date, a template)",
    "tail": "came behind the last whole block, in prompts whose every whole block was found",
}
MOVES = {"salt": "cache_salt_per_tenant", "tokenisation": "variable_part_last", "tail": "kv_block_tokens"}


def judge(row: Row) -> Verdict:
    if not row["request_ttft_ns"]:
        return not_applicable("no request had a first token: there is no TTFT to gain")
    lost = {"salt": row.number("salt_tokens"), "tokenisation": row.number("tokenisation_tokens"), "tail": _tail(row)}
    reason = max(lost, key=lambda name: lost[name])
    prompt, prefill = row.number("prompt_tokens"), row.number("request_prefill_ns") / row.number("request_ttft_ns")
    if lost[reason] / prompt < SOME.value:
        shared = f"{percent(sum(lost.values()) / prompt)} of the prompt tokens could have been shared and were not"
        other = row["multimodal_tokens"]     # unknown in some recordings
        differ = f"; {percent(other / prompt)} are of other images or sounds, or behind such" if other else ""
        return clear(shared + differ)
    high = lost[reason] / (prompt - row.number("cached_tokens")) * prefill
    if high < FELT.value:
        return clear(f"{percent(lost[reason] / prompt)} of the prompt tokens {WORDS[reason]}: {percent(high)} of TTFT")
    low, target = (0.0, SMALL.value) if reason == "tail" else (LOW_SHARE.value * high, 1.0)
    return found(
        f"{percent(lost[reason] / prompt)} of the prompt tokens {WORDS[reason]}: no cache of any size finds them",
        Gain("ttft_mean_ns", low, high, "end_to_end"),
        {MOVES[reason]: target},
    )


def _tail(row: Row) -> float:
    """An upper bound: how much of a tail is shared, no hash tells. Nothing where blocks are small already."""
    size = row["block_tokens"]
    return row.number("shared_tail_tokens") if size is not None and size > SMALL.value else 0.0


HEAD = "repeat  prompt_tokens  cached_tokens  salt_tokens  tokenisation_tokens  tail_tokens  miss_reason\n"
REQUESTS = {"requests": "arrival_ns  queued_ns  scheduled_ns  first_token_ns\n 0  10  20  100\n 0  10  -  -"}


def _lookups(*lines: str, block: int = 128, head: str = HEAD) -> dict[str, str]:
    return {"prefix_lookups": head + "\n".join(lines), "kv_residency": f"tokens\n{block}"} | REQUESTS


RULE = Rule(
    id="prefix.never_shareable",
    question="Do prompts share text that the prefix cache cannot give, whatever its size?",
    needs=(
        Need("prefix_lookups", ("prompt_tokens", "cached_tokens", "salt_tokens", "tokenisation_tokens", "tail_tokens"),
             "run the engine with the probe, and prefix caching on", ("miss_reason", "multimodal_tokens"), fact="kv.lives"),
        Need("kv_residency", (), "run the engine with the probe, and prefix caching on", ("tokens",)),
        Need("requests", ("queued_ns", "scheduled_ns", "first_token_ns"), "run the engine with the probe", ("arrival_ns",)),
    ),
    evidence="""
        SELECT sum(prompt_tokens)       AS prompt_tokens,
               sum(cached_tokens)       AS cached_tokens,
               sum(salt_tokens)         AS salt_tokens,
               sum(tokenisation_tokens) AS tokenisation_tokens,
               sum(multimodal_tokens)   AS multimodal_tokens,
               coalesce(sum(tail_tokens) FILTER (miss_reason IS NULL AND cached_tokens > 0), 0)    AS shared_tail_tokens,
               (SELECT max(tokens) FROM span_kv_residency)                                         AS block_tokens,
               (SELECT sum(first_token_ns - scheduled_ns) FROM requests)                           AS request_prefill_ns,
               (SELECT sum(first_token_ns - coalesce(arrival_ns, queued_ns)) FROM requests)        AS request_ttft_ns
        FROM prefix_lookups
    """,
    judge=judge, limits=(SOME, FELT, LOW_SHARE, SMALL),
    moves=(Move("cache_salt_per_tenant", "set", "who shares a salt can tell from response times what others with it have asked"),
           Move("variable_part_last", "set", "a changed prompt: check that the answers are as good"),
           Move("kv_block_tokens", "lower", "more blocks to keep account of")),
    falsified_by="cached_tokens of prefix_lookups does not rise after the move, or ttft_mean_ns does not fall",
    explained_by=(),
    cases=(
        Case("a salt for each request", "found", _lookups("9  100  0  96  0  4  salt"), says="96% of the prompt tokens were computed before under another cache salt"),
        Case("an id in front", "found", _lookups("1  100  0  10  80  4  tokenisation"), says="80% of the prompt tokens were computed before, but behind other"),
        Case("the same document, and blocks of 128", "found",
             _lookups("9  240  128  0  0  112  -", "9  100  0  0  0  100  -"), says="33% of the prompt tokens came behind the last whole block"),
        Case("the same, and small blocks", "clear", _lookups("9  240  128  0  0  112  -", block=32), says="0% of"),
        Case("tails of prompts that share nothing", "clear", _lookups("9  240  0  0  0  112  never_seen", "9  90  0  0  0  90  -"), says="0% of"),
        Case("a salt for each tenant", "clear", _lookups("9  100  88  8  0  4  salt", "91  100  96  0  0  4  -", block=16), says="0.7% of"),
        Case("another image each time", "clear",
             _lookups("9  100  10  0  0  4  80", block=16, head=HEAD.replace("miss_reason", "multimodal_tokens")), says="0% of the prompt tokens could have been shared and were not; 80% are of other images"),
        Case("no first token", "not_applicable",
             _lookups("9  100  0  96  0  4  salt") | {"requests": "queued_ns  scheduled_ns  first_token_ns\n 1  1  -\n 1  -  1"}),
        Case("lookups are not seen", "blind", _lookups("9  100  0  -  0  4  salt"), says="salt_tokens"),
    ),
)  # fmt: skip

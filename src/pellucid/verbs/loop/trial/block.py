"""One piece of traffic at one arm → a block: what its clients saw.

    played = serve(arm.target, pieces.piece(3), limit_s=120, slo=())
    played.block           Block(output_tokens_per_s=412.0, tpot_mean_ns=…, …)
    played.overdue_count   0; of a block that was cut off: requests that had no end when the time was over
    played.client_bound    "" or why these numbers are the client's own
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pellucid.collect.client.ask import Ask, Reply
from pellucid.collect.client.measures import client_bound, faults, measure, seen
from pellucid.collect.client.play import Bounds, Target, play
from pellucid.tune.effect.pairs import Block
from pellucid.tune.effect.requests import Timing
from pellucid.tune.slo import Slo
from pellucid.verbs.loop.promised import kept

OVERDUE = "timeout"


@dataclass(frozen=True, slots=True)
class Served:
    block: Block
    started_ns: int        # CLOCK_MONOTONIC
    overdue_count: int
    error: str             # the first of the most frequent fault
    client_bound: str
    requests: tuple[Timing, ...]


def serve(target: Target, asks: Sequence[Ask], limit_s: float, slo: Slo) -> Served:
    """Open loop: each request goes out at its time, whatever the engine does. Late ones are cut off."""
    played = play(target, asks, Bounds(block_s=limit_s, give_up=True))
    measures = measure(played.replies, played.ended_ns - played.began_ns, kept(slo))
    block = Block(**asdict(measures))
    found = faults(played.replies)
    error = next((f"{kind}: {words}" for kind, (_, words) in found.items()), played.ended_early)
    return Served(block, played.began_ns, found.get(OVERDUE, (0, ""))[0], error, client_bound(played),
                  tuple(map(_timing, played.replies)))  # fmt: skip


def _timing(reply: Reply) -> Timing:
    own = seen(reply)
    mean_ns = sum(own.gaps_ns) / len(own.gaps_ns) if own.gaps_ns else None
    return Timing(own.ok, own.ttft_ns, mean_ns)

"""What the probe costs a token, within streams that run: it looks and pauses in turn while the same requests decode.

    .venv/bin/python -m bench.overhead_in_stream [--rounds 12] [--model tiny-dense]
    .venv/bin/python -m bench.overhead_in_stream --null      looking in all windows: what the method makes of nothing
    python3 -m bench.overhead_in_stream --model NAME --command 'vllm serve … --port {port}'

    a round   | prompts | looking | paused | paused | looking | paused | looking | looking | paused | end of connections
                        |<------------------------------ the same requests ------------------------------>|

`bench.engine_overhead` compares bursts, and bursts differ by more than the probe could cost. Here neighbours are
windows of one batch; contexts grow, which the order of the eight cancels (each second round the other way round). A
round's figures are over all its windows that look against all that are paused: one ratio a round, its interval a t
interval over the logarithms. The start of each window is left out: the probe looks for the file `pause` as often as it
empties its outbox. Rounds are printed as they come, on stderr.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from bench.engine_overhead import SETTLE_S, recorded, report, turn
from pellucid.testing.engine import Engine
from pellucid.testing.traffic import TEXT, TOKENS, Ask, Reply, send
from tools import real_engine

TAIL_S = 0.5                   # from the last window's end until the connections are closed
LEAST_GAPS = 1000              # of a round's windows of a kind: their p99 is no figure with fewer
FIRST = (False, True, True, False, True, False, False, True)      # paused?
ORDERS = (FIRST, tuple(not paused for paused in FIRST))

Window = tuple[bool, int, int]          # paused, from and until when, ns


def a_round(
    engine: Engine, asked: argparse.Namespace, pause: Path | None, n: int
) -> tuple[list[Reply], list[Window]]:
    lasts_s = asked.lead + len(FIRST) * (asked.window + SETTLE_S) + TAIL_S
    asks = [Ask(0.0, [3 + (7 * n + 13 * i + k) % 4000 for k in range(asked.prompt)], asked.output,
                path=TOKENS if asked.tokens else TEXT, hang_up_s=lasts_s) for i in range(asked.requests)]  # fmt: skip
    sent = ThreadPoolExecutor(1).submit(send, engine.url, asked.model, asks)
    time.sleep(asked.lead)
    windows: list[Window] = []
    for paused in ORDERS[n % 2]:
        turn(pause, paused)
        start = time.monotonic_ns()
        time.sleep(asked.window)
        windows.append((paused, start, time.monotonic_ns()))
    return sent.result(), windows


def measures(replies: Sequence[Reply], windows: Sequence[Window]) -> tuple[float, float, float]:
    """MEASURES over some windows: ns, ns, per s. Raises RuntimeError where the streams did not last."""
    gaps: list[int] = []
    tokens = took_ns = 0
    for reply in replies:
        if not reply.ok:
            raise RuntimeError(f"{reply.status} {reply.error}")
        if reply.arrivals[-1].time_ns < windows[-1][2]:
            raise RuntimeError("a stream ended before the last window did: more --output, or a shorter --window")
        for _, start, end in windows:
            inside = [a for a in reply.arrivals if start <= a.time_ns < end]
            gaps += [b.time_ns - a.time_ns for a, b in pairwise(inside)]
            seen = [(a.time_ns, a.output_tokens) for a in inside if a.output_tokens is not None]
            if seen:     # from token to token: a window's own ends cut a gap, which is a step more or less
                took_ns += seen[-1][0] - seen[0][0]
                tokens += seen[-1][1] - seen[0][1]
    if len(gaps) < LEAST_GAPS:
        raise RuntimeError(f"{len(gaps)} token gaps; their p99 takes {LEAST_GAPS}: a longer --window")
    gaps.sort()
    return statistics.median(gaps), gaps[int(0.99 * len(gaps))], len(replies) * tokens / (took_ns / 1e9)


def ratios(replies: Sequence[Reply], windows: Sequence[Window]) -> list[float]:
    """looking ÷ paused of a round, in the order of MEASURES."""
    looking, paused = (measures(replies, [w for w in windows if w[0] is kind]) for kind in (False, True))
    return [a / b for a, b in zip(looking, paused, strict=True)]


def rounds(asked: argparse.Namespace) -> list[list[float]]:
    with recorded(asked) as (engine, pause):
        a_round(engine, asked, pause, 1)      # the first pays for what is set up late
        found = []
        for n in range(asked.rounds):
            found.append(ratios(*a_round(engine, asked, pause, n)))
            print(f"round {n}: {' '.join(f'{ratio:.4f}' for ratio in found[-1])}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--rounds", type=int, default=12)
    ask.add_argument("--null", action="store_true", help="look in all windows")
    ask.add_argument("--model", default="tiny-dense")
    ask.add_argument("--command", help="another engine, which is to listen on {port}")
    ask.add_argument("--tokens", action="store_true", help="send token ids and take token ids back")
    ask.add_argument("--requests", type=int, default=8)
    ask.add_argument("--prompt", type=int, default=32)
    ask.add_argument("--output", type=int, default=2500)
    ask.add_argument("--lead", type=float, default=1.0, help="seconds until the first window")
    ask.add_argument("--window", type=float, default=0.8, help="seconds")
    asked = ask.parse_args()
    found = rounds(asked)
    how = asked.command or f"CPU engine, {real_engine.dtype()}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {asked.model}, {how}; {asked.requests} streams "
          f"of {asked.prompt} + {asked.output} tokens, windows of {asked.window:.1f} s, {len(found)} rounds of "
          f"{len(FIRST)}, load {os.getloadavg()[0]:.1f}")
    report(found, asked.null, 4)
    return 0


if __name__ == "__main__":
    sys.exit(main())

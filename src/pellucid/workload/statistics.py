"""What a workload is like: load, lengths, what prompts share. What cannot be known is None, with the reason.

    statistics(workload).gap_cv       0.98; None where the source's clock is too coarse for it: `gap_blind` says so

Quantiles are values that occurred (the least one with at least that share at or below it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.core.units import S_NS, counted, duration, percent
from pellucid.workload.file import Workload

QUANTILES = (0.1, 0.5, 0.9, 0.99)
# A clock's step may be so much of the mean gap, or make so many coincide, before gaps are no measure. Chosen: on a
# Poisson stream a step of a twentieth of the mean gap makes a twentieth of the requests coincide (1 - exp(-1/20)).
COARSE_RATIO = 0.05
STEP_QUANTILE = 0.1            # of the distances between distinct times: the clock's step is at most that
LEAST_GAPS = 20                # chosen: a CV of fewer says little
WINDOW_STAMPS = 10             # a window of counts is so many steps of the clock: chosen, its grain is a tenth then
LEAST_WINDOWS = 20             # chosen: a variance of fewer counts says little
TASKS = 8                      # that are named

Integers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Lengths:
    seen_count: int
    sum_tokens: int
    mean_tokens: float
    quantiles_tokens: tuple[int, ...]     # of QUANTILES
    largest_tokens: int


@dataclass(frozen=True, slots=True)
class Arrivals:
    span_ns: int
    rate_per_s: float | None            # None where all came at once
    gap_cv: float | None                # standard deviation of gaps over their mean; 1 for a Poisson stream
    gap_blind: str                      # why gap_cv is None
    stamps_count: int                   # moments at which anything arrived
    window_ns: int | None               # of the counts
    dispersion: float | None            # variance of counts by window over their mean; 1 for a Poisson stream


@dataclass(frozen=True, slots=True)
class Sharing:
    """With a cache that never forgets and only knows prompts."""

    seen_count: int                     # requests whose blocks are known
    prompt_tokens: int                  # of these
    repeated_tokens: int                # in leading blocks that an earlier prompt had
    repeating_count: int                # requests with any
    distinct_blocks_count: int
    unknown_tokens: int                 # behind the blocks that are known


@dataclass(frozen=True, slots=True)
class Statistics:
    requests_count: int
    prompt: Lengths | None
    output: Lengths | None
    arrivals: Arrivals | None
    sharing: Sharing | None
    tasks: tuple[tuple[str | None, int], ...]        # most frequent first
    tasks_count: int                                 # named ones
    sessions_count: int | None
    turns_mean_count: float | None                   # of a session
    think_ns: tuple[int, ...] | None                 # of QUANTILES


def statistics(workload: Workload) -> Statistics:
    table = workload.requests
    named = _counts(table.column("task"))
    sessions = _counts(table.column("session"))
    turns = [count for name, count in sessions if name is not None]
    think = _ints(table.column("think_ns"))
    return Statistics(
        len(workload), lengths(table.column("prompt_tokens")), lengths(table.column("output_tokens")),
        arrivals(_ints(table.column("arrival_ns"))), sharing(table),
        tuple(named[:TASKS]), sum(name is not None for name, _ in named),
        len(turns) or None, sum(turns) / len(turns) if turns else None, _quantiles(think) if len(think) else None,
    )  # fmt: skip


def lengths(column: pa.ChunkedArray) -> Lengths | None:
    values = _ints(column)
    if not len(values):
        return None
    return Lengths(len(values), int(values.sum()), float(values.mean()), _quantiles(values), int(values.max()))


def arrivals(times_ns: Integers) -> Arrivals | None:
    """Of moments in order."""
    if not len(times_ns):
        return None
    stamps = np.unique(times_ns)
    span_ns, gaps = int(times_ns[-1] - times_ns[0]), np.diff(times_ns)
    blind = _gap_blind(times_ns, stamps)
    cv = None if blind else float(gaps.std() / gaps.mean())
    window_ns, dispersion = _dispersion(times_ns, stamps)
    rate = (len(times_ns) - 1) * S_NS / span_ns if span_ns else None
    return Arrivals(span_ns, rate, cv, blind, len(stamps), window_ns, dispersion)


def sharing(table: pa.Table) -> Sharing | None:
    seen: set[int] = set()
    counts = [0, 0, 0, 0, 0]
    columns = (table.column(n).to_pylist() for n in ("prompt_tokens", "block_tokens"))
    for prompt, size, blocks in zip(*columns, _lists(table.column("blocks")), strict=True):
        if blocks is None or size is None:
            continue
        known = repeating_blocks(blocks, seen)
        seen.update(blocks)
        behind = max(0, prompt - len(blocks) * size)
        more = (1, prompt, min(prompt, known * size), int(known > 0), behind)
        counts = [a + b for a, b in zip(counts, more, strict=True)]
    if not counts[0]:
        return None
    seen_count, prompt_tokens, repeated, repeating, unknown = counts
    return Sharing(seen_count, prompt_tokens, repeated, repeating, len(seen), unknown)


def repeating_blocks(blocks: Sequence[int], seen: set[int]) -> int:
    """Leading blocks that were seen before."""
    return next((i for i, block in enumerate(blocks) if block not in seen), len(blocks))


def _gap_blind(times_ns: Integers, stamps: Integers) -> str:
    """Why the gaps tell nothing, or ""."""
    if len(times_ns) - 1 < LEAST_GAPS:
        return f"{counted(len(times_ns) - 1, 'gaps')}, fewer than {LEAST_GAPS}"
    if len(stamps) == 1:
        return "all requests have the same time"
    gaps_count, steps = len(times_ns) - 1, np.diff(stamps)
    together = 1 - len(steps) / gaps_count
    step_ns = float(np.quantile(steps, STEP_QUANTILE, method="inverted_cdf"))
    if together > COARSE_RATIO and step_ns > COARSE_RATIO * (stamps[-1] - stamps[0]) / gaps_count:
        step = duration(step_ns)
        return f"{percent(together)} of requests have the time of the one before; others come {step} or more after it"
    return ""


def _dispersion(times_ns: Integers, stamps: Integers) -> tuple[int | None, float | None]:
    """Variance over mean of counts in windows wide enough for the clock, and for five requests each."""
    if len(stamps) < 2:
        return None, None
    span_ns = int(stamps[-1] - stamps[0])
    step_ns = int(np.median(np.diff(stamps)))
    window_ns = max(WINDOW_STAMPS * step_ns, 5 * span_ns // len(times_ns), 1)
    windows = span_ns // window_ns
    if windows < LEAST_WINDOWS:
        return None, None
    whole = times_ns[times_ns < times_ns[0] + windows * window_ns] - times_ns[0]
    counts = np.bincount(whole // window_ns, minlength=windows)
    return window_ns, float(counts.var() / counts.mean())


def _quantiles(values: Integers) -> tuple[int, ...]:
    return tuple(int(v) for v in np.quantile(values, QUANTILES, method="inverted_cdf"))


def _ints(column: pa.ChunkedArray) -> Integers:
    found: Integers = pc.drop_null(column).to_numpy()
    return found


def _counts(column: pa.ChunkedArray) -> list[tuple[str | None, int]]:
    pairs = ((row["values"], row["counts"]) for row in pc.value_counts(column).to_pylist())
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0] or ""))


def _lists(column: pa.ChunkedArray) -> Iterator[list[int] | None]:
    """One batch at a time: all blocks of a long trace as Python numbers would be much memory."""
    for chunk in column.chunks:
        for start in range(0, len(chunk), 4096):
            yield from chunk.slice(start, 4096).to_pylist()

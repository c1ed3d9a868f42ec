"""`pellucid workload show` on one screen.

    requests    12,031 over 59 min, 3.4 a second
    bursts      blind: 90% of requests have the time of the one before; others come 3.0 s or more after it
    prompt      p10 964 · p50 6,909 · p90 27,367 · p99 85,401 · most 126,195 · mean 12,035 tokens
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from pellucid.core.units import counted, duration, percent
from pellucid.surface.cli.render.page import grid, number
from pellucid.verbs.loop.workload import Arrivals, Lengths, Sharing, Shown, quantiles_named


def screen(shown: Shown) -> Table:
    about, found = shown.about, shown.statistics
    table = grid(label_width=11)
    seed = "" if about.seed is None else f", drawn with seed {about.seed}"
    table.add_row("source", f"{about.source} ({about.format}{seed})")
    table.add_row("requests", _load(found.requests_count, found.arrivals))
    if found.arrivals:
        table.add_row("bursts", _bursts(found.arrivals))
    table.add_row("prompt", _lengths(found.prompt))
    table.add_row("answer", _lengths(found.output))
    if found.sharing:
        table.add_row("sharing", _sharing(found.sharing))
    if found.tasks_count:
        table.add_row("tasks", _tasks(found.tasks, found.tasks_count))
    if found.sessions_count:
        turns = number(found.turns_mean_count or 0)
        table.add_row("sessions", f"{found.sessions_count:,}, of {turns} turns on average")
    if found.think_ns:
        named = quantiles_named(found.think_ns) or {}
        table.add_row("think time", _joined({q: duration(v) for q, v in named.items()}))
    for why in dict.fromkeys(about.missing.values()):
        table.add_row("blind", f"{', '.join(c for c, w in about.missing.items() if w == why)}: {why}")
    for column, count in shown.null_counts.items():
        table.add_row("partly", f"{column}: {count:,} of {found.requests_count:,} requests have none")
    for reason, count in about.left_out.items():
        table.add_row("left out", f"{count:,} of {about.read_count:,}: {reason}")
    for note in about.notes:
        table.add_row("note", note)
    return table


def _load(count: int, arrivals: Arrivals | None) -> str:
    if arrivals is None:
        return f"{count:,}, without times"
    rate = "all at once" if arrivals.rate_per_s is None else f"{number(arrivals.rate_per_s)} a second"
    return f"{count:,} over {duration(arrivals.span_ns)}, {rate}"


def _bursts(arrivals: Arrivals) -> str:
    said = f"blind: {arrivals.gap_blind}" if arrivals.gap_cv is None else f"CV of gaps {number(arrivals.gap_cv)}"
    if arrivals.dispersion is not None and arrivals.window_ns is not None:
        said += f"; counts in {duration(arrivals.window_ns)}: variance {number(arrivals.dispersion)} times the mean"
    return f"{said} (Poisson: 1)" if arrivals.gap_cv is not None or arrivals.dispersion is not None else said


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "lengths not known"
    named = {q: f"{v:,}" for q, v in (quantiles_named(lengths.quantiles_tokens) or {}).items()}
    return _joined({**named, "most": f"{lengths.largest_tokens:,}", "mean": f"{lengths.mean_tokens:,.0f} tokens"})


def _sharing(sharing: Sharing) -> str:
    ratio = percent(sharing.repeated_tokens / sharing.prompt_tokens)
    said = (
        f"at best {sharing.repeated_tokens:,} of {sharing.prompt_tokens:,} prompt tokens ({ratio}) repeat an earlier "
        f"prompt's beginning, in {sharing.repeating_count:,} of {counted(sharing.seen_count, 'requests')}"
    )
    if sharing.unknown_tokens:
        said += f"; {sharing.unknown_tokens:,} tokens lie behind the blocks that are known"
    return said


def _tasks(tasks: Sequence[tuple[str | None, int]], count: int) -> str:
    more = count - sum(name is not None for name, _ in tasks)
    said = _joined({name or "without": f"{n:,}" for name, n in tasks})
    return said + (f" · and {more:,} more" if more else "")


def _joined(pairs: dict[str, str]) -> str:
    return " · ".join(f"{name} {value}" for name, value in pairs.items())

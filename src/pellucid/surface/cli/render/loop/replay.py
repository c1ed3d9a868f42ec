"""`pellucid replay` on one screen: was the client in the way, was the traffic the workload's, what came back.

    client      late p50 0.6 ms · p90 1.1 ms · p99 2.4 ms, may be 41 ms; its loop away p99 3.1 ms; 6.1% of a core
    requests    200 sent: 198 answered, 2 failed
                workload                                     as sent
    rate        4.2 a second                                 4.2 a second
    TTFT        p50 310 ms · p90 702 ms · p95 1.1 s · p99 2.0 s
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pellucid.core.units import S_NS, duration, percent
from pellucid.surface.cli.render.page import MISSING, grid, heading, number
from pellucid.verbs.loop.replay import LAG_QUANTILES, QUANTILES, Counts, Replayed
from pellucid.verbs.loop.workload import Lengths, Statistics, quantiles_named

TOLD_EVERY_S = 10
SHOWN_CHARACTERS = 160       # of an error's words


def screen(replayed: Replayed) -> Group:
    head = grid()
    if replayed.client_bound:
        head.add_row("no verdict", heading(f"the client was in the way: {replayed.client_bound}"))
    head.add_row("client", _client(replayed))
    head.add_row("requests", _requests(replayed))
    for kind, (count, says) in replayed.faults.items():
        head.add_row("failed", f"{kind}, {count:,} times; the first: {says[:SHOWN_CHARACTERS]}")
    if replayed.played.ended_early:
        head.add_row("ended early", f"{replayed.played.ended_early}; {replayed.played.unsent_count:,} not sent")
    for reason, count in replayed.plan.left_out.items():
        head.add_row("left out", f"{count:,} of {replayed.plan.read_count:,}: {reason}")
    tail = grid()
    for name, values in (("TTFT", replayed.latencies.ttft_ns), ("TPOT", replayed.latencies.tpot_ns),
                         ("ITL", replayed.latencies.itl_ns), ("E2E", replayed.latencies.e2e_ns)):  # fmt: skip
        tail.add_row(name, _durations(values, QUANTILES))
    per_s = replayed.measures.output_tokens_per_s
    tail.add_row("throughput", "not seen" if per_s is None else f"{number(per_s)} output tokens a second")
    good = replayed.measures.good_count
    if good is not None:
        per_good_s = good / (replayed.measures.duration_ns / S_NS)
        tail.add_row("goodput", f"{good:,} of {replayed.measures.requests_count:,} requests within the limits, "
                     f"{number(per_good_s)} a second")  # fmt: skip
    tail.add_row("conditions", ", ".join(_conditions(replayed)))
    for note in replayed.plan.notes:
        tail.add_row("note", note)
    return Group(head, Text(), _beside(replayed), Text(), tail)


def progress(counts: Counts, say: Callable[[str], None]) -> None:
    """A line now and then, for who waits."""
    if counts.second % TOLD_EVERY_S == 0:
        failed = f", {counts.faults_count:,} failed" if counts.faults_count else ""
        say(f"{counts.sent_count:,} of {counts.asked_count:,} sent, {counts.running_count:,} running{failed}")


def _client(replayed: Replayed) -> str:
    late = f"late {_durations(replayed.lags_ns, LAG_QUANTILES)}, may be {duration(replayed.lag_limit_ns)}"
    stalls = duration(replayed.stalls_ns[-1]) if replayed.stalls_ns else MISSING
    return f"{late}; its loop away p99 {stalls}; {percent(replayed.played.busy_ratio)} of a core"


def _requests(replayed: Replayed) -> str:
    sent = len(replayed.played.replies)
    said = f"{sent:,} sent: {replayed.ok_count:,} answered, {sent - replayed.ok_count:,} failed"
    off = f"; {replayed.off_count:,} answers of another length than asked for" if replayed.off_count else ""
    return said + off


def _beside(replayed: Replayed) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=11, no_wrap=True, style="dim")
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    both = (replayed.source, replayed.sent)
    table.add_row("", Text("workload", style="dim"), Text("as sent", style="dim"))
    for label, told in (("rate", _rate), ("bursts", _bursts), ("prompt", _prompts), ("answer", _answers),
                        ("alike", _alike)):  # fmt: skip
        table.add_row(label, *(MISSING if found is None else told(found) for found in both))
    return table


def _rate(found: Statistics) -> str:
    rate = found.arrivals.rate_per_s if found.arrivals else None
    return MISSING if rate is None else f"{number(rate)} a second"


def _bursts(found: Statistics) -> str:
    if found.arrivals is None:
        return MISSING
    cv = found.arrivals.gap_cv
    return f"blind: {found.arrivals.gap_blind}" if cv is None else f"CV of gaps {number(cv)}"


def _prompts(found: Statistics) -> str:
    return _lengths(found.prompt)


def _answers(found: Statistics) -> str:
    return _lengths(found.output)


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return MISSING
    named = quantiles_named(lengths.quantiles_tokens) or {}
    return " · ".join([*(f"{name} {value:,}" for name, value in named.items()), f"{lengths.sum_tokens:,} in all"])


def _alike(found: Statistics) -> str:
    if found.sharing is None:
        return "blind: what prompts share is not known"
    ratio = percent(found.sharing.repeated_tokens / found.sharing.prompt_tokens)
    return f"{ratio} of prompt tokens repeat an earlier prompt's beginning"


def _durations(values: Sequence[float] | None, at: Sequence[float]) -> str:
    if values is None:
        return "not seen"
    return " · ".join(f"p{q * 100:.0f} {duration(value)}" for q, value in zip(at, values, strict=True))


def _conditions(replayed: Replayed) -> Iterator[str]:
    said = replayed.conditions
    yield f"{said['model']} on {said['engine'] or 'a server of no kind we know'}"
    yield f"speed {said['speed']:g}, tokens {said['tokens_ratio']:g}, seed {said['seed']}"
    if said["rate_per_s"] is not None:
        yield f"arrivals drawn at {said['rate_per_s']:g} a second"
    if said["output_tokens"] is not None:
        yield f"answers of unknown length {said['output_tokens']:,} tokens long"
    yield f"at most {said['context_tokens']:,} tokens a request"
    yield f"token ids {said['first_token_id']:,} to {said['end_token_id'] - 1:,}"

"""`pellucid predict` on one screen: how far to trust it, then what is asked.

                     recorded   twin of it              as it is, 1.5x          max_running_requests=64, 1.5x
    TTFT p50         48 ms      51 ms (49 to 52)        83 ms (79 to 87)        61 ms (58 to 64)
"""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pellucid.core.units import duration, percent
from pellucid.sim.predict import Predicted, Value
from pellucid.surface.cli.render.page import MISSING, grid, heading, number
from pellucid.verbs.predict.check import Checked
from pellucid.verbs.predict.what_if import Answer, Asked

NAMES = {
    "goodput_per_s": "goodput/s", "ttft_p50_ns": "TTFT p50",
    "ttft_p95_ns": "TTFT p95", "tpot_mean_ns": "TPOT mean", "tpot_p95_ns": "TPOT p95",
    "itl_p95_ns": "ITL p95", "e2e_p50_ns": "E2E p50", "e2e_p95_ns": "E2E p95",
    "output_tokens_per_s": "output tokens/s", "requests_per_s": "requests/s",
    "output_token_joules": "joules/output token",
}  # fmt: skip


def screen(answer: Answer) -> Group:
    wished = ", ".join(str(s) for s in answer.wish)
    load = "" if answer.load_ratio == 1 else f"{answer.load_ratio:g}x"
    columns: list[tuple[str, Asked]] = [("twin of it", answer.again)]
    if answer.present is not answer.again:
        columns.append((", ".join(filter(None, ("as it is", load))), answer.present))
    if answer.candidate is not answer.present:
        columns.append((", ".join(filter(None, (wished, load))), answer.candidate))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("", "recorded", *(title for title, _ in columns)):
        table.add_column(title, overflow="fold")
    for name, shown in NAMES.items():
        if name not in answer.recorded:
            continue
        said = [_value(name, asked.predicted.measures[name]) for _, asked in columns]
        table.add_row(shown, _one(name, answer.recorded[name]), *said)
    states = [_states(asked.predicted) for _, asked in columns]
    for shown in states[0]:
        table.add_row(shown, MISSING, *(state[shown] for state in states))
    head, off = grid(), answer.candidate.predicted.off
    head.add_row("run", f"{answer.run}: {answer.model['steps_count']:,} steps learnt from; of {off.stretches_count} "
                 f"stretches of {off.stretch_steps:,} steps that were not, {percent(off.level)} took "
                 f"{percent(off.low)} to {percent(off.high)} of what was said")  # fmt: skip
    tail = grid()
    for note in answer.notes:
        tail.add_row("note", note)
    return Group(head, Text(), table, Text(), tail)


def _states(found: Predicted) -> dict[str, str]:
    return {
        "running, mean": f"{found.running_mean_count:.1f}", "waiting, mean": f"{found.waiting_mean_count:.1f}",
        "KV used, peak": percent(found.kv_used_peak_ratio), "preemptions": f"{found.preemptions_count:,}",
        "engine busy": percent(found.busy_ratio),
    }  # fmt: skip


def checked_screen(checked: Checked) -> Group:
    head = grid()
    rows = checked.rows
    head.add_row("twin of", heading(checked.fitted_on))
    head.add_row("on", f"{checked.on}: {checked.covered_count} of {len(rows)} measures lie in their interval")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("", "predicted", "measured", "off by", "in the interval"):
        table.add_column(title)
    for row in (row for row in rows if row["measure"] in NAMES):
        name, error = row["measure"], row["error_ratio"]
        table.add_row(NAMES[name], _value(name, Value(row["predicted"], row["low"], row["high"])),
                      _one(name, row["measured"]), MISSING if error is None else f"{error:+.1%}",
                      "yes" if row["covered"] else "NO")  # fmt: skip
    tail = grid()
    for note in checked.notes:
        tail.add_row("note", note)
    return Group(head, Text(), table, Text(), tail)


def _value(name: str, value: Value | None) -> str:
    if value is None:
        return MISSING
    return f"{_one(name, value.value)} ({_one(name, value.low)} to {_one(name, value.high)})"


def _one(name: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return duration(value) if name.endswith("_ns") else number(value)

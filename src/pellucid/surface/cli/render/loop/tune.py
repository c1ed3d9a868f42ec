"""The end of a session as lines: what came of it, then each trial, then what to do."""

from __future__ import annotations

import shlex

from pellucid.core.units import percent
from pellucid.verbs.loop.tuning.tune import Done


def lines(done: Done) -> list[str]:
    end = done.state.finished
    out = [f"{end.word}: {end.says}" if end else "not ended", ""]
    out += [_row(row) for row in done.rows]
    if done.kept_command:
        out += ["", "start the engine so:", f"  {shlex.join(done.kept_command)}"]
    return [*out, "", f"session {done.session}: pellucid trials --session {done.session}; pellucid audit"]


def _row(row: dict[str, object]) -> str:
    verdicts = ", ".join(f"{name} {row[name]}" for name in ("speed", "fidelity") if row[name])
    gain = row["outcome_ratio"]
    change = f" ({row['metric']} {_signed(float(str(gain)))})" if gain is not None else ""
    told = "; ".join(part for part in (f"{row['candidate']}{change}", verdicts) if part)
    return f"  {row['state']}: {told}. {row['why'] or ''}".rstrip()


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 0 else '−'}{percent(abs(ratio))}"

"""`pellucid live`: settings of a running engine, as they are, or others for a while."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import json_option, print_json, run_option, say, span_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pellucid.verbs.loop.live import Desk

NAME = "live"
HELP = """Settings of a running engine that change without a restart.

    pellucid run --control -- …               start the engine so that they may be changed
    pellucid live                             what there is, its present value, and what may be set
    pellucid live --set sequence_cap=8        another value for a minute; Ctrl-C puts the old one back sooner
    pellucid live --set no_drafts_for_tasks='["chat"]' --for 10m

Values are checked against the engine's own bounds before they are written. When this command ends, however it ends,
the values of before come back. Who changed what is kept with the run."""

LEASE_S, RENEW_S = 15.0, 5.0      # a killed command's values stay for a lease at most


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="another value; again for several")  # noqa: E501
    parser.add_argument("--for", dest="span", type=span_ns, default=60_000_000_000, metavar="SPAN", help="for how long (default: 60s)")  # noqa: E501
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.loop.live import open_desk, status
    from pellucid.verbs.record import stop_on_signals
    from pellucid.verbs.runs import rings_of, run_folder

    values = dict(_value(text) for text in args.set)
    rings = rings_of(run_folder(home(), args.run), "pellucid run --control -- …, then pellucid live")
    desk = open_desk(rings, "pellucid live")
    if values:
        _lend(desk, values, args.span, stop_on_signals())
        return 0
    rows = [present.row() for present in status(desk)]
    if args.json:
        print_json({"rows": rows, "units": {"left_ns": "ns"}})
    else:
        print("\n".join(_line(row) for row in rows))
    return 0


def _lend(desk: Desk, values: dict[str, Any], span_ns: int, stop: Callable[[], bool]) -> None:
    import time

    from pellucid.verbs.loop.live import renew, revert, set_values

    lent = set_values(desk, values, LEASE_S)
    for change in lent.changes:
        say(f"{change.knob}: {json.dumps(change.old)} → {json.dumps(change.new)} in {change.process}")
    end_s = time.monotonic() + span_ns / 1e9
    try:
        due_s = time.monotonic() + RENEW_S
        while not stop() and time.monotonic() < end_s:
            time.sleep(0.1)
            if time.monotonic() >= due_s:
                renew(desk, LEASE_S)
                due_s += RENEW_S
    finally:
        for change in revert(desk).changes:
            say(f"{change.knob}: {json.dumps(change.new)} again in {change.process}")


def _value(text: str) -> tuple[str, Any]:
    """`sequence_cap=8` → ("sequence_cap", 8); what is no JSON is a text."""
    knob, equals, value = text.partition("=")
    if not (knob and equals):
        raise AskedWrongly(f"--set takes KNOB=VALUE, not {text!r}. Knobs: pellucid live")
    try:
        return knob.strip(), json.loads(value)
    except ValueError:
        return knob.strip(), value


def _line(row: dict[str, Any]) -> str:
    if row["blind"]:
        return f"{row['knob']:<24} –  {row['blind']}  ({row['process']})"
    held = ""
    if row["left_ns"] is not None:
        held = f"; {json.dumps(row['before'])} again in {row['left_ns'] / 1e9:.0f} s, held by {row['held_by']}"
    return f"{row['knob']:<24} {json.dumps(row['value'])}  {row['bound']}{held}  ({row['process']})"

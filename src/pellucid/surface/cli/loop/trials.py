"""`pellucid trials`: what was tried, kept and refused, and why."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, print_json, say

NAME = "trials"
HELP = """List what the loop tried, kept and refused, newest session first.

    pellucid trials
    pellucid trials --session 20261130 --json
    pellucid trials --claims                what each rule claimed, and what came of it

States: kept · rolled back · not rolled back · refused (before anything started) · waiting · running · cut off (its
process was killed; what it changed is taken back first when the session goes on)."""
SHOWN = ("session", "trial", "candidate", "state", "speed", "fidelity", "metric", "outcome_ratio", "outcome_low_ratio",
         "outcome_high_ratio", "proposer", "why")  # fmt: skip
CLAIMS = ("source", "trials_count", "covered_count", "mean_error_ratio", "unmeasured_count")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="ID", help="id or unique start of it (default: all)")
    parser.add_argument("--claims", action="store_true", help="a row for each rule or proposer: claims beside outcomes")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.loop.trials import trials

    found = trials(home(), args.session)
    for note in found.notes:
        say(note)
    if args.json:
        print_json(found.claims_json() if args.claims else found.json())
        return 0
    from pellucid.surface.cli.render.page import page_width, show
    from pellucid.surface.cli.render.rows import fitting, table

    rows, columns = (found.claims, CLAIMS) if args.claims else (found.rows, SHOWN)
    if not rows:
        say("no claim was tried yet" if args.claims else f"nothing was tried yet: no session in {home()}/sessions")
        return 0
    fit = fitting(rows, columns, (), None, page_width(wide=True))
    show(table(rows, fit, (), None), wide=True)
    if len(fit) < len(columns):
        say(f"the terminal has no room for {', '.join(columns[len(fit):])}; --json has all")
    return 0

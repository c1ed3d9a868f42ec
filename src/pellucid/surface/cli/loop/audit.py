"""`pellucid audit`: every entry of a session's log, and whether its chain holds."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, print_json, say

NAME = "audit"
HELP = """Show a session's audit log and verify it: exit code 1 where an entry was changed, lost or cut off.

    pellucid audit                          the newest session, a line for each entry
    pellucid audit --session 20261130 --json    with all evidence

Each line holds the hash of the line before, and a file beside the log the last one. Whoever may write both can make a
log that holds; keep the last hash elsewhere where that matters."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="ID", help="id or unique start of it (default: newest)")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.loop.audit import audit

    found = audit(home(), args.session)
    for note in found.notes:
        say(f"{found.session}: {note}")
    for fault in found.breaks:
        say(f"{found.session}: BROKEN, {fault}")
    if args.json:
        print_json(found.json())
        return 0 if found.whole else 1
    from pellucid.surface.cli.render.loop.audit import table
    from pellucid.surface.cli.render.page import show

    show(table(found.rows), wide=True)
    if found.whole:
        last = found.rows[-1]["hash"] if found.rows else "none"
        say(f"{found.session}: {len(found.rows):,} entries, the chain holds; last hash {last}")
    return 0 if found.whole else 1

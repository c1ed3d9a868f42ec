"""`pellucid undo`: back to before the last change that was kept."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, print_json

NAME = "undo"
HELP = """Go back to before the last change that a session kept; again for the one before.

    pellucid undo
    pellucid undo --session 20261130

Prints the command to start the engine with, and writes the decision into the session's audit log. Settings of a running
engine are taken back with `pellucid live`."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="ID", help="id or unique start of it (default: the newest that kept)")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    import shlex

    from pellucid.core.settings import home
    from pellucid.verbs.loop.tuning.undo import undo

    undone = undo(home(), args.session)
    if args.json:
        print_json(undone.json())
        return 0
    print(f"{undone.candidate} of session {undone.session} is no longer kept. Start the engine so:")
    print(f"  {shlex.join(undone.command)}")
    return 0

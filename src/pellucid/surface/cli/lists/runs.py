"""`pellucid runs`: the recordings there are."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, print_json, say

NAME = "runs"
HELP = """List recordings, newest first.

States: recording · complete · interrupted (the recorder was killed; what reached the disk is there) ·
damaged (a segment does not read) · empty."""


def prepare(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.runs import runs

    found = runs(home())
    if args.json:
        print_json(found.json())
        return 0
    from pellucid.surface.cli.render.page import show
    from pellucid.surface.cli.render.runs import table

    if not found.rows:
        say(f"no recording in {home()}/runs yet. Try: pellucid run -- <engine command>, or: pellucid why --run example")
        return 0
    show(table(found.rows), wide=True)
    return 0

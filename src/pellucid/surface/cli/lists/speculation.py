"""`pellucid speculation`: what drafts brought, by task, draft position or request, and what the drafter takes."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.surface.cli.lists import listing
from pellucid.surface.cli.options import say

NAME = "speculation"
BY = ("task", "position", "request", "worker")
HELP = """List drafts: drafted, accepted, the speed-up bought or lost, the drafter's share of time and memory.

    pellucid speculation                    by task; a speed-up above 100% is bought, below it lost
    pellucid speculation --by position      of each task: drafts with a token there, and those kept there
    pellucid speculation --by request --where 'task = chat and position = 1'
    pellucid speculation --by worker        weights and KV cache of the drafter, beside all"""
NOTES = ("speedup_note", "time_note", "memory_note")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=BY, default="task", help="what a row is (default: task)")
    listing.prepare(parser, since=False)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import SPECULATION

    code = listing.run(args, SPECULATION[args.by])
    if args.by == "task" and not (args.json or args.csv):
        _say_blind(args)
    return code


def _say_blind(args: argparse.Namespace) -> None:
    from pellucid.core.settings import home
    from pellucid.verbs.rows import SPECULATION, Query, rows
    from pellucid.verbs.runs import run_folder

    found = rows(run_folder(home(), args.run), SPECULATION["task"], Query(where=args.where, columns=("task", *NOTES)))
    for line in blind(found.rows):
        say(line)


def blind(rows: list[dict[str, Any]]) -> list[str]:
    """Why figures of the table are missing: each reason once, with its tasks where not all have it."""
    lines = []
    for name in NOTES:
        for reason in dict.fromkeys(row[name] for row in rows if row[name]):
            tasks = [row["task"] or "the rest" for row in rows if row[name] == reason]
            of = "" if len(tasks) == len(rows) else f" of {', '.join(tasks)}"
            lines.append(f"blind: {name.removesuffix('_note')}{of}: {reason}")
    return lines

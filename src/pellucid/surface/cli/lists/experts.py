"""`pellucid experts`: which experts of a mixture the tokens chose, by layer, expert, rank or task, and their drift.

Rows as in `pellucid steps`; each way of looking is a view of the store.
"""

from __future__ import annotations

import argparse

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.lists import listing

NAME = "experts"
HELP = """List what tokens chose in a mixture of experts: by layer, expert, rank or task, and its drift.

    pellucid experts --sort hottest_tokens --desc --limit 10
    pellucid experts --by task --where 'place <= 3'"""
WAYS = ("layer", "expert", "rank", "task", "drift")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by", choices=WAYS, default="layer",
        help="a row for each layer (default), expert or rank of it in a window, for each task's expert over the whole "
             "run, or for each layer from window to window",
    )  # fmt: skip
    listing.prepare(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import EXPERTS

    if args.by == "task" and args.since is not None:
        raise AskedWrongly("--by task is over the whole run; for a part of it: --by expert --since SPAN")
    return listing.run(args, EXPERTS[args.by])

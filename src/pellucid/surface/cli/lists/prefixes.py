"""`pellucid prefixes`: what the prefix cache gave, what it could have given, and why it did not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pellucid.surface.cli.lists import listing
from pellucid.surface.cli.options import say

if TYPE_CHECKING:
    from pellucid.verbs.rows import Rows

NAME = "prefixes"
BY = ("family", "task", "reason", "evictor", "all")
HELP = """List what prompts shared: tokens found in the prefix cache, tokens that might have been, and why not.

    pellucid prefixes                       families: requests whose first block is the same
    pellucid prefixes --by reason           cached, evicted, salt, lora, multimodal, tokenisation, never_seen …
    pellucid prefixes --by evictor          whose requests took the blocks that others then missed"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=BY, default="family", help="what a row is (default: family)")
    listing.prepare(parser, since=False)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import PREFIXES

    code = listing.run(args, PREFIXES[args.by])
    if not (args.json or args.csv):
        _say_rates(args)
    return code


def _say_rates(args: argparse.Namespace) -> None:
    from pellucid.core.settings import home
    from pellucid.verbs.rows import PREFIXES, Query, rows
    from pellucid.verbs.runs import run_folder

    found: Rows = rows(run_folder(home(), args.run), PREFIXES["all"], Query())
    for row in found.rows:
        say(rates(row))


def rates(row: dict[str, Any]) -> str:
    """Both hit rates and what was possible, each with its parts."""
    from pellucid.surface.cli.render.page import value

    tokens, possible = f"{row['prompt_tokens']:,}", f"{row['possible_tokens']:,}"
    return (
        f"found {row['cached_tokens']:,} of {tokens} prompt tokens "
        f"({value('token_hit_ratio', row['token_hit_ratio'])}), "
        f"in {row['hit_requests_count']:,} of {row['requests_count']:,} requests "
        f"({value('request_hit_ratio', row['request_hit_ratio'])}); an endless cache would have found {possible}"
    )

"""`pellucid blocks`: the lives of cached KV blocks, summed up by tier or one by one."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.lists import listing

NAME = "blocks"
BY = ("tier", "age", "life", "return", "onboard")
HELP = """List cached KV blocks: how old they grew, how long nobody used them, which came back after eviction.

    pellucid blocks                         by tier and by what became of them
    pellucid blocks --by age                evicted blocks by age and by idle time
    pellucid blocks --by life --where 'hits_count = 0 and removed_reason = evicted' --limit 20
    pellucid blocks --by return --sort distance_count     evicted blocks that were wanted again
    pellucid blocks --by onboard            blocks brought back from an outer tier, one by one"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=BY, default="tier", help="what a row is (default: tier)")
    listing.prepare(parser, since=False)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import BLOCKS

    return listing.run(args, BLOCKS[args.by])

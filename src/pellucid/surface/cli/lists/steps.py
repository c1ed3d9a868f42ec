"""`pellucid steps`: rows, sorted and filtered."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.lists import listing

NAME = "steps"
HELP = """List engine steps: times, batch, waiting by reason, KV cache.

    pellucid steps --sort execute_ns --desc --limit 10
    pellucid steps --where 'preempted_count > 0' --columns step,preempted_count,preempted_tokens"""


def prepare(parser: argparse.ArgumentParser) -> None:
    listing.prepare(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import STEPS

    return listing.run(args, STEPS)

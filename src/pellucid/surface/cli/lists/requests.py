"""`pellucid requests`: rows, sorted and filtered."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.lists import listing

NAME = "requests"
HELP = """List requests, with their latency split into spans; aborted and unfinished ones too.

    pellucid requests --where 'ttft_ns > 500ms' --sort ttft_ns --desc
    pellucid requests --where 'finish_reason = abort and aborted_by is seen' --csv"""


def prepare(parser: argparse.ArgumentParser) -> None:
    listing.prepare(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import REQUESTS

    return listing.run(args, REQUESTS)

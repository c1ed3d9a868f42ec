"""`pellucid export`: a run as a file that other programs open."""

from __future__ import annotations

import argparse
import sys

from pellucid.surface.cli.options import run_option, say, since_option

NAME = "export"
HELP = """Write a run as a file that other programs open.

    pellucid export --perfetto run.json.gz             open it in ui.perfetto.dev or chrome://tracing
    pellucid export --perfetto - --since 30s | gzip > last.json.gz
    pellucid export --perfetto c1.json.gz --capture c3f0a1b2c4d5

One timeline: steps of engine cores with their parts, requests with what they waited for, kernels by device and stream
in the colours of their class, and graphs of requests, tokens, KV blocks and power."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--perfetto", metavar="OUT", required=True, help="Chrome's JSON trace events, packed where the name ends in .gz; - for stdout")  # noqa: E501
    parser.add_argument("--capture", metavar="ID", help="kernels of this capture only, and what ran beside it")
    since_option(parser)
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    run_option(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from pellucid.core.settings import home
    from pellucid.core.units import size
    from pellucid.verbs.export.perfetto import perfetto
    from pellucid.verbs.export.span import Wish
    from pellucid.verbs.export.write import check, write
    from pellucid.verbs.runs import run_folder

    if args.perfetto != "-":
        check(Path(args.perfetto), args.force)
    export = perfetto(run_folder(home(), args.run), Wish(args.capture, args.since))
    for note in export.notes:
        say(note)
    if args.perfetto == "-":
        for piece in export.pieces:
            sys.stdout.write(piece.decode())
        return 0
    size_bytes = write(export.pieces, Path(args.perfetto), args.force)
    say(f"{args.perfetto}: {size(size_bytes)}. Open it in https://ui.perfetto.dev")
    return 0

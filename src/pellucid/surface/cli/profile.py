"""`pellucid profile`: kernels of some steps of a running engine, without a restart."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, path, print_json, run_option, say, span_ns

NAME = "profile"
HELP = """Capture the kernels of some steps of an engine that is being recorded, without a restart.

    pellucid profile                        10 steps of the newest run
    pellucid profile --steps 20 --keep .    and keep the trace
    pellucid kernels; pellucid why          what they took, and what limits them

Starting and stopping hold the engine up: for how long is printed and recorded."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps to capture (default: 10)")
    parser.add_argument("--within", type=span_ns, default=30_000_000_000, metavar="SPAN", help="take what is there after so long (default: 30s)")  # noqa: E501
    parser.add_argument("--shapes", action="store_true", help="with the shapes of operators; costs more while it runs")
    parser.add_argument("--keep", type=path, metavar="FOLDER", help="keep the traces there")
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.profile import lines
    from pellucid.verbs.captures.ask import Wish
    from pellucid.verbs.captures.profile import profile

    wish = Wish(args.steps, args.within / 1e9, args.shapes)
    taken = profile(home(), args.run, wish, lambda: False, args.keep)
    if args.json:
        print_json(taken.json())
    else:
        print("\n".join(lines(taken)))
    say(f"in run {taken.run_id}: pellucid kernels, pellucid why")
    return 0

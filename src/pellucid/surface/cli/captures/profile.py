"""`pellucid profile`: kernels of some steps of a running engine, without a restart."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pellucid.surface.cli.options import json_option, path, print_json, run_option, say, span_ns

if TYPE_CHECKING:
    from pellucid.verbs.captures.ask import Wish
    from pellucid.verbs.captures.profile import Taken

NAME = "profile"
HELP = """Capture the kernels of some steps of an engine that is being recorded, without a restart.

    pellucid profile                        10 steps of the newest run
    pellucid profile --steps 20 --keep .    and keep the trace
    pellucid profile --when 'itl_p99 > 3x baseline'     once it holds; --when finding: once `why` finds something new
    pellucid profile --every 5m --steps 5   again and again, so that shares of kernels have a history
    pellucid kernels; pellucid why          what they took, and what limits them

Starting and stopping hold the engine up: for how long is printed and recorded. Captures that are taken by themselves
(--when, --every) never hold it up for more than 1% of the time."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps to capture (default: 10)")
    parser.add_argument("--within", type=span_ns, default=30_000_000_000, metavar="SPAN", help="take what is there after so long (default: 30s)")  # noqa: E501
    parser.add_argument("--shapes", action="store_true", help="with the shapes of operators; costs more while it runs")
    by_itself = parser.add_mutually_exclusive_group()
    by_itself.add_argument("--when", metavar="CONDITION", help="wait until 'METRIC > 3x baseline', 'METRIC > VALUE' or finding")  # noqa: E501
    by_itself.add_argument("--every", type=span_ns, metavar="SPAN", help="a capture every 5m, until Ctrl-C")
    parser.add_argument("--keep", type=path, metavar="FOLDER", help="keep the traces there")
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.profile import lines
    from pellucid.verbs.captures.ask import Wish
    from pellucid.verbs.captures.profile import profile

    wish = Wish(args.steps, args.within / 1e9, args.shapes)
    if args.when is not None or args.every:
        return _by_itself(args, wish)
    taken = profile(home(), args.run, wish, lambda: False, args.keep)
    if args.json:
        print_json(taken.json())
    else:
        print("\n".join(lines(taken)))
    say(f"in run {taken.run_id}: pellucid kernels, pellucid why")
    return 0


def _by_itself(args: argparse.Namespace, wish: Wish) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.profile import lines
    from pellucid.verbs.captures.watch import Trigger, watch
    from pellucid.verbs.captures.when import condition
    from pellucid.verbs.record import stop_on_signals

    asked = condition(args.when) if args.when is not None else None
    trigger = Trigger(args.every, asked, finding=args.when is not None and asked is None)

    def took(reason: str, taken: Taken) -> None:
        if args.json:
            print_json(taken.json())
        else:
            print("\n".join((f"{reason}:", *lines(taken))), flush=True)

    watch(home(), args.run, wish, trigger, stop_on_signals(), took, most=None if args.every else 1)
    return 0

"""`pellucid predict` from a recording: what another setting or load would do."""

from __future__ import annotations

import argparse
import math

from pellucid.surface.cli.options import path, print_json, run_option

HELP = """From a recording of the engine:

    pellucid predict --set max_num_seqs=64                     the run's own requests again, with another cap
    pellucid predict --load 1.5x                               the same engine, requests half as many again a second
    pellucid predict --set max_num_seqs=64 --load 1.5x --workload chat.parquet
    pellucid predict --set max_num_seqs=64 --slo 'ttft_p95<2s,itl_p95<150ms'
    pellucid predict --check                                   what tune's twins claimed, and what came of it
    pellucid predict --run monday --learn sunday --check tuesday      how right a twin of two runs is on a third

The engine's schedule is followed step by step on virtual time; how long a step takes is learnt from the recorded steps.
Every figure has an interval: what stretches of steps that were not learnt from were off by. First the twin says what
was recorded, so that you see how far to trust it."""


def prepare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("from a recording")
    run_option(group)
    group.add_argument("--learn", action="append", default=[], metavar="ID", help="another run of the same engine, under another load, to learn steps from; again for more")  # noqa: E501
    group.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, in the engine's words or ours; again for more")  # noqa: E501
    group.add_argument("--load", type=load, default=1.0, metavar="X", help="the workload's rate times X, as 1.5x (default: 1x)")  # noqa: E501
    group.add_argument("--workload", type=path, metavar="FILE", help="a workload (default: the run's own requests)")
    group.add_argument("--slo", default="", metavar="LIMITS", help="tell goodput under these: ttft_p95<2s,itl_p95<150ms")  # noqa: E501
    group.add_argument("--engine", default="", metavar="PYTHON", help="the Python of that engine: its own scheduler follows the schedule, some 300 steps a second")  # noqa: E501
    group.add_argument("--check", nargs="?", const="", metavar="RUN", help="predict the requests of that run and compare with what was measured; without RUN: what was claimed in tune, and what came of it")  # noqa: E501


def load(text: str) -> float:
    """`1.5x` or `1.5`."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no load; write it as 1.5x")
    return value


def record(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.loop.trials import CLAIMS
    from pellucid.surface.cli.options import say
    from pellucid.surface.cli.render.page import show
    from pellucid.surface.cli.render.rows import table
    from pellucid.verbs.predict.record import of_twin

    found = of_twin(home())
    if args.json:
        print_json(found.claims_json())
    elif found.claims:
        show(table(found.claims, CLAIMS, (), None), wide=True)
    else:
        say("no claim of a twin was tried yet. Try: pellucid tune")
    return 0


def run(args: argparse.Namespace) -> int:
    from pellucid.core.errors import AskedWrongly
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.loop.predict import checked_screen, screen
    from pellucid.surface.cli.render.page import show
    from pellucid.verbs.predict.check import check
    from pellucid.verbs.predict.what_if import Wish, what_if
    from pellucid.verbs.runs import run_folder

    if args.check == "":
        return record(args)
    folder, also = run_folder(home(), args.run), tuple(run_folder(home(), name) for name in args.learn)
    if args.check is not None:
        if args.set or args.workload is not None or args.load != 1 or args.slo or args.engine:
            raise AskedWrongly("--check takes settings and load from its run: leave --set, --load and the like")
        checked = check(folder, run_folder(home(), args.check), also)
        if args.json:
            print_json(checked.json())
        else:
            show(checked_screen(checked))
        return 0
    answer = what_if(folder, Wish(tuple(args.set), args.load, args.workload, also, args.slo, args.engine))
    if args.json:
        print_json(answer.json())
    else:
        show(screen(answer))
    return 0

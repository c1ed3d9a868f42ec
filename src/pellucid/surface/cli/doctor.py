"""`pellucid doctor`: what can be seen here, what not, and what seeing costs."""

from __future__ import annotations

import argparse
import sys

from pellucid.surface.cli.options import json_option, path, print_json, run_option

NAME = "doctor"
HELP = """Say what is visible, what is blind, how to turn it on, and what it costs.

    pellucid doctor                               this machine, and the newest run
    pellucid doctor --plan --engine-python PATH   what would be hooked in that engine; touches nothing
    pellucid doctor --ceilings --engine-python PATH     what the device copies, reads and multiplies a second, through
                                                  that Python's torch: half a minute with nothing else on the device.
                                                  Kernels captured or loaded from then on are judged by it"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", action="store_true", help="ask the engine's Python what the probe would hook")
    parser.add_argument("--ceilings", action="store_true", help="measure what the device can do a second")
    parser.add_argument("--even-if-busy", action="store_true", help="with --ceilings: also on a device in use, whose engine it slows down")  # noqa: E501
    parser.add_argument("--engine-python", metavar="PATH", default=sys.executable, help="the Python the engine runs in")
    parser.add_argument("--dir", type=path, metavar="DIR", help="a probe folder in use, instead of a run")
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    if args.ceilings:
        return _ceilings(args)
    from pellucid.core.settings import home, setting
    from pellucid.verbs.visible.doctor import Asked, doctor

    asked = Asked(home(), Path(setting("shm")), args.dir, args.run, args.engine_python if args.plan else None)
    answer = doctor(asked)
    if args.json:
        print_json(answer)
        return 0
    from pellucid.surface.cli.render.doctor import doctor as render
    from pellucid.surface.cli.render.page import show

    show(render(answer))
    return 0


def _ceilings(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.doctor import ceilings as render
    from pellucid.surface.cli.render.page import show
    from pellucid.verbs.captures.ceilings import measure_here

    kept = measure_here(home(), args.engine_python, ["--even-if-busy"] if args.even_if_busy else [])
    if args.json:
        print_json(kept)
    else:
        show(render(kept))
    return 0

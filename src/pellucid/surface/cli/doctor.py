"""`pellucid doctor`: what can be seen here, what not, and what seeing costs."""

from __future__ import annotations

import argparse
import sys

from pellucid.surface.cli.options import json_option, path, print_json, run_option

NAME = "doctor"
HELP = """Say what is visible, what is blind, how to turn it on, and what it costs.

    pellucid doctor                               this machine, and the newest run
    pellucid doctor --plan --engine-python PATH   what would be hooked in that engine; touches nothing"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", action="store_true", help="ask the engine's Python what the probe would hook")
    parser.add_argument("--engine-python", metavar="PATH", default=sys.executable, help="the Python the engine runs in")
    parser.add_argument("--dir", type=path, metavar="DIR", help="a probe folder in use, instead of a run")
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

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

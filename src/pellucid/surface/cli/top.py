"""`pellucid top`: the engine, live in the terminal."""

from __future__ import annotations

import argparse
import time

from pellucid.core.units import S_NS
from pellucid.surface.cli.options import json_option, print_json, run_option, span_ns

NAME = "top"
HELP = "Watch a run live: verdict, findings, load, last requests."


def prepare(parser: argparse.ArgumentParser) -> None:
    run_option(parser)
    parser.add_argument("--interval", type=span_ns, default=S_NS, metavar="SPAN", help="between looks (default: 1s)")
    parser.add_argument("--once", action="store_true", help="one look, then end; always so where stdout is no terminal")
    parser.add_argument("--matrix", action="store_true", help="the observation matrix instead of load and requests")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.page import page, show
    from pellucid.surface.cli.render.top import top as render
    from pellucid.verbs.runs import run_folder
    from pellucid.verbs.watch.top import Top

    source = Top(run_folder(home(), args.run), matrix=args.matrix)
    if args.json:
        print_json(source.look())
        return 0
    if args.once or not page().is_terminal:
        show(render(source.look()))
        return 0
    from rich.live import Live

    with Live(render(source.look()), console=page(), screen=page().is_terminal, auto_refresh=False) as live:
        while True:
            time.sleep(args.interval / S_NS)
            live.update(render(source.look()), refresh=True)

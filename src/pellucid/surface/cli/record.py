"""`pellucid record DIR`: the sidecar."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import path, say, span_ns

NAME = "record"
HELP = """Record an engine that was started with PELLUCID_DIR=DIR.

    mkdir -m 700 /dev/shm/engine && PELLUCID_DIR=/dev/shm/engine <engine command> &
    pellucid record /dev/shm/engine

Ctrl-C or SIGTERM ends it cleanly."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=path, metavar="DIR", help="the probe's folder, on a tmpfs")
    parser.add_argument("--run-folder", type=path, metavar="F", help="record into this folder (default: a new run)")
    parser.add_argument("--for", dest="limit_ns", type=span_ns, metavar="SPAN", help="stop after 60s, 5m, 1h")
    parser.add_argument("--until-exit", type=int, metavar="PID", help="stop when this process is gone")
    parser.add_argument("--home", type=path, help="where recordings go (default: $PELLUCID_HOME)")


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs import record as verb

    stops = [verb.stop_on_signals()]
    if args.limit_ns is not None:
        stops.append(verb.stop_after(args.limit_ns))
    if args.until_exit is not None:
        stops.append(verb.stop_at_exit_of(args.until_exit))
    into = verb.RecordInto(args.home or home(), args.run_folder)
    folder = verb.record(args.dir, into, verb.any_of(*stops), lambda f: say(f"recording {args.dir} into {f}"))
    say(f"recorded {folder.name} → pellucid why --run {folder.name}")
    return 0

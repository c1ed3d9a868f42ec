"""`pellucid run -- CMD…`: the engine as ever, recorded."""

from __future__ import annotations

import argparse
import os
import sys

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import metrics_option, path, say

NAME = "run"
HELP = """Start an engine with the probe in, and record it.

    pellucid run -- python -m my_engine --model …

Its output, exit code and signals pass through. The engine's Python needs pellucid-probe.
Trouble with recording is said on stderr and never stops the engine."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=path, metavar="DIR", help="use this folder for the probe instead of a fresh one")
    parser.add_argument("--home", type=path, help="where recordings go (default: $PELLUCID_HOME)")
    parser.add_argument("--control", action="store_true", help="let `pellucid live`, `try` and `tune` change its live settings")  # noqa: E501
    metrics_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the engine's command line")


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from pellucid.core.clock import anchor_now
    from pellucid.core.settings import home, setting
    from pellucid.verbs.launch.run import Launch
    from pellucid.verbs.launch.run import run as launch

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise AskedWrongly("run needs the engine's command after --, as in: pellucid run -- python -m …")
    metrics = ("--metrics", args.metrics) if args.metrics else ()
    return launch(
        Launch(
            command=command, home=args.home or home(), shm=Path(setting("shm")), folder=args.dir,
            recorder=(sys.executable, "-m", "pellucid.surface.cli", "record", *metrics), now=anchor_now(),
            control=args.control,
        ),
        os.environ, say,
    )  # fmt: skip

"""`pellucid compare A B`: what changed between two captures, kernel by kernel."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import count, json_option, print_json, say

NAME = "compare"
HELP = """Say what changed between two captures, kernel by kernel, and what it costs per step.

    pellucid compare before.pt.trace.json.gz after.pt.trace.json.gz
    pellucid compare 20261130-0915 20261130-1020 --phase decode
    pellucid compare :c3f0a1b2c4d5 :c77e01aa23f0 --by class      two captures of the newest run

A and B are runs (id, unique start of it, folder, all captures together), one capture of a run as RUN:CAPTURE, or trace
files, which are read and not kept. Times are means per step and device; a difference within two standard errors is
marked as such, and is none that was seen."""
KERNELS_SHOWN = 20


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="before: a run, RUN:CAPTURE, or a trace file")
    parser.add_argument("b", metavar="B", help="after: the same")
    parser.add_argument("--phase", choices=("prefill", "decode", "mixed"), help="steps of this phase only (default: every phase that both have)")  # noqa: E501
    parser.add_argument("--by", choices=("class", "kernel"), default="kernel", help="sums of classes only, or kernels too (default)")  # noqa: E501
    parser.add_argument("--limit", type=count, metavar="N", default=KERNELS_SHOWN, help=f"at most N kernels of a phase in the table, 0 for all (default: {KERNELS_SHOWN}; JSON has all)")  # noqa: E501
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.captures.compare import compare

    found = compare(home(), args.a, args.b, args.phase, args.by)
    if args.json:
        print_json(found.json())
        return 0
    from pellucid.surface.cli.render.compare import comparison
    from pellucid.surface.cli.render.page import show

    show(comparison(found.json(), args.limit or None), wide=True)
    for note in found.notes:
        say(note)
    return 0

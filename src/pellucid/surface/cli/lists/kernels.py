"""`pellucid kernels`: what the device did in captures, by class, kernel, layer or step; rows as in `pellucid steps`."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.lists import listing

NAME = "kernels"
HELP = """List what kernels took in captures, and how near their roofs they are.

    pellucid kernels                                  by phase and class
    pellucid kernels --phase decode --by kernel --limit 10
    pellucid kernels --by step --sort idle_ns --desc
    pellucid kernels --by all --where 'layer = 3 and class = moe_gemm'"""
WAYS = ("phase", "class", "kernel", "layer", "step", "all", "metric")
PHASES = ("prefill", "decode", "mixed")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by", choices=WAYS, default="class",
        help="a row for each class (default), kernel name or layer of a phase, for each phase with its energy, each "
             "step, each execution, or each metric that a kernel profiler counted",
    )  # fmt: skip
    parser.add_argument("--phase", choices=PHASES, help="of this phase only")
    listing.prepare(parser, since=False)


def run(args: argparse.Namespace) -> int:
    from pellucid.verbs.rows import KERNELS

    if args.phase:
        args.where = " and ".join(filter(None, (f"phase = {args.phase}", args.where)))
    return listing.run(args, KERNELS[args.by])

"""`pellucid try`: one candidate against the present configuration, on two engines beside each other."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import json_option, path, print_json, say, span_ns

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.tune.effect.aim import Aim
    from pellucid.tune.slo import Slo

NAME = "try"
HELP = """Try settings: is the engine faster with them? Two engines, the same traffic in turn, one verdict.

    pellucid try --set max_num_seqs=64 --workload chat.parquet -- python -m my_engine --model …
    pellucid try --set max_num_seqs=64 --workload chat.parquet --slo 'ttft_p95<2s' --budget 20m --json -- …

The engine's command is started twice, as it is and with the settings, on ports of its own: no engine that serves is
touched. What the engine takes while it runs is tried on one.
better · worse · no difference · inconclusive, or what the candidate did instead of serving."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a setting, in our name or the engine's; again for more; none: the present configuration against itself")  # noqa: E501
    parser.add_argument("--workload", type=path, required=True, metavar="FILE", help="what is sent: pellucid workload --help")  # noqa: E501
    parser.add_argument("--slo", metavar="LIMITS", help="such as 'ttft_p95<2s,itl_p95<150ms': more requests within it are better")  # noqa: E501
    parser.add_argument("--goal", metavar="METRIC", help="what is to be better (default: output_tokens_per_s; with --slo goodput_per_s)")  # noqa: E501
    parser.add_argument("--budget", type=span_ns, default=600_000_000_000, metavar="SPAN", help="of time, starts of engines included (default: 10m)")  # noqa: E501
    parser.add_argument("--pairs", type=int, metavar="N", help="most pairs of blocks (default: as the budget allows)")
    parser.add_argument("--block", type=span_ns, default=10_000_000_000, metavar="SPAN", help="length of a block (default: 10s)")  # noqa: E501
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="arrivals come X times as fast as in the workload (default: 1)")  # noqa: E501
    parser.add_argument("--scale-tokens", type=float, default=1.0, metavar="X", help="prompts and answers are X times as long as in the workload (default: 1)")  # noqa: E501
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts, and of who is first (default: 0)")
    parser.add_argument("--fidelity", type=span_ns, default=300_000_000_000, metavar="SPAN", help="if it is faster: so long for the verdict on its answers, above the budget (default: 5m)")  # noqa: E501
    parser.add_argument("--noise", type=path, metavar="FILE", help="blocks of one configuration in both engines (default: those kept from earlier trials)")  # noqa: E501
    json_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the engine's command line")


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.loop.trial import screen
    from pellucid.surface.cli.render.page import show
    from pellucid.tune.slo import read_slo
    from pellucid.verbs.loop.asks import Wish as Traffic
    from pellucid.verbs.loop.trial.run import run as run_trial
    from pellucid.verbs.loop.trial.wish import Wish

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise AskedWrongly("try needs the engine's command after --, as in: pellucid try --set … -- python -m …")
    if (args.pairs is not None and args.pairs < 1) or not 0 <= args.seed < 2**63:
        raise AskedWrongly("--pairs is at least 1, --seed between 0 and 2^63")
    slo = read_slo(args.slo) if args.slo else ()
    outcome = run_trial(
        Wish(
            settings=tuple(args.settings), command=tuple(command), workload=args.workload, home=home(),
            launcher=launcher, budget_s=args.budget / 1e9, aim=_aim(args.goal, slo), slo=slo, pairs_most=args.pairs,
            block_s=args.block / 1e9, noise=args.noise, fidelity_s=args.fidelity / 1e9,
            traffic=Traffic(args.speed, args.scale_tokens, args.seed),
        ),
        os.environ, say,
    )  # fmt: skip
    if args.json:
        print_json(outcome.json())
    else:
        show(screen(outcome))
    return 0


def launcher(folder: Path, control: bool) -> Sequence[str]:
    """What goes before an engine's command, to have it recorded in that folder."""
    more = ("--control",) if control else ()
    return (sys.executable, "-m", "pellucid.surface.cli", "run", "--home", str(folder), *more, "--")


def _aim(goal: str | None, slo: Slo) -> Aim:
    from pellucid.tune.effect.aim import Aim

    if goal == "goodput_per_s" and not slo:
        raise AskedWrongly("--goal goodput_per_s needs --slo: it counts the requests within it")
    return Aim(goal or ("goodput_per_s" if slo else "output_tokens_per_s"))

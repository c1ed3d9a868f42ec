"""`pellucid tune`: the loop, unattended within a budget."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.loop.trial import launcher
from pellucid.surface.cli.options import json_option, print_json, say, span_ns

NAME = "tune"
HELP = """Let the engine tune itself: observe, diagnose, propose, try, verify speed and answers, keep or take back.

    pellucid tune --workload chat.parquet --slo 'ttft_p95<2s,itl_p95<150ms' --maximise goodput -- python -m … --model …
    pellucid tune --workload chat.parquet --candidates mine.toml --budget 1h -- …
    pellucid tune --resume                  goes on with the session that was cut off

Every engine it starts is its own, on ports of its own: one that serves is not touched. A change is kept only with a
verdict on speed (better) and one on answers (same). What was kept is printed as the command to start the engine with;
`pellucid trials` and `pellucid audit` say what was done, `pellucid undo` goes back."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", metavar="FILE", help="what is sent: pellucid workload --help")
    parser.add_argument("--slo", default="", metavar="LIMITS", help="such as 'ttft_p95<2s,itl_p95<150ms'")
    parser.add_argument("--maximise", metavar="GOAL", help="goodput or throughput (default: goodput with --slo, else throughput)")  # noqa: E501
    parser.add_argument("--budget", type=span_ns, default=1_800_000_000_000, metavar="SPAN", help="of time, starts of engines included (default: 30m)")  # noqa: E501
    parser.add_argument("--trial", type=span_ns, default=600_000_000_000, metavar="SPAN", help="most for one trial (default: 10m)")  # noqa: E501
    parser.add_argument("--observe", type=span_ns, default=40_000_000_000, metavar="SPAN", help="of traffic before a diagnosis (default: 40s)")  # noqa: E501
    parser.add_argument("--block", type=span_ns, default=10_000_000_000, metavar="SPAN", help="length of a block (default: 10s)")  # noqa: E501
    parser.add_argument("--fidelity", type=span_ns, default=300_000_000_000, metavar="SPAN", help="for a verdict on answers (default: 5m)")  # noqa: E501
    parser.add_argument("--candidates", default="", metavar="FILE", help="a list of candidates, TOML or JSON: docs/proposers.md")  # noqa: E501
    parser.add_argument("--proposer", default="", metavar="CMD", help="an outside program that proposes: docs/proposers.md")  # noqa: E501
    parser.add_argument("--no-rules", action="store_true", help="moves of findings are not proposed")
    parser.add_argument("--no-twin", action="store_true", help="what a twin of the observed run holds to be better is not proposed")  # noqa: E501
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="arrivals come X times as fast")
    parser.add_argument("--scale-tokens", type=float, default=1.0, metavar="X", help="prompts and answers are X times as long (default: 1)")  # noqa: E501
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts, and of who is first (default: 0)")
    parser.add_argument("--resume", nargs="?", const="", metavar="ID", help="go on with a session that was cut off (default: the newest)")  # noqa: E501
    json_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the engine's command line")


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.surface.cli.render.loop.tune import lines
    from pellucid.verbs.loop.tuning.tune import resume, tune
    from pellucid.verbs.loop.tuning.wish import Wish

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.resume is not None:
        done = resume(args.resume or None, home(), os.environ, launcher, say)
    elif not command or not args.workload:
        raise AskedWrongly("tune needs --workload and the engine's command after --, as in: pellucid tune --help")
    else:
        goal = args.maximise or ("goodput" if args.slo else "throughput")
        listed = str(Path(args.candidates).resolve()) if args.candidates else ""
        wish = Wish(
            tuple(command), str(Path(args.workload).resolve()), args.slo, goal, args.budget / 1e9, args.trial / 1e9,
            args.observe / 1e9, args.block / 1e9, args.fidelity / 1e9, listed, tuple(shlex.split(args.proposer)),
            not args.no_rules, not args.no_twin, args.speed, args.scale_tokens, args.seed,
        )  # fmt: skip
        done = tune(wish, home(), os.environ, launcher, say)
    if args.json:
        print_json(done.json())
    else:
        print("\n".join(lines(done)))
    end = done.state.finished
    return 0 if end is not None and end.word in ("done", "budget") else 1

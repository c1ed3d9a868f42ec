"""`pellucid fidelity`: does a candidate answer as the reference would?"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import count, header_option, headers, json_option, path, print_json, say, span_ns

if TYPE_CHECKING:
    from pellucid.verbs.loop.fidelity import Chosen, Engines, Plan

NAME = "fidelity"
HELP = """Say whether a candidate's answers are those the reference would give.

    pellucid fidelity --candidate http://127.0.0.1:8001 --reference http://127.0.0.1:8000
    pellucid fidelity --candidate URL --reference URL --prompts prompts.jsonl --budget 20m
    pellucid fidelity --candidate URL --reference URL --workload chat.parquet

The candidate answers as it is configured, with several requests at once; its answers are shown to the reference, whose
log-probabilities of them are compared with those of its own answers. A line of a prompts file is {"prompt": "Dear",
"task": "mail", "max_tokens": 64, "temperature": 0.7}. Behind a workload prompts are as long and as alike as its own, as
far as there is time to score them, in our own text, and sampled as its requests ask; without either they are texts of
ours: chat, code, JSON and copying.
Both engines are held up: the first request for log-probabilities may compile for 20 s, and each costs as much as many
tokens. Do not use an engine that serves somebody.

Exit code 0: same; 1: different, or the candidate failed; 3: inconclusive, or blind."""
CODES = {"same": 0, "different": 1, "failed": 1, "inconclusive": 3, "blind": 3}


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--candidate", required=True, metavar="URL", help="the engine that is judged")
    parser.add_argument("--reference", required=True, metavar="URL", help="the engine it is judged by")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--prompts", type=path, metavar="FILE", help="JSON lines with prompts, text or token ids")
    source.add_argument("--workload", type=path, metavar="W", help="a workload's lengths, shared prefixes, tasks and sampling, in our own text")  # noqa: E501
    parser.add_argument("--n", type=count, default=0, metavar="N", help="prompts (default: as many as the budget allows)")  # noqa: E501
    parser.add_argument("--budget", type=span_ns, default=300_000_000_000, metavar="SPAN", help="time to take (default: 5m)")  # noqa: E501
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N", help="of an answer where the prompt does not say (default: 64)")  # noqa: E501
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="requests at once (default: 8)")
    parser.add_argument("--margin", type=float, metavar="NATS", help="difference per token up to which arms are the same (default: 0.1)")  # noqa: E501
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of our prompts, their order and the test's draws")  # noqa: E501
    header_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.surface.cli.render.loop.fidelity import screen
    from pellucid.surface.cli.render.page import show
    from pellucid.verbs.loop.fidelity import Engines, Plan, Terms, fidelity

    if min(args.max_tokens, args.concurrency) < 1:
        raise AskedWrongly("--max-tokens and --concurrency have to be 1 or more")
    if not 0 <= args.seed < 2**63:
        raise AskedWrongly(f"--seed {args.seed} is not between 0 and 2^63")
    plan = Plan(args.budget, args.max_tokens, concurrent_count=args.concurrency, seed=args.seed)
    if args.margin is not None and not 0 < args.margin < math.inf:
        raise AskedWrongly(f"--margin {args.margin} is no difference; the default is {Terms().margin_nats}")
    terms = Terms() if args.margin is None else Terms(margin_nats=args.margin)
    engines = Engines(args.candidate, args.reference, headers(args))
    found = fidelity(engines, _chosen(args, engines, plan), plan, terms)
    if args.json:
        print_json(found.json())
    else:
        show(screen(found))
    if found.word != "same":
        say(f"{found.word}: {found.reason}")
    return CODES[found.word]


def _chosen(args: argparse.Namespace, engines: Engines, plan: Plan) -> Chosen:
    from pellucid.verbs.loop.judging.prompted import MOST_PROMPTS, of_file, of_workload, own
    from pellucid.workload.file import read

    most = args.n or MOST_PROMPTS
    if args.prompts:
        return of_file(args.prompts, most)
    if args.workload:
        return of_workload(read(args.workload), 1.0, (engines.reference, engines.headers), plan, most)
    return own(most, args.seed)

"""`pellucid why`: what limits the engine, or what one request waited for."""

from __future__ import annotations

import argparse

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.intake.attach import first_record, options_of_why
from pellucid.surface.cli.options import json_option, path, print_json, run_option, since_option

NAME = "why"
HELP = """Say what limits the engine, with the evidence, and what to change.

    pellucid why --run example
    pellucid why --request cmpl-9f2c      one request's latency, span by span
    pellucid why --matrix                 what is watched, beside its baseline

Without the probe, from an engine's metrics page or from a Prometheus server that scrapes engines:

    pellucid why localhost:8000 --for 60s
    pellucid why --prometheus http://prometheus:9090 --since 24h"""


def prepare(parser: argparse.ArgumentParser) -> None:
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--request", metavar="ID", help="explain this request instead")
    about.add_argument("--matrix", action="store_true", help="the observation matrix instead: value, baseline, state")
    parser.add_argument("--spans", type=path, metavar="FILE", help="with --request: when a client or gateway sent it; JSON lines, or OTLP spans as JSON")  # noqa: E501
    options_of_why(parser)
    since_option(parser)
    run_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.runs import run_folder

    if args.request is not None and args.since:
        raise AskedWrongly("--since chooses a span of the run, --request one request: give one of them")
    if args.spans is not None and args.request is None:
        raise AskedWrongly("--spans has a client's times of single requests: give --request ID too")
    if args.url or args.prometheus:
        folder, args.since = first_record(args), None
    else:
        folder = run_folder(home(), args.run)
    if args.request is not None:
        from pellucid.surface.cli.render.request import request as render
        from pellucid.verbs.explain import explain_request

        answer = explain_request(folder, args.request, args.spans)
    elif args.matrix:
        from pellucid.surface.cli.render.matrix import matrix as render
        from pellucid.verbs.watch.matrix import matrix

        answer = matrix(folder, args.since)
    else:
        from pellucid.surface.cli.render.why import why as render
        from pellucid.verbs.why import why

        answer = why(folder, args.since)
    if args.json:
        print_json(answer)
        return 0
    from pellucid.surface.cli.render.page import show

    show(render(answer))
    return 0

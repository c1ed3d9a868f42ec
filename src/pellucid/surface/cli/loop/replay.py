"""`pellucid replay`: a workload sent to a server, open loop."""

from __future__ import annotations

import argparse
import secrets

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import count, header_option, headers, json_option, path, print_json, say, span_ns

NAME = "replay"
HELP = """Send a workload to a server as it was, and say what came back.

    pellucid replay chat.parquet --url http://127.0.0.1:8000
    pellucid replay chat.parquet --url http://127.0.0.1:8000 --speed 0.5 --scale-tokens 0.1 --for 60s
    pellucid replay lengths.parquet --url http://127.0.0.1:8000 --rate 2 --limit 100 --out timings.parquet

Requests go out at their times, whatever the server does; a later turn of a conversation waits for the answer before it.
Prompts are made: token ids, alike where the source's were alike. Answers are as long as the source's, where the engine
can be told to. How late the client itself was is told first: where it was in the way, there is no verdict (exit 3).
The same --seed makes the same prompts: an engine that has seen them finds them in its cache. Take another one then."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=path, metavar="FILE", help="a workload")
    parser.add_argument("--url", required=True, metavar="URL", help="an OpenAI-compatible server")
    parser.add_argument("--model", metavar="NAME", help="the model to ask for (default: the first it serves)")
    parser.add_argument("--model-config", type=path, metavar="FILE", help="the model's config.json or its folder; needed where the server runs elsewhere")  # noqa: E501
    parser.add_argument("--context-tokens", type=count, metavar="N", help="most tokens of prompt and answer, where the server does not say")  # noqa: E501
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="arrivals and think times so many times as fast (default: 1)")  # noqa: E501
    parser.add_argument("--scale-tokens", type=float, default=1.0, metavar="X", help="prompts and answers so many times as long (default: 1)")  # noqa: E501
    parser.add_argument("--rate", type=float, metavar="R", help="requests a second at random, for a workload without arrival times")  # noqa: E501
    parser.add_argument("--output-tokens", type=count, metavar="N", help="for requests of which the answer's length is not known")  # noqa: E501
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and of what is drawn (default: 0)")
    parser.add_argument("--limit", type=count, default=0, metavar="N", help="the first N requests only; 0 for all")
    parser.add_argument("--for", type=span_ns, dest="span", metavar="SPAN", help="send for so long: 60s, 5m")
    parser.add_argument("--timeout", type=span_ns, default=600_000_000_000, metavar="SPAN", help="of a request (default: 10m)")  # noqa: E501
    parser.add_argument("--slo", default="", metavar="LIMITS", help="count the requests within these: ttft_p95<2s,itl_p95<150ms")  # noqa: E501
    parser.add_argument("--out", type=path, metavar="FILE", help="write every request's times there, as Parquet")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    header_option(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.surface.cli.render.loop.replay import progress, screen
    from pellucid.surface.cli.render.page import show
    from pellucid.verbs.export.write import check
    from pellucid.verbs.loop.replay import Pace, Server, Wish, read_slo, replay
    from pellucid.verbs.loop.timings import write

    if not 0 <= args.seed < 2**63:
        raise AskedWrongly(f"--seed {args.seed} is not between 0 and 2^63")
    if args.out is not None:
        check(args.out, args.force)
    server = Server(args.url, args.model, headers(args), args.model_config, args.context_tokens or None)
    wish = Wish(args.speed, args.scale_tokens, args.seed, args.limit or None, args.span, args.rate, args.output_tokens)
    pace = Pace(args.timeout / 1e9, f"replay-{secrets.token_hex(3)}", lambda counts: progress(counts, say),
                read_slo(args.slo) if args.slo else ())  # fmt: skip
    replayed = replay(args.file, server, wish, pace)
    if args.out is not None:
        write(replayed, args.out)
        say(f"every request's times: {args.out}")
    if args.json:
        print_json(replayed.json())
    else:
        show(screen(replayed))
    if (replayed.played.ended_early or not replayed.ok_count) and "client" not in replayed.faults:
        say(f"the server failed: {replayed.played.ended_early or 'no request was answered'}")
        return 1
    if replayed.client_bound:
        say(f"no verdict, the client was in the way: {replayed.client_bound}")
        return 3
    return 0

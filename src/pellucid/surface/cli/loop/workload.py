"""`pellucid workload`: requests as lengths, arrivals and prefixes, in one small file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import count, json_option, path, print_json, run_option, say, span_ns

if TYPE_CHECKING:
    from pellucid.verbs.loop.workload import Made

NAME = "workload"
HELP = """Make a workload file of a run or of somebody's trace, and say what it is like.

    pellucid workload record chat.parquet --run example
    pellucid workload import conversation_trace.jsonl.gz chat.parquet
    pellucid workload import chunk-63-trace.csv chunk-63-dataset.json client.parquet --seed 7 --span 10m
    pellucid workload show chat.parquet
    pellucid workload synthesise chat.parquet prompts.jsonl.gz --vocabulary 151643 --limit 100

A workload is arrivals, lengths, and what prompts share, as numbers of blocks; no text and no token ids. It reads traces
(Mooncake, Azure, BurstGPT, ShareGPT lengths, LLMServingSim, Vidur, ServeGen clients, from which requests are drawn),
AIPerf's profile_export.jsonl, GuideLLM's JSON reports, and OTLP spans as JSON. What a file is, is seen from its
contents; packed with gzip or not."""


def prepare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    _import(actions.add_parser("import", help="make a workload of a trace"))
    _record(actions.add_parser("record", help="make a workload of a run"))
    _synthesise(actions.add_parser("synthesise", help="make prompts: token ids, shared as in the source"))
    _show(actions.add_parser("show", help="load, lengths, what prompts share, and what is blind"))


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=path, nargs="+", metavar="FILE", help="a trace; of a ServeGen client, both files")
    _out(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (ServeGen; default: 0)")
    parser.add_argument("--start", type=span_ns, metavar="SPAN", help="draw from there in the trace (default: where most requests are)")  # noqa: E501
    parser.add_argument("--span", type=span_ns, default=3_600_000_000_000, metavar="SPAN", help="draw so much of it (default: 1h)")  # noqa: E501


def _record(parser: argparse.ArgumentParser) -> None:
    _out(parser)
    run_option(parser)


def _synthesise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=path, metavar="FILE", help="a workload")
    parser.add_argument("out", type=path, metavar="OUT", help="JSON lines to write, packed if named .gz; - for stdout")
    parser.add_argument("--vocabulary", type=int, required=True, metavar="N", help="token ids below N are drawn")
    parser.add_argument("--reserved", type=int, default=0, metavar="N", help="but not those below N (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="it decides what is drawn (default: 0)")
    parser.add_argument("--limit", type=count, default=0, metavar="N", help="the first N requests only; 0 for all")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=path, metavar="FILE", help="a workload")
    json_option(parser)


def _out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=path, metavar="OUT", help="the workload to write")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    actions = {"import": _run_import, "record": _run_record, "synthesise": _run_synthesise, "show": _run_show}
    if not 0 <= getattr(args, "seed", 0) < 2**63:
        raise AskedWrongly(f"--seed {args.seed} is not between 0 and 2^63")
    return actions[args.action](args)


def _run_import(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.loop.workload import Draw, Out, import_files

    draw = Draw(args.seed, None if args.start is None else args.start / 1e9, args.span / 1e9)
    _tell(import_files(args.files, Out(args.out, args.force), home(), draw), args.json)
    return 0


def _run_record(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.loop.workload import Out, record_run
    from pellucid.verbs.runs import run_folder

    _tell(record_run(run_folder(home(), args.run), Out(args.out, args.force)), args.json)
    return 0


def _run_synthesise(args: argparse.Namespace) -> int:
    from pellucid.core.units import size
    from pellucid.verbs.loop.workload import Out, Vocabulary, synthesise, write_prompts

    vocabulary = Vocabulary(args.vocabulary, args.reserved)
    if str(args.out) == "-":
        for line in synthesise(args.file, vocabulary, args.seed, args.limit or None):
            sys.stdout.write(line.decode())
        return 0
    size_bytes = write_prompts(args.file, Out(args.out, args.force), vocabulary, args.seed, args.limit or None)
    say(f"{args.out}: {size(size_bytes)}, seed {args.seed}")
    return 0


def _run_show(args: argparse.Namespace) -> int:
    from pellucid.surface.cli.render.loop.workload import screen
    from pellucid.surface.cli.render.page import show as print_page
    from pellucid.verbs.loop.workload import show

    shown = show(args.file)
    if args.json:
        print_json(shown.json())
    else:
        print_page(screen(shown))
    return 0


def _tell(made: Made, as_json: bool) -> None:
    from pellucid.core.units import size

    if as_json:
        print_json(made.json())
        return
    about = made.about
    seed = "" if about.seed is None else f", seed {about.seed}"
    print(f"{made.path}: {about.requests_count:,} requests, {size(made.size_bytes)}, from {about.format}{seed}")
    for reason, left_count in about.left_out.items():
        say(f"left out: {left_count:,} of {about.read_count:,}, {reason}")
    for note in about.notes:
        say(note)
    say(f"what it is like, and what is blind: pellucid workload show {made.path}")

"""`pellucid attach URL`: record an engine from its metrics page; nothing of ours goes into it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import S_NS, duration
from pellucid.surface.cli.options import header_option, headers, kv_options, path, say, span_ns

if TYPE_CHECKING:
    from pathlib import Path

ATTACH_NS, PROMETHEUS_SINCE_NS = 60 * S_NS, 3600 * S_NS
NAME = "attach"
HELP = """Record an engine without the probe, from its metrics page.

    pellucid attach localhost:8000            until Ctrl-C
    pellucid attach localhost:8000 --for 60s && pellucid why

`pellucid why URL --for 60s` does both. What only the probe sees is blind."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the engine's address; /metrics is added where no path is given")
    parser.add_argument("--every", dest="every_ns", type=span_ns, metavar="SPAN", help="how often (default: 5s)")
    parser.add_argument("--for", dest="limit_ns", type=span_ns, metavar="SPAN", help="stop after 60s, 5m, 1h")
    parser.add_argument("--run-folder", type=path, metavar="F", help="record into this folder (default: a new run)")
    header_option(parser)
    kv_options(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.intake import attach as verb
    from pellucid.verbs.intake.kv_events import endpoints
    from pellucid.verbs.record import RecordInto, any_of, stop_after, stop_on_signals

    stops = [stop_on_signals()]
    if args.limit_ns is not None:
        stops.append(stop_after(args.limit_ns))
    how = verb.Attach(
        RecordInto(home(), args.run_folder), args.every_ns or verb.often_enough(args.limit_ns), headers(args),
        endpoints(args.kv_events or (), args.kv_replay or ()),
    )
    done = verb.attach(args.url, how, any_of(*stops), lambda folder: say(f"recording into {folder}"))
    if not done.processes:
        say("no metric of an engine we know is on this page: there will be little to answer")
    if done.unmapped:
        say(f"{len(done.unmapped)} kinds of samples have no place in the catalog and are kept as they are")
    say(f"recorded {done.folder.name} → pellucid why --run {done.folder.name}")
    return 0


def options_of_why(parser: argparse.ArgumentParser) -> None:
    """What `pellucid why` takes for engines without the probe."""
    parser.add_argument("url", nargs="?", metavar="URL", help="an engine's address: read its metrics page, then answer")
    parser.add_argument("--for", dest="limit_ns", type=span_ns, metavar="SPAN", help="how long to read (default: 60s)")
    parser.add_argument("--prometheus", metavar="URL", help="a Prometheus server: answer for all its replicas, over --since (default: 1h)")  # noqa: E501
    parser.add_argument("--match", default="", metavar="M", help="label matchers for --prometheus: 'namespace=\"llm\"'")
    header_option(parser)


def first_record(args: argparse.Namespace) -> Path:
    """Records what is asked for without the probe, and says so."""
    from pellucid.core.settings import home
    from pellucid.verbs.intake import attach as verb
    from pellucid.verbs.record import RecordInto, stop_after

    if args.run or args.request or (args.url and (args.prometheus or args.since)):
        raise AskedWrongly("a URL is read for --for, --prometheus over --since; neither goes with --run or --request")
    into = RecordInto(home())
    if args.prometheus:
        since_ns = args.since or PROMETHEUS_SINCE_NS
        return verb.recall(args.prometheus, into, since_ns, headers(args), args.match).folder
    limit_ns = args.limit_ns or ATTACH_NS
    how = verb.Attach(into, verb.often_enough(limit_ns), headers(args))
    return verb.attach(args.url, how, stop_after(limit_ns), lambda _: say(f"reading the metrics page for {duration(limit_ns)}")).folder  # noqa: E501

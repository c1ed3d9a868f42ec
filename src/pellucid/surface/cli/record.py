"""`pellucid record DIR`: the sidecar. `pellucid record --kv-events ADDRESS`: an engine without the probe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pellucid.surface.cli.options import kv_options, metrics_option, path, say, span_ns

if TYPE_CHECKING:
    from pellucid.verbs.record import RecordInto, Stop

NAME = "record"
HELP = """Record an engine that was started with PELLUCID_DIR=DIR.

    mkdir -m 700 /dev/shm/engine && PELLUCID_DIR=/dev/shm/engine <engine command> &
    pellucid record /dev/shm/engine

Without the probe, the KV events that an engine publishes say which blocks are cached, where and how long:

    pellucid record --kv-events tcp://host:5557 --kv-replay tcp://host:5558

Ctrl-C or SIGTERM ends it cleanly."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=path, nargs="?", metavar="DIR", help="the probe's folder, on a tmpfs")
    parser.add_argument("--run-folder", type=path, metavar="F", help="record into this folder (default: a new run)")
    parser.add_argument("--for", dest="limit_ns", type=span_ns, metavar="SPAN", help="stop after 60s, 5m, 1h")
    parser.add_argument("--until-exit", type=int, metavar="PID", help="stop when this process is gone")
    parser.add_argument("--home", type=path, help="where recordings go (default: $PELLUCID_HOME)")
    metrics_option(parser)
    kv_options(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.errors import AskedWrongly
    from pellucid.core.settings import home
    from pellucid.verbs import record as verb

    if (args.dir is None) == (args.kv_events is None) or (args.kv_replay and not args.kv_events):
        raise AskedWrongly("give the probe's folder, or --kv-events of an engine without the probe; not both, since the probe sees the same blocks")  # noqa: E501
    stops = [verb.stop_on_signals()]
    if args.limit_ns is not None:
        stops.append(verb.stop_after(args.limit_ns))
    if args.until_exit is not None:
        stops.append(verb.stop_at_exit_of(args.until_exit))
    into, stop = verb.RecordInto(args.home or home(), args.run_folder, args.metrics), verb.any_of(*stops)
    if args.dir is None:
        return _kv_events(args, into, stop)
    folder = verb.record(args.dir, into, stop, lambda f: say(f"recording {args.dir} into {f}"))
    say(f"recorded {folder.name} → pellucid why --run {folder.name}")
    return 0


def _kv_events(args: argparse.Namespace, into: RecordInto, stop: Stop) -> int:
    from pellucid.verbs.intake.kv_events import endpoints, follow_kv_events

    where = endpoints(args.kv_events, args.kv_replay or ())
    seen = follow_kv_events(where, into, stop, lambda f: say(f"recording {', '.join(args.kv_events)} into {f}"))
    say(f"recorded {seen.folder.name}: {seen.messages_count:,} messages, {seen.stored_count:,} blocks stored, "
        f"{seen.removed_count:,} removed; {seen.lost_count:,} messages lost")  # fmt: skip
    return 0

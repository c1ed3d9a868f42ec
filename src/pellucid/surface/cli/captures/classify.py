"""`pellucid classify`: kernel names → classes, one JSON line for each. Answers come as the lines do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import say

NAME = "classify"
HELP = """Say what kind of work kernels do, by their names: arguments, or lines on stdin. One JSON line for each.

    pellucid classify 'void flash::flash_fwd_kernel<...>(Params)'
    pellucid classify < names.txt | jq -r .class | sort | uniq -c

A name that no rule knows is "unknown", with confidence 0; null is: the name does not tell. Empty lines have no answer
and are counted on stderr. Bytes that are no UTF-8 come back as \\xNN."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="a kernel's name as a profiler prints it (default: lines on stdin)")  # noqa: E501
    parser.add_argument("--op", metavar="OP", help="the operator that launched them, as aten::copy_; it decides where names say little")  # noqa: E501


def run(args: argparse.Namespace) -> int:
    import json

    from pellucid.verbs.captures.classify import classified

    if not args.names and (sys.stdin is None or sys.stdin.isatty()):
        raise AskedWrongly("classify takes names, or lines on stdin. Try: pellucid classify < names.txt")
    empty: list[int] = []
    names = (_readable(name.encode(errors="surrogateescape")) for name in args.names) if args.names else _lines(empty)
    for answer in classified(names, args.op):
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    if empty:
        say(f"{len(empty)} empty line{'s' if len(empty) > 1 else ''} skipped")
    return 0


def _lines(empty: list[int]) -> Iterator[str]:
    """Each as soon as it is there. Numbers of empty ones go into `empty`."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if name := _readable(line.rstrip(b"\r\n")).strip():
            yield name
        else:
            empty.append(number)


def _readable(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")

"""Options that several commands have, and how their text is read."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import parse_span_ns

if TYPE_CHECKING:
    from pathlib import Path

MOST_DIGITS = 18  # more than any run has, and still a 64-bit number


def run_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--run", metavar="ID", help="id, unique start of it, folder, or `example` (default: newest)")


def since_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="SPAN", type=span_ns, help="only the last SPAN of the run: 90s, 5m, 1.5h")


def metrics_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", metavar="URL", default="", help="the engine's metrics page, read beside the probe: do the two agree?")  # noqa: E501


def json_option(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup) -> None:
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def kv_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kv-events", action="append", metavar="ADDRESS", help="an engine's KV event publisher, tcp://host:5557; again for each data-parallel rank")  # noqa: E501
    parser.add_argument("--kv-replay", action="append", metavar="ADDRESS", help="where to have lost events again, tcp://host:5558; one for each --kv-events")  # noqa: E501


def span_ns(text: str) -> int:
    try:
        return parse_span_ns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def check_text(args: argparse.Namespace) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates, which no database takes. A launched command may have them."""
    for name, value in vars(args).items():
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            raise AskedWrongly(f"--{name.replace('_', '-')} is not valid UTF-8: {value!r}")


def path(text: str) -> Path:
    from pathlib import Path  # a tenth of what --help takes

    return Path(text)


def count(text: str) -> int:
    """A whole number of rows; 0 means all."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of rows; 0 means all")
    return int(text)


def print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def say(text: str) -> None:
    """Talk goes to stderr; one that nobody reads any more is no reason to stop."""
    with contextlib.suppress(OSError):
        print(f"pellucid: {text}", file=sys.stderr, flush=True)


def header_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--header", action="append", default=[], metavar="H", help="HTTP header, 'Authorization: Bearer …'; better in the environment as PELLUCID_AUTHORIZATION")  # noqa: E501


def headers(args: argparse.Namespace) -> dict[str, str]:
    """`Name: value` lines → headers, and PELLUCID_AUTHORIZATION where no line has one."""
    from pellucid.core.settings import setting

    pairs = [line.split(":", 1) for line in args.header]
    if wrong := [line for line, pair in zip(args.header, pairs, strict=True) if len(pair) != 2 or not pair[0].strip()]:
        raise AskedWrongly(f"--header takes 'Name: value', and one of {len(wrong)} has no colon")
    given = {name.strip(): value.strip() for name, value in pairs}
    texts = {name: name + value for name, value in given.items()}
    if odd := [name for name, text in texts.items() if not (text.isascii() and text.isprintable())]:
        raise AskedWrongly(f"--header {odd[0]!r} has characters that no HTTP header may have")
    authorization = setting("authorization")
    if authorization and "authorization" not in {name.lower() for name in given}:
        given["Authorization"] = authorization
    return given

"""The command line: `pellucid COMMAND …`. `commands.py` lists all there are; one file per command.

    $ pellucid why --run example
    $ pellucid requests --where 'ttft_ns > 500ms' --sort ttft_ns --desc --json

Data on stdout, talk on stderr. Exit: 0 done · 1 failed · 2 asked wrongly · 3 cannot answer · 130 Ctrl-C;
`run` has the engine's. Commands import what they need when they run: `--help` must not wait for a database.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from pellucid import __version__
from pellucid.core.errors import PellucidError
from pellucid.surface.cli.commands import COMMANDS
from pellucid.surface.cli.options import check_text
from pellucid.surface.cli.stdout import drop, take_anything


def parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Knows every command; the options of the chosen one only, since making parsers takes longer than parsing."""
    top_level = argparse.ArgumentParser(
        prog="pellucid",
        description="Records what an LLM inference engine does and says what limits it, with the evidence.",
        epilog="First look, no engine needed: pellucid why --run example",
    )
    top_level.add_argument("--version", action="version", version=f"pellucid {__version__}")
    commands = top_level.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME, help=command.HELP.splitlines()[0], description=command.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if chosen == command.NAME:
            command.prepare(sub)
        sub.set_defaults(act=command.run)
    return top_level


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    args = parser(next((w for w in words if not w.startswith("-")), None)).parse_args(words)
    interrupted = _note_interrupts()
    take_anything()
    try:
        check_text(args)
        code: int = args.act(args)
        sys.stdout.flush()
        return code
    except PellucidError as error:
        print(f"pellucid: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        drop()
        if not isinstance(error, BrokenPipeError):     # the reader (head, less) has gone
            print(f"pellucid: {error}", file=sys.stderr)
        return int(not isinstance(error, BrokenPipeError))
    except KeyboardInterrupt:
        return 130
    except RuntimeError:
        if interrupted:  # the database answers a Ctrl-C with an error of its own
            return 130
        raise


def _note_interrupts() -> list[int]:
    """Ctrl-C as ever, and the list gets an entry."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    return seen

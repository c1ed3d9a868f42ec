"""`docs/reference/cli.md` from the command line's own parsers. `--check` fails when the page differs.

    python tools/gen_cli_docs.py [--check]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pellucid.surface.cli import parser
from pellucid.surface.cli.commands import COMMANDS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEAD = """# Command line

Made by `tools/gen_cli_docs.py` from the parsers themselves; do not edit.

Data goes to stdout, talk to stderr. Exit codes: 0 done · 1 failed · 2 asked wrongly · 3 cannot answer (it was not
recorded) · 130 Ctrl-C. `run` has the engine's own: 128 + signal where one ended it, 127 or 126 where it could not
start.
"""


def page() -> str:
    os.environ["COLUMNS"] = "96"  # argparse wraps at the terminal's width
    parts = [HEAD, block(parser().format_help())]
    for command in COMMANDS:
        sub = argparse.ArgumentParser(
            prog=f"pellucid {command.NAME}", description=command.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        command.prepare(sub)
        parts.append(f"## pellucid {command.NAME}\n\n{block(sub.format_help())}")
        parts += [f"### {action.prog}\n\n{block(action.format_help())}" for action in actions(sub)]
    return "\n".join(parts)


def actions(command: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Parsers of a command's own sub-commands."""
    groups = [a for a in command._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser for group in groups for parser in group.choices.values()]


def block(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n"


def main() -> int:
    wanted = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != wanted:
            print(f"{PAGE} is not what the parsers say. Try: python tools/gen_cli_docs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())

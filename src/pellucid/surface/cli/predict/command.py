"""`pellucid predict`: what would happen. From a recording, or on paper; each brings its own options."""

from __future__ import annotations

import argparse

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import json_option
from pellucid.surface.cli.predict import paper, recorded

NAME = "predict"
HELP = f"""Say what another setting, load, model or GPU would do, before anybody tries it.

{recorded.HELP}

{paper.HELP}"""


def prepare(parser: argparse.ArgumentParser) -> None:
    recorded.prepare(parser)
    paper.prepare(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Options of the other kind are refused: they would change nothing."""
    chosen, other = (recorded, paper) if args.model is None else (paper, recorded)
    unused = argparse.ArgumentParser(add_help=False)
    other.prepare(unused)
    odd = [name for name, usual in vars(unused.parse_args([])).items() if getattr(args, name) != usual]
    if odd:
        flags = ", ".join("--" + name.replace("_", "-") for name in odd)
        how = "goes with --model" if args.model is None else "is asked of a recording, and --model is on paper"
        raise AskedWrongly(f"{flags} {how}. Try: pellucid predict --help")
    code: int = chosen.run(args)
    return code

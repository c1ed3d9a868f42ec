"""`pellucid predict`: what would happen. Each kind of question brings its own options."""

from __future__ import annotations

import argparse
from typing import Protocol

from pellucid.core.errors import AskedWrongly
from pellucid.surface.cli.options import json_option
from pellucid.surface.cli.predict import paper

NAME = "predict"
HELP = f"""Say what a model would do on other GPUs, or with other settings, before anybody tries.

{paper.HELP}"""


class Kind(Protocol):
    """What a prediction starts from: the option that chooses it, its other options, what it does."""

    HELP: str
    CHOSEN_BY: str

    def prepare(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


KINDS: tuple[Kind, ...] = (paper,)


def prepare(parser: argparse.ArgumentParser) -> None:
    for kind in KINDS:
        kind.prepare(parser)
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    chosen = [kind for kind in KINDS if getattr(args, kind.CHOSEN_BY) is not None]
    if len(chosen) != 1:
        ways = " or ".join(f"--{kind.CHOSEN_BY}" for kind in KINDS)
        raise AskedWrongly(f"predict wants to know what to start from. Try: {ways} …, see pellucid predict --help")
    return chosen[0].run(args)

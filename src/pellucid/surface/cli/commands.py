"""The commands there are, in the order in which `pellucid --help` lists them."""

from __future__ import annotations

import argparse
from typing import Protocol

from pellucid.surface.cli import doctor, record, run, top, why
from pellucid.surface.cli.captures import classify, compare, export, profile
from pellucid.surface.cli.intake import attach, load
from pellucid.surface.cli.lists import blocks, experts, kernels, prefixes, requests, runs, speculation, steps
from pellucid.surface.cli.loop import audit, fidelity, live, replay, report, trial, trials, tune, undo, workload
from pellucid.surface.cli.predict import command as predict


class Command(Protocol):
    """A module in this folder: what it is called, what it says about itself, its options, what it does."""

    NAME: str
    HELP: str

    def prepare(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: tuple[Command, ...] = (
    why, run, record, attach, load, profile, top, requests, steps, prefixes, blocks, experts, speculation, kernels,
    compare, classify, export, runs, workload, predict, replay, trial, fidelity, tune, trials, report, undo, audit,
    live, doctor,
)  # fmt: skip

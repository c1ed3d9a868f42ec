"""`pellucid load FILE…`: what somebody has on disk becomes a run."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.surface.cli.options import json_option, path, print_json, say

NAME = "load"
HELP = """Make a run of files: kernel traces, engine logs, KV events, metrics pages; packed with gzip or not.

    pellucid load rank0.pt.trace.json.gz serve.log --model config.json
    pellucid load report.sqlite cuda_gpu_kern_sum.csv ncu.csv
    pellucid load *.log.gz --json

What a file is, is seen from its contents. Prompts, token ids, names, addresses and secrets are left out of the run."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=path, nargs="+", metavar="FILE", help="what to load")
    parser.add_argument("--run-folder", type=path, metavar="F", help="load into this folder (default: a new run)")
    parser.add_argument("--model", type=path, metavar="CONFIG", help="config.json of the model in traces of kernels: says what shapes do not")  # noqa: E501
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.intake.load import load
    from pellucid.verbs.record import RecordInto

    loaded = load(args.files, RecordInto(home(), args.run_folder), args.model)
    if args.json:
        print_json(loaded.json())
    else:
        for row in loaded.rows:
            print(_line(row))
            for said in row["damage"] or ():
                say(f"{row['file']} is not whole: {said}")
    say(f"loaded into {loaded.folder.name}")
    return 0


def _line(row: dict[str, Any]) -> str:
    """serve.log: log, 767 lines, 0.24.0 qwen3-8b → 15 stats, 2 shutdown, …"""
    said = [row["format"], f"{row['lines_count']:,} lines" if row["lines_count"] is not None else "",
            " ".join(row[c] for c in ("engine", "engine_version", "model") if row[c])]  # fmt: skip
    kinds = sorted((row["kinds"] or {}).items(), key=lambda item: (-item[1], item[0]))
    return f"{row['file']}: {', '.join(s for s in said if s)} → " + (", ".join(f"{n:,} {k}" for k, n in kinds) or "nothing")  # noqa: E501

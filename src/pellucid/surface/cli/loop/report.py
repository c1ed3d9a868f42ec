"""`pellucid report`: a session, or a trial, as one page or as JSON."""

from __future__ import annotations

import argparse

from pellucid.surface.cli.options import json_option, path, print_json, say

NAME = "report"
HELP = """Write what was tried, kept, refused and why, as one page with figures that needs no network.

    pellucid report                            the newest session, or trial, as report-ID.html
    pellucid report 20261130 --out loop.html
    pellucid report --json                     the same as data

Whoever has the page has all that it tells: commands, proposers' words, ends of logs."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="of a session or a trial, or unique start of it (default: newest)")  # noqa: E501
    parser.add_argument("--out", type=path, metavar="FILE", help="the page (default: report-ID.html in this folder)")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    json_option(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from pellucid.core.errors import AskedWrongly
    from pellucid.core.settings import home
    from pellucid.core.units import size
    from pellucid.core.whole import replacing
    from pellucid.verbs.loop.report import report

    if args.json and args.out:
        raise AskedWrongly("--json goes to stdout, and --out is a page. Give one of them")
    found = report(home(), args.id)
    if args.json:
        print_json(found.json())
        return 0
    out = args.out or Path(f"report-{found.id}.html")
    if out.exists() and not args.force:
        raise AskedWrongly(f"{out} is there already. Try: --force, or another --out")
    from pellucid.surface.page.report import page, plotly_script

    with replacing(out) as part:
        part.write_text(page(found, plotly_script()), encoding="utf-8")
    say(found.ending)
    say(f"{out}: {size(out.stat().st_size)}. Open it in a browser")
    return 0

"""What the lists share: options, and rows out as a table, JSON or CSV."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import TYPE_CHECKING

from pellucid.surface.cli.options import count, json_option, print_json, run_option, say, since_option

if TYPE_CHECKING:
    from pellucid.verbs.rows import Listing, Rows

TABLE_ROWS = 40  # a screen; JSON and CSV are for programs and have all rows


def prepare(parser: argparse.ArgumentParser, since: bool = True) -> None:
    """Without `since` for rows that are sums over the whole run."""
    parser.add_argument("--sort", metavar="COLUMN", help="order by a column; rows without a value come last")
    parser.add_argument("--desc", action="store_true", help="largest first")
    parser.add_argument("--where", metavar="EXPR", help="rows that fit: 'ttft_ns > 500ms and finish_reason = abort'; a missing value fits no comparison")  # noqa: E501
    parser.add_argument("--columns", metavar="A,B", help="these columns (default: a screenful; all in JSON and CSV)")
    parser.add_argument("--limit", type=count, metavar="N", help=f"at most N rows, 0 for all (default: {TABLE_ROWS} in a table, else all)")  # noqa: E501
    if since:
        since_option(parser)
    else:
        parser.set_defaults(since=None)
    run_option(parser)
    form = parser.add_mutually_exclusive_group()
    json_option(form)
    form.add_argument("--csv", action="store_true", help="CSV on stdout; empty is missing")


def run(args: argparse.Namespace, listing: Listing) -> int:
    from pellucid.core.settings import home
    from pellucid.verbs.rows import Query, rows
    from pellucid.verbs.runs import run_folder

    table = not (args.json or args.csv)
    asked = tuple(c.strip() for c in args.columns.split(",")) if args.columns else ()
    limit = (TABLE_ROWS if table else None) if args.limit is None else (args.limit or None)
    columns = asked or (listing.shown if table else ())
    query = Query(args.where, args.sort, args.desc, columns, limit, args.since)
    found = rows(run_folder(home(), args.run), listing, query)
    for note in found.notes:
        say(note)
    if args.json:
        print_json(found.json())
    elif args.csv:
        _print_csv(found, columns)
    else:
        _print_table(found, columns, bool(asked))
    if len(found.rows) < found.matching_count:
        say(f"{len(found.rows):,} of {found.matching_count:,} {listing.name}; --limit 0 shows all")
    return 0


def _print_csv(found: Rows, columns: tuple[str, ...]) -> None:
    names = columns or tuple(found.rows[0] if found.rows else ())
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.rows)


def _print_table(found: Rows, columns: tuple[str, ...], asked: bool) -> None:
    from pellucid.surface.cli.render.page import page_width, show
    from pellucid.surface.cli.render.rows import fitting, table

    if not found.rows:
        say("no row fits")
        return
    fit = columns if asked else fitting(found.rows, columns, found.moments, found.origin_ns, page_width(wide=True))
    show(table(found.rows, fit, found.moments, found.origin_ns), wide=True)
    if len(fit) < len(columns):
        say(f"the terminal has no room for {', '.join(columns[len(fit):])}; --columns chooses")

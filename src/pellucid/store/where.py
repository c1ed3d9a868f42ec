"""`--where` → SQL with parameters. A small grammar, so that a filter can neither run SQL nor be misread.

    where("finish_reason = abort and ttft_ns > 500ms", {"finish_reason": "VARCHAR", "ttft_ns": "BIGINT"})
    → ("finish_reason = $w0 AND ttft_ns > $w1", {"w0": "abort", "w1": 500000000})

    condition  column op value · column is missing · column is seen        joined by `and`
    op         =  !=  <  <=  >  >=  ~ (contains)
    value      a number · a span for durations in ns (34ms, 1.5s) · text, quoted where it has spaces

Text has no order and numbers no parts, so `<` asks for numbers and `~` for text. A span is no moment. What is missing
fits no comparison, `!=` included: `is missing` asks for it.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import parse_span_ns, unit_of

Value = int | float | str
Types = Mapping[str, str]  # column → DuckDB type
TEXT = "VARCHAR"
MOST = 2**63 - 1           # numbers of the store have 64 bits

_TOKEN = re.compile(r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<op><=|>=|!=|=|<|>|~)|(?P<word>[^\s<>=!~"']+))""")
_GRAMMAR = "write it as: column op value [and …], with op one of = != < <= > >= ~, or: column is missing | is seen"


def where(text: str, types: Types, moments: Collection[str] = ()) -> tuple[str, dict[str, Value]]:
    """The condition as SQL and its parameters; `moments` are columns that hold points in time. Raises AskedWrongly on
    anything outside the grammar."""
    tokens = _tokens(text)
    conditions: list[str] = []
    params: dict[str, Value] = {}
    while tokens:
        if len(tokens) < 3:
            raise AskedWrongly(f"--where {text!r} ends in the middle of a condition; {_GRAMMAR}")
        (column, op, value), tokens = tokens[:3], tokens[3:]
        name = f"w{len(params)}"
        conditions.append(_condition(check_column(column, types), op, value, types[column], name))
        if op.lower() != "is":
            params[name] = _value(column, value, types[column], column in moments)
        if tokens:
            joiner, tokens = tokens[0], tokens[1:]
            if joiner.lower() != "and" or not tokens:
                raise AskedWrongly(f"--where {text!r}: saw {joiner!r} after a condition; {_GRAMMAR}")
    if not conditions:
        raise AskedWrongly(f"--where is empty; {_GRAMMAR}")
    return " AND ".join(conditions), params


def check_column(column: str, known: Iterable[str]) -> str:
    """The column, if there is one of that name. Raises AskedWrongly with the nearest names."""
    names = list(known)
    if column in names:
        return column
    near = difflib.get_close_matches(column, names, n=3, cutoff=0.5) or sorted(n for n in names if column in n)[:3]
    hint = f"nearest: {', '.join(near)}" if near else f"there are: {', '.join(names)}"
    raise AskedWrongly(f"no column {column!r}; {hint}")


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise AskedWrongly(f"--where {text!r}: cannot read {text[at:].strip()!r}; {_GRAMMAR}")
        tokens.append(match.group("quoted") or match.group("op") or match.group("word"))
        at = match.end()
    return tokens


def _condition(column: str, op: str, value: str, kind: str, name: str) -> str:
    if op.lower() == "is":
        if value.lower() not in ("missing", "seen"):
            raise AskedWrongly(f"--where {column} is {value}: `is` takes missing or seen")
        return f"{column} IS {'' if value.lower() == 'missing' else 'NOT '}NULL"
    if op not in ("=", "!=", "<", "<=", ">", ">=", "~"):
        raise AskedWrongly(f"--where: saw {op!r} after {column}; {_GRAMMAR}")
    if kind == TEXT and op not in ("=", "!=", "~"):
        raise AskedWrongly(f"--where: {column} holds text, which has no order for {op!r}; use = != or ~ (contains)")
    if kind != TEXT and op == "~":
        raise AskedWrongly(f"--where: {column} holds numbers ({unit_of(column) or 'number'}); ~ (contains) is for text")
    return f"contains({column}, ${name})" if op == "~" else f"{column} {op} ${name}"


def _value(column: str, text: str, kind: str, moment: bool) -> Value:
    if kind == TEXT:
        return text.strip("\"'")
    value = _number(text)
    if value is None and unit_of(column) == "ns":
        with contextlib.suppress(ValueError):
            value = parse_span_ns(text)
            if moment:
                raise AskedWrongly(
                    f"--where: {column} is a moment, {text!r} a span of time. Compare it with the ns that --json "
                    "prints, or ask for the end of the run with --since"
                )
    if value is None or not -MOST <= value <= MOST:
        raise AskedWrongly(f"--where: {column} holds numbers ({unit_of(column) or 'number'}); saw {text!r}")
    return value


def _number(text: str) -> int | float | None:
    """None for what is none, NaN included: it is neither more nor less than anything."""
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        return None if math.isnan(value) else value
    return None

"""`--where` → SQL with parameters. A small grammar, so that a filter can neither run SQL nor be misread.

    where("finish_reason = abort and ttft_ns > 500ms", {"finish_reason": "VARCHAR", "ttft_ns": "BIGINT"})
    → ("finish_reason = $w0 AND ttft_ns > $w1", {"w0": "abort", "w1": 500000000})

    condition  column op value · column is missing · column is seen        joined by `and`
    op         =  !=  <  <=  >  >=  ~ (contains)
    value      a number · a span for columns in ns (34ms, 1.5s) · text, quoted where it has spaces
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import parse_span_ns, unit_of

Value = int | float | str
Types = Mapping[str, str]  # column → DuckDB type

_TOKEN = re.compile(r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<op><=|>=|!=|=|<|>|~)|(?P<word>[^\s<>=!~"']+))""")
_GRAMMAR = "write it as: column op value [and …], with op one of = != < <= > >= ~, or: column is missing | is seen"


def where(text: str, types: Types) -> tuple[str, dict[str, Value]]:
    """The condition as SQL and its parameters. Raises AskedWrongly on anything outside the grammar."""
    tokens = _tokens(text)
    conditions: list[str] = []
    params: dict[str, Value] = {}
    while tokens:
        if len(tokens) < 3:
            raise AskedWrongly(f"--where {text!r} ends in the middle of a condition; {_GRAMMAR}")
        (column, op, value), tokens = tokens[:3], tokens[3:]
        conditions.append(_condition(check_column(column, types), op, value, types, params))
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


def _condition(column: str, op: str, value: str, types: Types, params: dict[str, Value]) -> str:
    if op.lower() == "is":
        if value.lower() not in ("missing", "seen"):
            raise AskedWrongly(f"--where {column} is {value}: `is` takes missing or seen")
        return f"{column} IS {'' if value.lower() == 'missing' else 'NOT '}NULL"
    if op not in ("=", "!=", "<", "<=", ">", ">=", "~"):
        raise AskedWrongly(f"--where: saw {op!r} after {column}; {_GRAMMAR}")
    name = f"w{len(params)}"
    if op == "~":
        params[name] = value.strip("\"'")
        return f"contains({column}::VARCHAR, ${name})"
    params[name] = _value(column, value, types[column])
    return f"{column} {op} ${name}"


def _value(column: str, text: str, kind: str) -> Value:
    if kind == "VARCHAR":
        return text.strip("\"'")
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    if unit_of(column) == "ns":
        try:
            return parse_span_ns(text)
        except ValueError:
            pass
    unit = unit_of(column) or "number"
    raise AskedWrongly(f"--where: {column} holds numbers ({unit}); saw {text!r}")

"""One word per thing, a unit on every quantity, and nothing of the place where this was written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from pellucid.catalog.load import knobs, metrics
from pellucid.core.units import unit_of
from pellucid.store.schema import TABLES
from tests.house.tree import PELLUCID, PROBE, files, inside, parsed, short

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager", "core_utils", "tools", "lib"}
# Numbers that count nothing and measure nothing: they name a thing.
NUMBERS = {"dp_rank", "client_index", "request", "step", "first_step", "last_step", "pid", "first_position",
           "position", "kv_group", "removed_by", "evicted_by", "line", "layer", "expert", "rank",
           "device_index", "stream", "correlation", "launch", "follows",
           "temperature", "top_p", "top_k",      # as clients spell them
           "le", "value"}  # fmt: skip (the unit of `le` and `value` is in the metric's name)
TOKENS = {"tokens", "count", "flop"}       # the suffix alone
ABBREVIATIONS = re.compile(r"(^|_)(num|cnt|perf|avg|calc|tmp|mgr|cfg|req)(_|$)")
ELSEWHERE = re.compile(r"/work/|(?<![\w-])(?:artifactory|nexus|devpi|proxpi)\b|\b10\.\d+\.\d+\.\d+\b|\.internal\b")
TEXT = {".py", ".md", ".toml", ".sql", ".sh", ".json", ""}


def numeric_columns() -> Iterator[tuple[str, str]]:
    for table in TABLES.values():
        for column in table.columns:
            if str(column.type) != "string":
                yield table.name, column.name


@pytest.mark.parametrize(("table", "column"), list(numeric_columns()))
def test_a_number_has_its_unit_in_its_name(table: str, column: str) -> None:
    assert unit_of(column) or column in NUMBERS | TOKENS, f"{table}.{column}"


@pytest.mark.parametrize("table", TABLES)
def test_text_has_no_unit(table: str) -> None:
    assert [c.name for c in TABLES[table].columns if str(c.type) == "string" and unit_of(c.name)] == []


def test_the_same_column_means_the_same_type_everywhere() -> None:
    kinds: dict[str, set[str]] = {}
    for table in TABLES.values():
        for column in table.columns:
            kinds.setdefault(column.name, set()).add(str(column.type))
    assert {name: k for name, k in kinds.items() if len(k) > 1} == {}


def test_columns_are_spelled_out() -> None:
    assert [c.name for t in TABLES.values() for c in t.columns if ABBREVIATIONS.search(c.name)] == []


def test_metrics_have_their_unit_in_their_name() -> None:
    assert [n for n, m in metrics().items() if unit_of(n) != m.unit] == []


def test_knobs_are_in_our_words() -> None:
    assert [n for n in knobs() if ABBREVIATIONS.search(n)] == []


def test_modules_are_named_for_what_they_do() -> None:
    product = [*inside(PELLUCID, ".py"), *inside(PROBE, ".py")]
    assert [short(p) for p in product if VAGUE & {p.stem, p.parent.name}] == []


def test_no_name_of_a_function_or_class_is_vague() -> None:
    """`Manager`, `Helper` and the like say nothing about what a thing is."""
    vague = re.compile(r"(Manager|Helper|Util|Base|Misc|Handler)s?$")
    named = [
        f"{short(p)}:{n.name}"
        for p in (*inside(PELLUCID, ".py"), *inside(PROBE, ".py"))
        for n in ast.walk(parsed(p)) if isinstance(n, ast.ClassDef) and vague.search(n.name)
    ]  # fmt: skip
    assert named == []


def test_comments_say_why_and_not_what_happened() -> None:
    history = re.compile(r"#.*\b(previously|as discussed|we decided|used to be|TODO|FIXME|XXX)\b", re.IGNORECASE)
    code = [p for p in files() if p.suffix in (".py", ".sql") and "tests/house" not in short(p)]
    assert [f"{short(p)}: {m[0]}" for p in code if (m := history.search(p.read_text()))] == []


def test_nothing_names_the_place_where_it_was_written() -> None:
    texts = [p for p in files() if p.suffix in TEXT and p.name != "test_words.py"]
    assert len(texts) > 100
    assert [f"{short(p)}: {m[0]}" for p in texts if (m := ELSEWHERE.search(p.read_text(errors="replace")))] == []


@pytest.mark.parametrize("text", ["see /work/main", "http://nexus/pypi", "at 10.1.2.3:80", "x.corp.internal"])
def test_a_foreign_place_is_noticed(text: str) -> None:
    assert ELSEWHERE.search(text)

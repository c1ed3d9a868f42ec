"""Nothing is larger than a reader can take in. What has to be larger is named here, with the reason."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import PELLUCID, PROBE, ROOT, files, inside, parsed, short

# What is measured → (name → why it may be above the limit). An entry that is no longer needed fails.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "lines of a function": {},
    "lines of a file": {},
    "lines of a rule": {},
    "lines of a command": {},
    "lines of a view": {},
    "names in a folder": {
        "src/pellucid": "a folder for each layer, beside what a package has to have",
        "src/pellucid/surface/cli": "a folder for each kind of command, beside the commands that stand alone",
        "src/pellucid/collect": "a folder for each kind of source, beside the recorder's own files",
    },
    "parameters": {},
    "lines of a test": {},
}
MANY = ("diagnose/rules", "examples", "tests", "docs")    # lists: one more entry makes them no harder to read


def python() -> list[Path]:
    return [p for p in files() if p.suffix == ".py"]


@cache
def functions() -> tuple[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef], ...]:
    return tuple((f"{short(path)}:{node.name}", node) for path in python() for node in _functions(parsed(path)))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """At any depth. Functions are statements: expressions, most of a tree, need not be looked at."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _functions(node)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    a = node.args
    return sum(arg.arg not in ("self", "cls") for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def is_test(name: str) -> bool:
    return name.startswith("tests/") and name.rsplit(":", 1)[1].startswith("test_")


def folders() -> Iterator[tuple[str, int]]:
    """Names directly in each folder of the product: files and subfolders that hold any."""
    names = {(parent.parent, parent.name) for p in files() for parent in (p, *p.parents) if parent.is_relative_to(ROOT)}
    counts = Counter(folder for folder, name in names if folder.is_relative_to(ROOT) and not name.startswith("."))
    for folder, count in counts.items():
        if not any(many in short(folder) for many in MANY):
            yield short(folder), count


def measured(what: str) -> Iterator[tuple[str, int]]:
    if what == "lines of a function":
        yield from ((n, length(f)) for n, f in functions())
    elif what == "lines of a test":
        yield from ((n, length(f)) for n, f in functions() if is_test(n))
    elif what == "parameters":
        yield from ((n, parameters(f)) for n, f in functions())
    elif what == "names in a folder":
        yield from folders()
    else:
        chosen = {
            "lines of a file": python(), "lines of a rule": inside(PELLUCID / "diagnose/rules", ".py"),
            "lines of a command": [p for p in inside(PELLUCID / "surface/cli", ".py") if p.parent.name == "cli"],
            "lines of a view": inside(PELLUCID / "store/views", ".sql"),
        }[what]  # fmt: skip
        yield from ((short(p), lines(p)) for p in chosen)


@pytest.mark.parametrize(
    ("what", "limit"),
    [("lines of a function", 60), ("lines of a file", 400), ("lines of a rule", 120), ("lines of a command", 100),
     ("lines of a view", 150), ("names in a folder", 15), ("parameters", 8), ("lines of a test", 40)],
)  # fmt: skip
def test_nothing_is_larger_than_its_limit(what: str, limit: int) -> None:
    sizes = dict(measured(what))
    assert sizes
    above = {name for name, size in sizes.items() if size > limit}
    assert {n: sizes[n] for n in above - EXCEPTIONS[what].keys()} == {}
    assert EXCEPTIONS[what].keys() - above == set(), "these fit by now: take them off the list"


def test_exceptions_say_why() -> None:
    assert [why for names in EXCEPTIONS.values() for why in names.values() if len(why) < 20] == []


def test_a_long_function_is_measured_whole() -> None:
    tree = ast.parse("def f(self, a, b, /, c, *, d, e=1, **k):\n" + "    x = 1\n" * 60)
    (node,) = tree.body
    assert isinstance(node, ast.FunctionDef)
    assert (length(node), parameters(node)) == (61, 5)


@pytest.mark.parametrize("folder", [PELLUCID, PROBE])
def test_every_module_says_what_it_is_for(folder: Path) -> None:
    silent = [short(p) for p in inside(folder, ".py") if p.read_text().strip() and not ast.get_docstring(parsed(p))]
    assert silent == []

"""Who may import whom. The contracts are in pyproject.toml; what they cannot say is here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import PELLUCID, PROBE, ROOT, inside, parsed, short

ENGINE_NAMES = re.compile(r"vllm|sglang", re.IGNORECASE)
MAY_NAME_ENGINES = (PELLUCID / "collect/vllm", PELLUCID / "collect/sglang", PELLUCID / "catalog", PELLUCID / "examples")
FIELDS_OF_THE_ENGINES_API = {"src/pellucid/testing/traffic.py": "vllm"}   # the engine that tests start
# Since 3.10: names the probe must not use, wherever they come from. (module, attribute)
TOO_NEW = {
    ("itertools", "pairwise"), ("itertools", "batched"), ("dataclasses", "KW_ONLY"), ("enum", "StrEnum"),
    ("contextlib", "aclosing"), ("datetime", "UTC"), ("types", "NoneType"), ("types", "UnionType"),
    ("typing", "Self"), ("typing", "ParamSpec"), ("typing", "TypeAlias"), ("typing", "Never"), ("typing", "override"),
    ("inspect", "get_annotations"), ("sys", "exception"), ("asyncio", "TaskGroup"), ("asyncio", "timeout"),
}  # fmt: skip
TOO_NEW_KEYWORDS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only")}
TOO_NEW_MODULES = {"tomllib", "tomli"}
BUILTINS_TOO_NEW = {"aiter", "anext", "ExceptionGroup", "BaseExceptionGroup"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)}:{node.lineno} imports relative to itself"
            yield str(node.module)


def foreign(path: Path, ours: str) -> list[str]:
    """What a file imports that is neither the standard library nor below `ours`."""
    known = {*sys.stdlib_module_names, ours}
    return [m for m in imported(path) if m.split(".")[0] not in known and not f"{m}.".startswith(f"{ours}.")]


def test_the_import_contracts_are_kept() -> None:
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)


@pytest.mark.parametrize("path", inside(PELLUCID / "core", ".py"), ids=short)
def test_core_is_the_standard_library_alone(path: Path) -> None:
    assert foreign(path, "pellucid.core") == []


@pytest.mark.parametrize("path", inside(PROBE, ".py"), ids=short)
def test_the_probe_is_the_standard_library_alone(path: Path) -> None:
    """The engine's modules are named in strings, and looked up when the engine has loaded them."""
    allowed = ENGINE_NAMES if "/offline/" in short(path) else re.compile("$^")   # a child of its own, never serving
    assert [m for m in foreign(path, "pellucid_probe") if not allowed.match(m)] == []


def test_engines_are_named_in_their_own_places_only() -> None:
    texts = [p for p in inside(PELLUCID) if p.suffix in (".py", ".sql", ".toml")]
    assert len(texts) > 50
    others = [p for p in texts if not any(p.is_relative_to(f) for f in MAY_NAME_ENGINES)]
    named = {short(p): set(re.findall(r"\w*(?:vllm|sglang)\w*", p.read_text(), re.IGNORECASE)) for p in others}
    assert {name: words for name, words in named.items() if words - {FIELDS_OF_THE_ENGINES_API.get(name)}} == {}


@pytest.mark.parametrize("path", inside(PROBE, ".py"), ids=short)
def test_the_probe_can_be_read_by_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))
    assert list(too_new(parsed(path))) == []


def too_new(tree: ast.Module) -> Iterator[str]:
    """What parses under 3.9 and is not there, or means something else."""
    lazy = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" and n.names[0].name == "annotations"
               for n in tree.body)  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from (f"{node.lineno}: {name}({k.arg}=)" for k in node.keywords if (name, k.arg) in TOO_NEW_KEYWORDS)
        elif isinstance(node, ast.Attribute) and (getattr(node.value, "id", ""), node.attr) in TOO_NEW:
            yield f"{node.lineno}: {node.attr}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.lineno}: {a.name}" for a in node.names if (node.module, a.name) in TOO_NEW)
        elif isinstance(node, ast.Import):
            yield from (f"{node.lineno}: {a.name}" for a in node.names if a.name in TOO_NEW_MODULES)
        elif isinstance(node, ast.Name) and node.id in BUILTINS_TOO_NEW:
            yield f"{node.lineno}: {node.id}"
    evaluated = tree if not lazy else ast.Module([n for n in tree.body if isinstance(n, ast.Assign)], [])
    yield from ("X | Y at run time" for n in ast.walk(evaluated) if _is_union(n))


def _is_union(node: ast.AST) -> bool:
    """`X | None`, or a union of built-in types. (`a | b` of numbers and sets is fine and looks otherwise.)"""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.BitOr):
        return False
    types = {"int", "str", "bytes", "float", "bool", "list", "dict", "tuple", "set"}
    return any((isinstance(s, ast.Constant) and s.value is None) or getattr(s, "id", "") in types
               for s in (node.left, node.right))  # fmt: skip


@pytest.mark.parametrize("line", ["zip(a, b, strict=True)", "from itertools import pairwise", "import tomllib",
                                  "X = int | None", "def f(a: int | None): ...", "import typing\ntyping.Self"])
def test_what_is_too_new_is_noticed(line: str) -> None:
    assert list(too_new(ast.parse(line)))


def test_a_match_statement_is_too_new() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match a:\n    case 1: ...", feature_version=(3, 9))


def test_a_union_in_an_annotation_is_fine_where_annotations_stay_text() -> None:
    assert list(too_new(ast.parse("from __future__ import annotations\ndef f(a: int | None): ..."))) == []

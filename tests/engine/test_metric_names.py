"""The catalog's metric families and what the engines that are here define in their source. No engine is started.

    name="vllm:num_requests_running"            a name
    line.startswith("vllm:spec_decode")         none: the beginning of some
    f"vllm:{name}"                              names that are made elsewhere: `vllm:{…}`
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pellucid.catalog.load_series import find
from tools.real_engine import OLDER, PYTHON

PREFIX = "vllm:"
NAME = re.compile(PREFIX + "[a-z][a-z0-9_]*")     # and no `vllm::operator`, no sentence
# The KVCR tier takes its four names from a package of its own, which is on no index and in neither environment.
MADE_ELSEWHERE = {"vllm:{…}"}


def names_in(source: str) -> set[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            first = _text(node.values[0])
            found |= {first + "{…}"} if first.startswith(PREFIX) else set()
        elif NAME.fullmatch(_text(node)):
            found.add(_text(node))
        elif not _is_about_beginnings(node):
            waiting += ast.iter_child_nodes(node)
    return found


def _is_about_beginnings(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith"


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def defined(python: Path) -> set[str]:
    (folder,) = (python.parents[1] / "lib").glob("python3*/site-packages/vllm")
    sources = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {name for source in sources if PREFIX in source for name in names_in(source)}


@pytest.mark.parametrize(
    ("source", "names"),
    [('A = "vllm:a_total"', {"vllm:a_total"}), ('x = [("vllm:a", "x"), ("vllm:b", "y")]', {"vllm:a", "vllm:b"}),
     ('line.startswith("vllm:a")', set()), ('f"vllm:{name}"', {"vllm:{…}"}), ('f"vllm:a_{kind}_b"', {"vllm:a_{…}"}),
     ('"vllm::op"; "vllm:a is a metric"; "see vllm:a"', set())],
)  # fmt: skip
def test_names_are_told_from_beginnings_operators_and_sentences(source: str, names: set[str]) -> None:
    assert names_in(source) == names


@pytest.mark.parametrize(
    ("python", "least", "made_elsewhere"), [(PYTHON, 120, MADE_ELSEWHERE), (OLDER, 95, set())], ids=["0.32", "0.28"]
)
def test_every_family_that_an_engine_defines_has_a_place(python: Path, least: int, made_elsewhere: set[str]) -> None:
    names = defined(python)
    assert len(names) >= least
    assert names >= {"vllm:num_requests_running", "vllm:spec_decode_num_drafts", "vllm:kv_offload_tiering_write_bytes"}
    without = {name for name in names if not find(name)}
    assert len(without) <= 0.05 * len(names), sorted(without)
    assert without == made_elsewhere

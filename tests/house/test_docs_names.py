"""Pages name files, commands and code that exist."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from pellucid.core.settings import SETTINGS
from pellucid.surface.cli import parser
from tests.house.tree import ROOT, files, short

PAGES = [p for p in files() if p.suffix == ".md" and (p.parent == ROOT or p.is_relative_to(ROOT / "docs"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=short)
LIFE = ROOT / "docs/life_of_a_number.md"
PATH = re.compile(r"(?<![\w/.$~-])(?:probe|src|docs|tests|tools|bench)/[\w./*-]*\w")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMANDS = ("why|run|record|top|requests|steps|runs|doctor|load|profile|kernels|compare|export|classify|workload|"
            "trials|audit|replay|fidelity|predict")  # fmt: skip
COMMAND = re.compile(rf"(?:^|`| && )(pellucid (?:{COMMANDS})\b[^`\n]*)", re.MULTILINE)
VARIABLE = re.compile(r"\bPELLUCID_[A-Z_]+\b")
PROBE_VARIABLES = {"PELLUCID_DIR", "PELLUCID_OFF", "PELLUCID_DEPLOYMENT", "PELLUCID_RING_BYTES",
                   "PELLUCID_EXPERTS_EVERY", "PELLUCID_CAPTURE", "PELLUCID_CONTROL"}  # fmt: skip
PATTERN = re.compile(r"[*<…]|NNNN|\.\.\.")     # stands for many names


@every_page
def test_the_files_a_page_names_exist(page: Path) -> None:
    named = {n.rstrip("./") for n in PATH.findall(page.read_text()) if not PATTERN.search(n)}
    assert [n for n in sorted(named) if not (ROOT / n).exists()] == []


@every_page
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert [n for n in LINK.findall(page.read_text()) if not (page.parent / n).exists()] == []


def commands(text: str) -> Iterator[list[str]]:
    for command in COMMAND.findall(text):
        words = shlex.split(re.split(r"\s{2,}|[|&>)]|;| #|…", command)[0], comments=True)
        yield words[1:]


@every_page
def test_the_commands_of_a_page_are_accepted(page: Path) -> None:
    assert [(c, fault) for c in commands(page.read_text()) if (fault := refused(c))] == []


def refused(words: list[str]) -> str:
    """What the parser has against a command; "" for nothing. Metavariables are filled in; a name alone is a mention."""
    filled = [re.sub(r"^[A-Z]+$", "1", w) for w in words] if len(words) > 1 else [*words, "--help"]
    err = io.StringIO()
    with redirect_stderr(err), redirect_stdout(io.StringIO()):
        try:
            parser(filled[0]).parse_args(filled)
        except SystemExit as end:
            return err.getvalue() if end.code else ""
    return ""


def test_a_command_that_does_not_exist_is_noticed() -> None:
    (words,) = commands("run `pellucid why --reqest ID` now")
    assert "unrecognized arguments: --reqest" in refused(words)


@every_page
def test_the_variables_of_a_page_are_read_somewhere(page: Path) -> None:
    known = {s.env for s in SETTINGS} | PROBE_VARIABLES
    assert set(VARIABLE.findall(page.read_text())) - known == set()


def stations() -> list[tuple[str, set[str]]]:
    """(file, names said of it) for each heading of the life of a number that is a file."""
    found = []
    for section in re.split(r"^## ", LIFE.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        path = re.search(r"`([\w./]+)`", heading)
        if path:
            found.append((path[1], set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", body))))
    return found


def test_the_life_of_a_number_goes_from_the_engine_to_the_screen() -> None:
    names = [path for path, _ in stations()]
    assert names[0].startswith("probe/") and names[-1].startswith("src/pellucid/surface/cli")
    assert len(names) >= 12


@pytest.mark.parametrize(("path", "names"), stations(), ids=lambda v: v if isinstance(v, str) else "")
def test_every_name_said_of_a_file_is_in_it(path: str, names: set[str]) -> None:
    text = (ROOT / path).read_text()
    assert names
    assert [n for n in names if not re.search(rf"\b{re.escape(n.rsplit('.', 1)[-1])}\b", text)] == []


def test_decisions_and_log_entries_are_numbered_without_gaps() -> None:
    for folder in ("decisions", "log"):
        numbers = sorted(int(p.name[:4]) for p in (ROOT / "docs" / folder).glob("[0-9]*.md"))
        assert numbers == list(range(1, len(numbers) + 1)) != []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=short)
def test_a_decision_says_what_would_change_our_mind(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
    assert headings == ["Context", "Decision", "What would change our mind"]


@pytest.mark.parametrize(("name", "limit"), [("STYLE.md", 120), ("AGENTS.md", 80)])
def test_short_pages_stay_short(name: str, limit: int) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= limit

from __future__ import annotations

import re
from pathlib import Path

from pellucid.catalog.load import metrics
from pellucid.diagnose.registry import all_rules, rule_files
from tools.gen_docs import REFERENCE, differences, pages

DEFINITIONS = REFERENCE.parent / "definitions.md"


def test_the_reference_pages_are_those_of_the_code() -> None:
    assert differences(REFERENCE, pages()) == [], "run tools/gen_docs.py"


def test_a_changed_page_is_noticed(tmp_path: Path) -> None:
    for name, text in pages().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert differences(tmp_path, pages()) == []
    (tmp_path / "metrics.md").write_text("x")
    (tmp_path / "rules" / "old.rule.md").write_text("x")
    assert differences(tmp_path, pages()) == ["metrics.md", "rules/old.rule.md"]


def test_every_metric_is_defined() -> None:
    text = DEFINITIONS.read_text()
    assert [name for name in metrics() if f"`{name}`" not in text] == []


def test_every_source_a_limit_names_is_listed() -> None:
    text = DEFINITIONS.read_text()
    named = {s for p in rule_files() for s in re.findall(r"source (S\d)", p.read_text())}
    assert named
    assert [s for s in named if f"**{s}**" not in text] == []


def test_every_page_shows_all_limits() -> None:
    made = pages()
    for rule in all_rules():
        assert all(limit.because in made[f"rules/{rule.id}.md"] for limit in rule.limits)

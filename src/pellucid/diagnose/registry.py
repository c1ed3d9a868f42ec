"""All rules: the folder is the list. `rules/kv/preemption_storm.py` holds `kv.preemption_storm`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from pellucid.diagnose.rule import Rule

FOLDER = Path(__file__).parent / "rules"


def rule_files() -> list[Path]:
    return sorted(p for p in FOLDER.glob("*/*.py") if p.name != "__init__.py")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of their ids."""
    names = (f"pellucid.diagnose.rules.{p.parent.name}.{p.stem}" for p in rule_files())
    return tuple(import_module(name).RULE for name in names)

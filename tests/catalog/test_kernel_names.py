from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.catalog.kernels.names_of import NAMES, categories, ops, read_ops, read_rules, rules, words
from tests.conftest import shared_data
from tests.trace.kernel_corpus import corpus

LONGEST_PHRASE = 60


def test_every_category_has_a_meaning_and_a_rule() -> None:
    assert all(categories().values())
    assert [name for name, listed in rules().items() if not listed] == []


def test_the_categories_are_those_of_the_corpus() -> None:
    assert {known.category for known in corpus()} == set(categories())


def test_no_name_is_listed_as_a_whole() -> None:
    """Rules are about words; a name spelled out would be an answer looked up."""
    phrases = {text for listed in rules().values() for rule in listed for text in rule.name}
    assert [text for text in phrases if len(text) > LONGEST_PHRASE] == []
    text = "".join(path.read_text() for path in NAMES.glob("*.toml")).lower()
    assert [known.name for known in corpus() if len(known.name) > 30 and known.name.lower() in text] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("[[norms]]\nrank = 50\nname = ['norm']", "norms is in no line of categories.toml"),
     ("[[norm]]\nrank = 50\nname = []", "Expected `array` of length >= 1"),
     ("[[norm]]\nrank = 100\nname = ['norm']", "Expected `int` <= 99"),
     ("[[norm]]\nrank = 50\nnames = ['norm']", "Object contains unknown field `names`")],
)  # fmt: skip
def test_a_wrong_rule_is_refused_with_the_files_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.toml") as error:
        read_rules(path)
    assert said in str(error.value)


def test_an_operator_over_an_unknown_category_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[[op]]\ncategory = 'copy'\nname = ['aten copy']\nover = ['elementwice']")
    with pytest.raises(ValueError, match=r"mine\.toml: elementwice is in no line"):
        read_ops(path)


def test_operators_decide_over_kernels_that_do_many_kinds_of_work_only() -> None:
    shared = {"elementwise", "reduce", "copy", "index", "sort_scan", "quant", "inductor_fused", "gemm", "conv", "other"}
    assert {category for op in ops() for category in op.over} <= shared


def test_words_are_spelled_one_way() -> None:
    """What a word is replaced by must not be replaced again: a rule could not be written for it."""
    same = words().same
    assert [word for word, whole in same.items() if any(same.get(w, w) != w for w in whole.split())] == []


def test_the_corpus_is_there() -> None:
    assert shared_data("kernel_names/kernels.jsonl").stat().st_size > 0
    assert len(corpus()) > 1000

"""Of JSON that is cut or damaged, what is whole is found, and no more."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.workload.documents.cut import decoded, documents, top_keys, whole

LISTS = frozenset((b"spans",))
TEXT = json.dumps({"x": {"spans": [{"a": '}]"{', "b": [{"c": 1}]}, {"a": "\\", "b": []}]}, "y": [1]}).encode()


def spans(text: bytes) -> list[object]:
    found, _ = decoded(text, dict, LISTS)
    listed: list[object] = (found or {}).get("x", {}).get("spans", [])
    return listed


def test_a_text_cut_anywhere_gives_its_whole_elements() -> None:
    wanted = json.loads(TEXT)["x"]["spans"]
    ends = [TEXT.index(b', {"a": "\\\\"'), TEXT.index(b']}, "y"')]
    for size in range(len(TEXT)):
        assert spans(TEXT[:size]) == wanted[: sum(size >= end for end in ends)]
    assert spans(TEXT) == wanted


def test_what_comes_after_damage_is_not_taken() -> None:
    damaged = TEXT.replace(b'"c": 1', b'"c": x')
    assert (spans(damaged), decoded(damaged, dict, LISTS)[1]) == ([], False)
    damaged = TEXT.replace(b"[1]", b"[x]")
    assert (len(spans(damaged)), decoded(damaged, dict, LISTS)[1]) == (2, False)


def test_pythons_nan_is_null_and_no_damage() -> None:
    assert decoded(b'{"spans": [NaN, 1]}', dict, LISTS) == ({"spans": [None, 1]}, True)


@pytest.mark.parametrize("text", [b"", b"x", b'{"a": ', b"[" * 100_000, b'{"a": 1}]', b"9" * 5000 + b"x"])
def test_what_has_no_list_gives_nothing(text: bytes) -> None:
    assert decoded(text, dict, LISTS) == (None, False)


@given(st.binary(max_size=60))
def test_documents_are_all_of_the_text(text: bytes) -> None:
    assert b"".join(documents(text)).strip() == text.strip()


@given(st.text(alphabet='{}[]":,\\s pan1', max_size=60))
def test_what_is_whole_has_its_brackets_closed(text: str) -> None:
    found = whole(text.encode(), LISTS)
    assert top_keys(found) <= top_keys(text.encode())
    assert found == b"" or found.endswith((b"}", b"]"))


def test_documents_stand_one_after_another() -> None:
    assert [d.strip() for d in documents(b'{"a": "}"}{"b": {}}\n {"c"')] == [b'{"a": "}"}', b'{"b": {}}', b'{"c"']


def test_keys_are_those_of_the_first_object() -> None:
    assert top_keys(b'{"a": {"b": "c"}, "d" : ["e"], "f": "g"} {"h": 1}') == {"a", "d", "f"}
    assert top_keys(b'[{"a": 1}]') == set()

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.tune.journal import Entry, Head, against_head, head_text, line, read, read_head

texts = st.text(st.characters(codec="utf-8"), max_size=12)
payloads = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-2**63, 2**63) | texts
                           | st.floats(allow_nan=False, allow_infinity=False), max_size=3)  # fmt: skip
journals = st.lists(payloads, min_size=1, max_size=6)


def written(made: list[dict[str, Any]]) -> tuple[bytes, list[Entry]]:
    data, entries = b"", list[Entry]()
    for n, payload in enumerate(made):
        text, entry = line(entries[-1] if entries else None, "x", payload, 100 + n, n)
        data += text
        entries.append(entry)
    return data, entries


THREE, ENTRIES = written([{"a": 1}, {"b": 2}, {"c": 3}])
LINES = THREE.splitlines(keepends=True)


@given(journals)
def test_what_was_written_is_read(made: list[dict[str, Any]]) -> None:
    data, entries = written(made)
    reading = read(data)
    assert (list(reading.entries), reading.breaks, reading.torn_bytes) == (entries, (), 0)


@given(journals, st.data())
def test_every_beginning_of_a_journal_reads_up_to_its_last_whole_line(made: list[dict[str, Any]], data: Any) -> None:
    text, entries = written(made)
    cut = data.draw(st.integers(0, len(text)))
    reading = read(text[:cut])
    whole = text[:cut].count(b"\n")
    assert (list(reading.entries), reading.breaks) == (entries[:whole], ())
    assert reading.whole_bytes + reading.torn_bytes == cut


@given(journals, st.data())
def test_a_byte_that_was_changed_is_seen(made: list[dict[str, Any]], data: Any) -> None:
    text, entries = written(made)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = bytearray(text)
    changed[place] ^= data.draw(st.integers(1, 255))
    reading = read(bytes(changed))
    last = entries[-1]
    assert reading.breaks or reading.torn_bytes or against_head(reading, Head(last.seq, last.hash))


@pytest.mark.parametrize(("lines", "at", "says"), [
    ([0, 2], 2, "it is entry 2 where entry 1 should be"), ([1, 2], 1, "it is entry 1 where entry 0 should be"),
    ([0, 2, 1], 2, "where entry 1"), ([0, 1, 1], 3, "it is entry 1 where entry 2"),
])  # fmt: skip
def test_lines_that_were_cut_out_or_moved_break_the_chain_there(lines: list[int], at: int, says: str) -> None:
    reading = read(b"".join(LINES[n] for n in lines))
    assert (reading.breaks[0].line, says in reading.breaks[0].says) == (at, True)


def test_a_line_that_was_replaced_with_a_right_hash_of_its_own_does_not_fit_what_follows() -> None:
    forged, _ = line(ENTRIES[0], "x", {"b": 9}, 101, 1)
    (found,) = read(LINES[0] + forged + LINES[2]).breaks
    assert (found.line, found.says) == (3, "it does not follow the line before")


def test_what_is_behind_a_break_is_read_all_the_same() -> None:
    reading = read(LINES[0] + b"garbage\n" + LINES[2])
    assert ([e.seq for e in reading.entries], [b.line for b in reading.breaks]) == ([0, 2], [2])


def test_an_end_that_was_cut_off_is_told_by_the_head() -> None:
    head = read_head(head_text(ENTRIES[2]))
    assert against_head(read(THREE), head) is None
    cut = against_head(read(LINES[0]), head)
    assert cut is not None and "entries up to 2 were written and the last one here is 0" in cut.says
    none = against_head(read(b""), head)
    assert none is not None and "the last one here is none" in none.says


def test_a_writer_that_died_before_the_head_left_one_line_more() -> None:
    behind = Head(1, ENTRIES[1].hash)
    assert against_head(read(THREE), behind) is None
    assert against_head(read(THREE), Head(0, ENTRIES[0].hash)) is not None
    assert against_head(read(LINES[0]), None) is None
    assert against_head(read(THREE), None) is not None


def test_a_head_of_another_journal_is_noticed_and_one_that_does_not_read_is_none() -> None:
    other = against_head(read(THREE), Head(2, "0" * 64))
    assert other is not None and "another journal" in other.says
    assert [read_head(t) for t in ("", "x y", "3", "3 abc")] == [None] * 4


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        line(None, "x", {"a": float("nan")}, 1, 1)

"""Prefixes, levels, times and colours, as engines, launchers and libraries write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.collect.logs.line import Stamp, line, lines

NOON = Stamp(None, 11, 29, 43_200 * 10**9)
DATED = Stamp(2025, 12, 12, 43_200 * 10**9)


@pytest.mark.parametrize(("raw", "wanted"), [
    ("INFO 11-29 12:00:00 [api.py:7] Text", (None, None, "info", NOON, "Text")),
    ("(EngineCore pid=9) INFO 11-29 12:00:00 [api.py:7] Text", ("EngineCore-9", None, "info", NOON, "Text")),
    ("(EngineCore_DP1 pid=9) ERROR 11-29 12:00:00 [api.py:7]   File", ("EngineCore_DP1-9", 1, "error", NOON, "  File")),
    ("\x1b[36m(Replica:a:B pid=1)\x1b[0m \x1b[1;36m(Worker TP0 pid=2)\x1b[0;0m WARNING 11-29 12:00:00 [a.py:1] Text",
     ("Worker_TP0-2", None, "warning", NOON, "Text")),
    ("[36m(Worker rank=3 pid=2)[0m INFO 11-29 12:00:00 scheduler.py:1141] Text",
     ("Worker-2", None, "info", NOON, "Text")),
    ("[2025-12-12 12:00:00] Text", (None, None, None, DATED, "Text")),
    ("[2025-12-12 12:00:00 DP2 TP1] Text", ("DP2_TP1", 2, None, DATED, "Text")),
    ("[2025-12-12 12:00:00] INFO:     Text", (None, None, "info", DATED, "Text")),
    ("[2025-12-12 12:00:00,500] Cache WARNING: Text",
     (None, None, "warning", Stamp(2025, 12, 12, 43_200_500_000_000), "Text")),
    ("2025-12-12 12:00:00,000 - INFO - tuner.py:6 - Text", (None, None, "info", DATED, "Text")),
    ("2025-12-12T12:00:00.000Z ERROR router::core: Text", (None, None, "error", DATED, "Text")),
    ("2025-12-12T12:00:01.5Z stderr F INFO 11-29 12:00:00 [a.py:1] Text", (None, None, "info", NOON, "Text")),
    ("[W1129 12:00:00.000000000 socket.cpp:207] Text", (None, None, "warning", NOON, "Text")),
    ("(Wrapper pid=4) [rank1]:[E Group.cpp:563] Text", ("Wrapper-4", None, "error", None, "Text")),
    ("(API pid=4) INFO:     Text", ("API-4", None, "info", None, "Text")),
    ("INFO router::scheduler: Text", (None, None, "info", None, "Text")),
    ('{"timestamp":"x","level":"WARN","fields":{"message":"Text"}}', (None, None, "warning", None, "Text")),
    ('{"level":"ERROR","message":"Text"}', (None, None, "error", None, "Text")),
    ("(pid=12) Text", ("pid-12", None, None, None, "Text")),
    ("Text", (None, None, None, None, "Text")),
    ("(a=1) Text [1, 2]", (None, None, None, None, "(a=1) Text [1, 2]")),
    ("{not json", (None, None, None, None, "{not json")),
])  # fmt: skip
def test_a_line_is_taken_apart(raw: str, wanted: tuple[Any, ...]) -> None:
    found = line(raw, 1)
    assert (found.process, found.dp_rank, found.level, found.stamp, found.text) == wanted


def test_what_a_launcher_folded_is_counted() -> None:
    found = line("(W pid=1) INFO 11-29 12:00:00 [a.py:1] Text\x1b[32m [repeated 3x across cluster] (dedup …)\x1b[0m", 1)
    assert (found.text, found.repeats) == ("Text", 3)


def test_a_progress_bar_is_several_lines_with_one_number() -> None:
    found = list(lines("(W pid=1) Loading 10%\rLoading 90%\r\n", 7))
    assert [(f.text, f.number, f.cut) for f in found] == [("Loading 10%", 7, False), ("Loading 90%", 7, False)]


def test_the_end_of_a_file_within_a_line_is_noticed() -> None:
    assert [f.cut for f in lines("half a li", 1)] == [True]
    assert [f.cut for f in lines("x" * 70_000 + "\n", 1)] == [True]


@given(st.text(max_size=200))
def test_any_text_is_a_line(raw: str) -> None:
    assert all(isinstance(found.text, str) for found in lines(raw, 1))

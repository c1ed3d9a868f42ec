"""Traces that are not whole: what is whole is read, what is not is said, and nothing else happens."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from pellucid.core.errors import PellucidError
from pellucid.trace import detect
from pellucid.trace.redact import LONGEST_CHARACTERS
from pellucid.trace.timeline import Timeline
from tests.conftest import shared_data
from tests.trace.torch_profiler.written import HEAD, Event, call, kernel, loaded, op, ran, text

GOOD = [kernel("a", ts=1), kernel("b", ts=2), kernel("c", ts=3)]
NO_JSON = "an event is no JSON"
DEEP = '{"ph": "X", "cat": "kernel", "name": "d", "ts": 2, "dur": 1, "args": ' + "[" * 100_000 + "]" * 100_000 + "}"
BAD_TIME = "an event has no start, no duration or one below zero"

# What stands between two good kernels → (names that are read, events lost, what is said)
CASES: dict[str, tuple[str, list[str], int, tuple[str, ...]]] = {
    "a raw control character": (json.dumps(kernel("x\1y", ts=2)).replace("\\u0001", "\1"), ["a", "x y", "c"], 0,
                                ("a text holds control characters",)),
    "a raw newline in a name": (json.dumps(kernel("x\ny", ts=2)).replace("\\n", "\n"), ["a", "x y", "c"], 0, ()),
    "unescaped quotes in a name": ('{"ph": "X", "cat": "kernel", "name": "f["x"]", "pid": 0, "tid": 7, "ts": 2, '
                                   '"dur": 1}', ["a", 'f["x"]', "c"], 0, ()),
    "NaN": ('{"ph": "X", "cat": "kernel", "name": "n", "ts": 2, "dur": 1, "args": {"occupancy": NaN, "x": -Infinity}}',
            ["a", "n", "c"], 0, ("NaN or Infinity stands where JSON has no number",)),
    "NaN as a time": ('{"ph": "X", "cat": "kernel", "name": "n", "ts": NaN, "dur": 1}', ["a", "c"], 1,
                      ("NaN or Infinity stands where JSON has no number", BAD_TIME)),
    "an integer beyond int64": (json.dumps(kernel("big", ts=2, correlation=2**70, stream=2**64)),
                                ["a", "big", "c"], 0, ()),
    "a time beyond int64": (json.dumps(kernel("big", ts=2**70)), ["a", "c"], 1, (BAD_TIME,)),
    "a float beyond float64": (json.dumps(kernel("f", ts=2)).replace('"ts": 2', '"ts": 1e999'), ["a", "c"], 1,
                               (BAD_TIME,)),
    "no duration": ('{"ph": "X", "cat": "kernel", "name": "n", "ts": 2}', ["a", "c"], 1, (BAD_TIME,)),
    "no args": ('{"ph": "X", "cat": "kernel", "name": "n", "ts": 2, "dur": 1}', ["a", "n", "c"], 0, ()),
    "null args": ('{"ph": "X", "cat": "kernel", "name": "n", "ts": 2, "dur": 1, "args": null}',
                  ["a", "n", "c"], 0, ()),
    "a negative duration": (json.dumps(kernel("n", ts=2, dur=-1)), ["a", "c"], 1, (BAD_TIME,)),
    "a duration of zero": (json.dumps(kernel("z", ts=2, dur=0)), ["a", "z", "c"], 0, ()),
    "a key twice": ('{"ph": "X", "cat": "kernel", "name": "old", "name": "new", "ts": 2, "dur": 1}',
                    ["a", "new", "c"], 0, ()),
    "types of other kinds": ('{"ph": "X", "cat": "kernel", "name": "t", "ts": "2.5", "dur": "1", "pid": 1.5, '
                             '"args": {"stream": "default", "correlation": 1e2, "grid": "4x1"}}',
                             ["a", "t", "c"], 0, ()),
    "an event cut in the middle": ('{"ph": "X", "cat": "kernel", "name": "cut", "ts"', ["a", "c"], 1, (NO_JSON,)),
    "no event": ("17", ["a", "c"], 1, (NO_JSON,)),
    "args nested deep": (DEEP, ["a", "c"], 1, (NO_JSON,)),
    "half of a surrogate pair": (json.dumps(kernel("s\ud800", ts=2)), ["a", "c"], 1, (NO_JSON,)),
    "an end without its begin": ('{"ph": "B", "cat": "kernel", "name": "n", "ts": 2}', ["a", "c"], 1,
                                 ("begin and end of a range stand apart: they are not joined",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_bad_event_does_not_take_others_with_it(tmp_path: Path, case: str) -> None:
    between, names, lost_count, said = CASES[case]
    found = loaded(tmp_path, text([GOOD[0], between, GOOD[2]]))
    assert ran(found) == names
    assert (found.about.damaged_count, found.about.damage) == (lost_count, said)
    assert (found.about.rank, found.about.wall_zero_ns) == (3, 1790857026000000000)


def test_invalid_utf8_in_a_name(tmp_path: Path) -> None:
    found = loaded(tmp_path, text(GOOD).encode().replace(b'"b"', b'"b\xff\xfe"'))
    assert ran(found) == ["a", "b\ufffd\ufffd", "c"]
    assert found.about.damage == ("a text is not UTF-8",)


def test_invalid_utf8_where_nobody_looks_costs_nothing(tmp_path: Path) -> None:
    found = loaded(tmp_path, text(GOOD).encode().replace(b'"device": 0', b'"x": "\xff", "device": 0'))
    assert (ran(found), found.about.damage) == (["a", "b", "c"], ())


def test_a_huge_name_is_cut_and_kept(tmp_path: Path) -> None:
    found = loaded(tmp_path, text([kernel("n" * 3_000_000), *GOOD]))
    assert sorted(map(len, ran(found))) == [1, 1, 1, LONGEST_CHARACTERS + 1]


def test_many_bad_events_are_counted(tmp_path: Path) -> None:
    good = [kernel(f"k{i}", ts=i) for i in range(5000)]
    mixed: list[Event | str] = []
    for i, event in enumerate(good):
        mixed += [event, '{"ph": "X", "na'] if i % 5 == 0 else [event]
    found = loaded(tmp_path, text(mixed))
    assert (found.count(), found.about.damaged_count) == (5000, 1000)
    assert found.about.damage == ("an event is no JSON (1000 times)",)


@pytest.mark.parametrize(("content", "said"), [
    (text(GOOD)[: text(GOOD).index('"c"')], ("an event is no JSON", "the file ends before its list of events does")),
    (text(GOOD)[: text(GOOD).rindex("]")], ("the file ends before its list of events does",)),
    (json.dumps(HEAD)[:-1] + ', "traceEvents": [', ("the file ends before its list of events does",)),
    (json.dumps(HEAD)[:-1], ("the file ends before its list of events",)),
    (gzip.compress(text(GOOD).encode())[:-9], ("the packed file ends early: what could be unpacked was read",)),
])  # fmt: skip
def test_a_file_that_ends_early_says_so(tmp_path: Path, content: str | bytes, said: tuple[str, ...]) -> None:
    assert loaded(tmp_path, content).about.damage == said


def test_a_damaged_tail_does_not_hide_the_events(tmp_path: Path) -> None:
    found = loaded(tmp_path, text(GOOD)[:-20] + '"baseTimeNanoseconds": 77, }')
    assert (ran(found), found.about.wall_zero_ns, found.about.rank) == (["a", "b", "c"], 1790857026000000000, 3)
    assert found.about.damage == ("what stands around the events is no JSON",)


def kernels_count(path: Path, content: bytes) -> int | None:
    """None where the file is refused."""
    path.write_bytes(content)
    try:
        found = detect.load(path)
    except PellucidError:
        return None
    assert isinstance(found, Timeline)
    return found.count()


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mi300_sglang_qwen3-8b_decode.json.gz", "h100_nsfw-vit_hf.json.gz"])
def test_the_longer_the_file_the_more_kernels(tmp_path: Path, name: str, packed: bool) -> None:
    raw = shared_data(f"torch_traces/{name}").read_bytes()
    whole = raw if packed else gzip.decompress(raw)
    pick = random.Random(name)
    cuts = sorted({0, 1, 2, 10, 700, len(whole) - 1, *(pick.randrange(len(whole)) for _ in range(60))})
    counts = [kernels_count(tmp_path / "t", whole[:cut]) for cut in [*cuts, len(whole)]]
    read = [count for count in counts if count is not None]
    assert counts[0] is None and len(read) > 50
    assert read == sorted(read) and read[0] == 0
    assert read[-1] == {"mi300_sglang_qwen3-8b_decode.json.gz": 555, "h100_nsfw-vit_hf.json.gz": 154}[name]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_damage_raises_anything_but_our_errors(tmp_path: Path, seed: int) -> None:
    """Bytes overwritten, cut out and repeated in a real trace. Few kernels are lost."""
    name = "torch_traces/mi300_vllm_decode_full_graph_execution.json.gz"
    raw = bytearray(gzip.decompress(shared_data(name).read_bytes()))
    pick = random.Random(seed)
    for _ in range(20):
        at, length = pick.randrange(len(raw)), pick.randrange(1, 30)
        twice = bytes(raw[at:at + length]) * 2
        raw[at:at + length] = pick.choice([pick.randbytes(length), b"", twice, b'"', b"]}", b"{["])
    count = kernels_count(tmp_path / "t.json", bytes(raw))
    assert count is None or 380 <= count <= 430


@pytest.mark.parametrize("content", [
    b"", b" \n ", random.Random(1).randbytes(5000), b"\x1f\x8b" + bytes(50), b"{" * 5000, b"\0" * 600,
])  # fmt: skip
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    assert kernels_count(tmp_path / "t.json", content) is None


def test_an_event_across_blocks_is_not_lost(tmp_path: Path) -> None:
    """Objects in args have seams in them: a block may be cut there."""
    many = [kernel(f"k{i}", ts=i, more=[{"name": "x" * 90}, {"ts": 1}, {"ph": "X"}]) for i in range(6000)]
    found = loaded(tmp_path, text([op(), call(), *many]))
    assert (found.count(), found.about.damage) == (6000, ())

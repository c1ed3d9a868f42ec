"""The engine core's packing: numbers hold as long as a batch needs them, frames are deltas that can be read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pellucid_probe import records
from pellucid_probe.vllm.packing import KEPT_STEPS, Packer


class Status(Enum):
    FINISHED_LENGTH_CAPPED = 1


@dataclass
class New:
    req_id: str
    num_computed_tokens: int = 0


@dataclass
class Cached:
    req_ids: list[str] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)
    resumed_req_ids: set[str] = field(default_factory=set)


@dataclass
class Plan:
    num_scheduled_tokens: dict[str, int]
    scheduled_new_reqs: list[New] = field(default_factory=list)
    scheduled_cached_reqs: Cached = field(default_factory=Cached)
    finished_req_ids: set[str] = field(default_factory=set)
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


def add(packer: Packer, request_id: str) -> int:
    (kind, payload), = packer.added({"i": request_id, "t": 1, "h": None})
    assert kind == records.ADD
    return int(records.unpack_json(payload)["r"])


def free(packer: Packer, request_id: str) -> int:
    (kind, payload), = packer.freed((request_id, 1, 0, 2, 3, 4, Status.FINISHED_LENGTH_CAPPED))
    assert kind == records.FINISH
    freed = records.unpack_finish(payload)
    assert freed[1:] == (1, 0, 2, 3, 4, "length")
    return freed.request


def head(number: int, plan: Plan) -> tuple[int, ...]:
    fields = dict.fromkeys(records.Step._fields[:-1], 7)
    fields |= {"step": number, "requests": len(plan.num_scheduled_tokens), "tokens": plan.total_num_scheduled_tokens}
    return tuple(fields.values())


def step(packer: Packer, number: int, plan: Plan, full: bool = False) -> tuple[list[records.Admit], records.Step]:
    *admits, last = packer.step((head(number, plan), plan, {}, full))
    assert [kind for kind, _ in admits] == [records.ADMIT] * len(admits)
    assert last[0] == records.STEP
    return [records.unpack_admit(payload) for _, payload in admits], records.unpack_step(last[1])


class Reader:
    """Members as a reader of the frames has them."""

    def __init__(self) -> None:
        self.members: list[int] = []

    def read(self, seen: records.Step) -> list[int]:
        change = records.read_members(seen)
        before = [] if change.whole else self.members
        self.members = [n for n in before if n not in change.left] + change.joined
        return self.members


def test_a_request_freed_in_a_steps_update_keeps_its_number_in_that_step_and_in_one_in_flight() -> None:
    packer, reader = Packer(b"k" * 32), Reader()
    a, b = add(packer, "a"), add(packer, "b")
    reader.read(step(packer, 1, Plan({"a": 5, "b": 7}, [New("a"), New("b")]))[1])
    assert free(packer, "b") == b
    for number in (2, 3):
        assert reader.read(step(packer, number, Plan({"b": 1, "a": 1}))[1]) == [b, a]
    assert reader.read(step(packer, 4, Plan({"b": 2, "a": 1, "c": 1}))[1])[:2] == [b, a]


def test_a_number_is_forgotten_after_a_while_and_an_id_that_comes_again_is_another_request() -> None:
    packer = Packer(b"k" * 32)
    first = add(packer, "a")
    step(packer, 1, Plan({"a": 5}, [New("a")]))
    free(packer, "a")
    second = add(packer, "a")
    assert second != first
    for number in range(2, KEPT_STEPS + 9):
        step(packer, number, Plan({"a": 1}))
    assert packer._numbers == {"a": second}
    free(packer, "a")
    for number in range(20, 20 + KEPT_STEPS + 3):
        step(packer, number, Plan({"x": 1}))
    assert "a" not in packer._numbers


SAME, MOVED, FULL = records.SAME, records.MOVED, records.FULL


def test_a_number_holds_after_steps_that_were_told_as_before() -> None:
    """Such steps do not come here: the last one that did is long past when a request is freed."""
    packer, reader = Packer(b"k" * 32), Reader()
    numbers = {name: add(packer, name) for name in "abc"}
    reader.read(step(packer, 1, Plan(dict.fromkeys("abc", 1)))[1])
    free(packer, "a")
    free(packer, "b")       # while step 50 is computed: it is still a member of it
    left = Plan(dict.fromkeys("bc", 1), finished_req_ids={"a"})
    assert reader.read(step(packer, 50, left)[1]) == [numbers["b"], numbers["c"]]
    assert reader.read(step(packer, 51, Plan({"c": 1}, finished_req_ids={"b"}))[1]) == [numbers["c"]]


@pytest.mark.parametrize(("counts", "gone", "mode"), [
    ({"a": 1, "b": 1, "c": 1}, "", SAME + records.ONES), ({"a": 255, "b": 1, "c": 1}, "", SAME + records.BYTES),
    ({"a": 256, "b": 1, "c": 1}, "", SAME + records.WORDS),
    ({"b": 1, "c": 1}, "a", MOVED + records.ONES), ({"b": 1, "c": 1, "d": 9}, "ax", MOVED + records.BYTES),
    ({"b": 1, "d": 300}, "ac", MOVED + records.WORDS), ({"d": 1}, "abc", MOVED + records.ONES),
    ({"a": 1, "b": 1, "c": 1, "d": 2, "e": 1}, "", MOVED + records.BYTES),
    ({"b": 1, "a": 1, "c": 1}, "", FULL + records.WORDS),       # another order
    ({"a": 1, "c": 1}, "", FULL + records.WORDS),               # not scheduled, though it did not end
    ({"b": 1, "a": 1}, "a", FULL + records.WORDS),              # ended, and is there again
])  # fmt: skip
def test_a_frame_is_the_smallest_that_tells_the_batch(counts: dict[str, int], gone: str, mode: int) -> None:
    packer, reader = Packer(b"k" * 32), Reader()
    numbers = {name: add(packer, name) for name in "abcdex"}
    reader.read(step(packer, 1, Plan({"a": 9, "b": 9, "c": 9}))[1])
    _, seen = step(packer, 2, Plan(counts, finished_req_ids=set(gone)))
    assert seen.mode == mode
    assert reader.read(seen) == [numbers[name] for name in counts]
    assert (records.read_counts(seen) or [1] * len(counts)) == list(counts.values())


@given(st.data())
def test_a_reader_follows_any_sequence_of_batches(data: st.DataObject) -> None:
    packer, reader = Packer(b"k" * 32), Reader()
    numbers = {name: add(packer, name) for name in "abcdefgh"}
    for number in range(1, 12):
        names = data.draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
        finished = data.draw(st.sets(st.sampled_from("abcdefgh")))
        counts = {name: data.draw(st.sampled_from([1, 1, 1, 2, 255, 256, 70_000])) for name in names}
        _, seen = step(packer, number, Plan(counts, finished_req_ids=finished), full=data.draw(st.booleans()))
        assert reader.read(seen) == [numbers[name] for name in names]
        assert (records.read_counts(seen) or [1] * len(names)) == list(counts.values())


def test_everybody_is_listed_when_asked() -> None:
    packer = Packer(b"k" * 32)
    step(packer, 1, Plan({"a": 1}))
    assert step(packer, 2, Plan({"a": 1}), full=True)[1].mode == FULL + records.WORDS
    assert step(packer, 3, Plan({"a": 1}))[1].mode == SAME + records.ONES


def test_admissions_come_before_their_step_with_what_was_found_computed() -> None:
    packer = Packer(b"k" * 32)
    a, b = add(packer, "a"), add(packer, "b")
    admits, _ = step(packer, 1, Plan({"a": 5, "b": 5}, [New("a", 16)], Cached(["b"], [32], {"b"})))
    assert admits == [records.Admit(a, 0, 1, 16), records.Admit(b, 1, 1, 32)]


@dataclass
class Output:
    request_id: str
    new_token_ids: list[int]


@dataclass
class Outputs:
    outputs: list[Output]


def test_drafts_are_told_by_request_before_their_step() -> None:
    packer = Packer(b"k" * 32)
    a, b = add(packer, "a"), add(packer, "b")
    plan = Plan({"a": 4, "b": 1}, scheduled_spec_decode_tokens={"a": [1, 2, 3]})
    result = {0: Outputs([Output("a", [5, 6])]), 1: Outputs([Output("b", [7])])}
    spec, last = packer.step((head(1, plan), plan, result, False))
    assert spec[0] == records.SPEC
    assert records.unpack_spec(spec[1]) == [(a, 3, 2)]
    seen = records.unpack_step(last[1])
    assert (seen.outputs, seen.drafts, seen.accepted) == (3, 3, 1)
    assert b == 2


def test_the_first_blocks_hash_is_keyed() -> None:
    added = [Packer(key).added({"i": "a", "h": b"block"}) for key in (b"1" * 32, b"2" * 32)]
    first, second = (records.unpack_json(found[0][1])["h"] for found in added)
    assert first != second
    assert len(first) == 16

"""On recordings of real engines: the twin says what was measured, and moves the way the engine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.sim.predict import Value
from pellucid.verbs.predict.check import check
from pellucid.verbs.predict.what_if import Answer, Asked, Wish, what_if

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def capped() -> Answer:
    return what_if(GOLDEN / "sequence-cap", Wish(("max_num_seqs=16",)))


def of(asked: Asked, name: str) -> Value:
    value = asked.predicted.measures[name]
    assert value is not None
    return value


@pytest.mark.parametrize(("run", "preempted"), [("healthy", 0), ("sequence-cap", 0), ("token-budget", 0),
                                                ("long-prompts", 0), ("few-blocks", 98)])  # fmt: skip
def test_a_twin_says_what_its_own_run_was(run: str, preempted: int) -> None:
    """Not a proof of prediction, since the steps are those it learnt from; the schedule over them is its own."""
    answer = what_if(GOLDEN / run, Wish())
    for name, most in (("output_tokens_per_s", 0.02), ("tpot_mean_ns", 0.05), ("ttft_p95_ns", 0.15)):
        measured = answer.recorded[name]
        assert measured is not None
        assert of(answer.again, name).value == pytest.approx(measured, rel=most), name
    assert answer.again.predicted.preemptions_count == pytest.approx(preempted, rel=0.15)
    assert answer.present is answer.again is answer.candidate


def test_a_cap_that_binds_is_worth_lifting(capped: Answer) -> None:
    assert of(capped.candidate, "ttft_p95_ns").high < of(capped.present, "ttft_p95_ns").low / 5
    assert of(capped.candidate, "tpot_mean_ns").value > of(capped.present, "tpot_mean_ns").value
    assert capped.candidate.predicted.waiting_mean_count < 0.1 < 1 < capped.present.predicted.waiting_mean_count


def test_beyond_what_was_recorded_it_says_so(capped: Answer) -> None:
    assert any("more requests in a step than any step that was recorded" in note for note in capped.notes)


def test_more_load_is_more_of_everything() -> None:
    answer = what_if(GOLDEN / "healthy", Wish(load_ratio=1.5))
    assert answer.present is answer.candidate is not answer.again
    assert of(answer.present, "output_tokens_per_s").value > 1.3 * of(answer.again, "output_tokens_per_s").value
    assert of(answer.present, "ttft_p95_ns").value > of(answer.again, "ttft_p95_ns").value


def test_json_has_the_four_parts_and_no_bare_number(capped: Answer) -> None:
    said = capped.json()
    assert said["set"] == {"max_running_requests": 16}
    for part in ("again", "present", "candidate"):
        for value in said[part]["measures"].values():
            assert value["low"] <= value["value"] <= value["high"]
    assert said["candidate"]["settings"]["sequence_cap_count"] == 16


def test_a_run_of_another_engine_or_too_short_is_refused() -> None:
    with pytest.raises(CannotAnswer, match="one says nothing of the other"):
        check(GOLDEN / "healthy", GOLDEN / "device/sampling")
    with pytest.raises(CannotAnswer, match="Try: record for longer"):
        what_if(GOLDEN / "kv-fits", Wish())


@pytest.mark.slow
def test_the_same_batches_on_a_slower_machine_are_told_from_another_load() -> None:
    checked = check(GOLDEN / "healthy", GOLDEN / "sequence-cap")
    assert any("times what the twin says of the very same steps" in note for note in checked.notes)
    assert checked.covered_count == 0
    same = check(GOLDEN / "healthy", GOLDEN / "healthy")
    assert any("learnt from this very run" in note for note in same.notes)
    assert same.covered_count >= 6


@pytest.mark.parametrize(
    ("wish", "says"),
    [(Wish(load_ratio=0), "no load"), (Wish(("max_num_seq=4",)), "max_num_seq is no knob of vllm"),
     (Wish(("max_num_seqs=0",)), "nothing can run"), (Wish(("max_num_seqs=4", "max_running_requests=5")), "twice")],
)  # fmt: skip
def test_a_wish_that_makes_no_sense_is_refused(wish: Wish, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        what_if(GOLDEN / "healthy", wish)

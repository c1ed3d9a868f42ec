"""Any order of events: what cannot follow is refused, and nothing is kept without both verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.core.errors import Failed
from pellucid.tune import events as e
from pellucid.tune.effect.spend import Spend
from pellucid.tune.journal import Entry, line
from pellucid.tune.space import Setting, words
from pellucid.tune.state import State, fold, replay
from tests.tune.session import ALLOWED, STARTED, better, fidelity, proposal, start, state_after

A, B = proposal(("max_running_requests", 64)), proposal(("step_token_budget", 512))
TO_TRIAL = (STARTED, e.Observed("r1", ""), e.Diagnosed("", []), e.Proposed((A, B), done=True), ALLOWED)


def test_a_candidate_with_both_verdicts_is_kept_and_is_the_present_configuration() -> None:
    state = state_after(*TO_TRIAL, start(1), better(1), fidelity(1), e.Kept(1, "restarted"))
    assert (state.phase, state.present) == ("observing", (Setting("max_running_requests", 64),))
    assert (state.trials[0].end, state.queue) == ("kept", ())


def test_what_comes_on_top_of_it_does_not_take_it_back() -> None:
    again = (e.Observed("r2", ""), e.Diagnosed("", []), e.Proposed((B,), True), ALLOWED)
    state = state_after(*TO_TRIAL, start(1), better(1), fidelity(1), e.Kept(1, ""), *again, start(2), better(2),
                        fidelity(2), e.Kept(2, ""))  # fmt: skip
    assert state.present == (Setting("max_running_requests", 64), Setting("step_token_budget", 512))


def test_what_was_kept_last_is_undone_first_and_nothing_else_is() -> None:
    kept = kept_after(("max_running_requests", 64)), kept_after(("step_token_budget", 512), trial=2)
    state = state_after(STARTED, *kept[0], *kept[1], e.Finished("done", "kept"))
    with pytest.raises(ValueError, match="trial 1 is not the last"):
        fold(state, e.Undone(1, ""), 0)
    once = fold(state, e.Undone(2, "start it so"), 0)
    assert (words(once.present), [t.end for t in once.trials]) == ("max_running_requests=64", ["kept", "undone"])
    twice = fold(once, e.Undone(1, "start it so"), 0)
    assert (twice.present, twice.phase) == ((), "finished")
    with pytest.raises(ValueError, match="not the last"):
        fold(twice, e.Undone(1, ""), 0)


def test_a_session_that_goes_on_has_nothing_to_undo() -> None:
    with pytest.raises(ValueError, match="in phase 'observing'"):
        fold(state_after(STARTED, *kept_after(("max_running_requests", 64))), e.Undone(1, ""), 0)


def kept_after(setting: tuple[str, int], trial: int = 1) -> tuple[e.AnyEvent, ...]:
    """From an observation to a candidate that was kept."""
    return (e.Observed("r", ""), e.Diagnosed("", []), e.Proposed((proposal(setting),), True), ALLOWED, start(trial),
            better(trial), fidelity(trial), e.Kept(trial, ""))  # fmt: skip


@pytest.mark.parametrize("speed", [
    better(1, word="worse"), better(1, word="no difference"), better(1, word="inconclusive"), better(1, held=False),
    better(1, held=None),
])  # fmt: skip
def test_a_verdict_on_speed_other_than_better_with_all_held_goes_back(speed: e.SpeedJudged) -> None:
    assert state_after(*TO_TRIAL, start(1), speed).phase == "rolling back"


@pytest.mark.parametrize("word", ["different", "inconclusive", "blind", "failed"])
def test_a_verdict_on_fidelity_other_than_the_same_goes_back(word: e.FidelityWord) -> None:
    assert state_after(*TO_TRIAL, start(1), better(1), fidelity(1, word)).phase == "rolling back"


def test_a_trial_only_is_never_kept() -> None:
    tried = (STARTED_TO_TRY, e.Proposed((A,), True), ALLOWED, start(1), better(1), fidelity(1))
    assert state_after(*tried).phase == "rolling back"


STARTED_TO_TRY = e.Started(**{**{f: getattr(STARTED, f) for f in STARTED.__struct_fields__}, "mode": "try"})


@pytest.mark.parametrize("phase", ["trying", "verifying", "keeping"])
def test_a_trial_that_was_cut_off_is_taken_back_first_and_tried_once_more(phase: str) -> None:
    done = {"trying": (), "verifying": (better(1),), "keeping": (better(1), fidelity(1))}[phase]
    state = state_after(*TO_TRIAL, start(1), *done)
    assert state.phase == phase
    state = fold(state, e.Resumed(0), 0)
    assert state.phase == "rolling back"
    state = fold(state, e.RolledBack(1, ""), 0)
    assert (state.phase, state.queue, state.tried) == ("guarding", (A, B), ())
    for event in (ALLOWED, start(2), e.Resumed(0), e.RolledBack(2, "")):
        state = fold(state, event, 0)
    assert (state.queue, state.tried) == ((B,), (A.candidate,))


def test_a_roll_back_that_was_cut_off_is_begun_again_and_its_verdict_stands() -> None:
    state = state_after(*TO_TRIAL, start(1), better(1, word="worse"), e.Resumed(0), e.RolledBack(1, "worse"))
    assert (state.queue, state.trials[0].interrupted) == ((B,), False)


def test_time_that_nobody_worked_is_not_spent() -> None:
    state = State()
    for event, at in ((STARTED, 1000), (e.Observed("r", ""), 1400), (e.Resumed(0), 9000), (e.Diagnosed("", []), 9100)):
        state = fold(state, event, at)
    assert (state.spent_ns, state.left_ns(9150)) == (500, STARTED.budget_ns - 550)
    assert fold(state, e.Resumed(0), 5).left_ns(4) == STARTED.budget_ns - 500     # the host was started anew


def test_all_shares_together_are_at_most_the_whole() -> None:
    shares = [Spend(k, 0.05).level for k in range(1, 2000)]
    assert 0.0499 < sum(shares) <= 0.05


def test_a_trial_that_would_spend_more_than_its_share_is_refused() -> None:
    greedy = e.TrialStarted(1, "beside", STARTED.error_ratio)
    with pytest.raises(ValueError, match="more than its share"):
        fold(state_after(*TO_TRIAL), greedy, 0)


def test_a_trial_in_another_way_than_was_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="started restart where beside was allowed"):
        fold(state_after(*TO_TRIAL), e.TrialStarted(1, "restart", 0.001), 0)
    with pytest.raises(ValueError, match="in no way"):
        state_after(*TO_TRIAL[:-1], e.Guarded(True, "", ""))


def test_an_entry_that_cannot_follow_is_named() -> None:
    entries: list[Entry] = []
    for event in (STARTED, e.Kept(1, "")):
        entries.append(line(entries[-1] if entries else None, e.kind_of(event), e.to_plain(event), 0, 0)[1])
    with pytest.raises(Failed, match="entry 1 of the journal cannot follow: kept of trial 1 in phase 'observing'"):
        replay(entries)


def test_an_entry_of_another_version_is_named() -> None:
    with pytest.raises(Failed, match="'future' that does not read"):
        e.from_plain("future", {})


number = st.integers(1, 4)
proposals = st.lists(st.sampled_from([A, B]), max_size=2).map(tuple)
anything = st.one_of(
    st.just(STARTED), st.just(STARTED_TO_TRY), st.builds(e.Observed, st.just("r"), st.just("")),
    st.builds(e.Diagnosed, st.just(""), st.just([])), st.builds(e.Proposed, proposals, st.booleans()),
    st.just(ALLOWED),
    st.just(e.Guarded(False, "legality", "")), number.map(start),
    st.builds(better, number, st.sampled_from(["better", "worse", "no difference", "inconclusive"]),
              st.sampled_from([True, False, None])),
    st.builds(fidelity, number, st.sampled_from(["same", "different", "inconclusive", "blind", "failed"])),
    st.builds(e.Broke, st.sampled_from(["candidate", "client", "serving", "loop"]), st.just("x")),
    st.builds(e.Kept, number, st.just("")), st.builds(e.RolledBack, number, st.just("")),
    st.builds(e.NotRolledBack, number, st.just("")), st.just(e.Interrupted("x")), st.just(e.Resumed(0)),
    st.just(e.Finished("done", "")), st.builds(e.Peeked, number, st.just(3), st.just(""), st.just(())),
)  # fmt: skip
USUAL = (*TO_TRIAL, start(1), better(1), fidelity(1), e.Kept(1, ""))


@given(st.integers(0, len(USUAL)), st.lists(anything, max_size=40), st.data())
def test_nothing_is_ever_kept_without_both_verdicts(usual: int, more: list[e.AnyEvent], data: Any) -> None:
    state, entries = State(), list[Entry]()
    for now, event in enumerate((*USUAL[:usual], *more)):
        try:
            state = fold(state, event, now)
        except ValueError:
            continue
        entries.append(line(entries[-1] if entries else None, e.kind_of(event), e.to_plain(event), 0, now)[1])
    for trial in state.trials:
        if trial.end == "kept":
            assert trial.speed is not None and trial.speed.word == "better"
            assert all(g.held is True for g in trial.speed.guards)
            assert trial.fidelity is not None and trial.fidelity.word == "same"
    assert all(t.end for t in state.trials[:-1]), "a trial was begun while another was under way"
    kept = {s for t in state.trials if t.end == "kept" for s in t.proposal.candidate}
    assert set(state.present) <= kept
    assert replay(entries) == state
    assert replay(entries[:data.draw(st.integers(0, len(entries)))]).phase

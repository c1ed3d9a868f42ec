"""Whole sessions, with a death, a Ctrl-C, an error or the end of the budget at every point of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pellucid.core.errors import Failed
from pellucid.tune import events as e
from pellucid.tune.loop import Finish, next_action, summary
from pellucid.tune.space import Setting
from pellucid.tune.state import State, replay
from tests.tune.session import (
    ALLOWED,
    MIN_NS,
    STARTED,
    Killed,
    World,
    better,
    proposal,
    resumed,
    session,
    start,
    state_after,
)

A, B = proposal(("max_running_requests", 64)), proposal(("step_token_budget", 512))


def points() -> list[str]:
    """Every point where something may go wrong, in the order in which a session comes to them."""
    seen: list[str] = []
    session(World((A, B), before=seen.append))
    return list(dict.fromkeys(seen))


POINTS = points()


def at(point: str, error: BaseException, times: int = 1) -> Callable[[str], None]:
    left = [times]

    def fail(here: str) -> None:
        if here == point and left[0]:
            left[0] -= 1
            raise error

    return fail


def test_a_session_goes_round_until_nothing_is_left_to_try() -> None:
    world = World((A, B))
    state = session(world)
    trial = ["Guard", "RunTrial", "JudgeFidelity", "Keep"]
    assert world.actions == ["Observe", "Diagnose", "Propose", *trial, "Observe", "Diagnose", "Propose", *trial,
                             "Observe", "Diagnose", "Propose", "Finish"]  # fmt: skip
    assert state.finished is not None
    assert state.finished.says == "kept max_running_requests=64, step_token_budget=512 (2 trials, 0 proposals refused, in 17 min)"  # noqa: E501


def test_nothing_beats_the_present_configuration_is_a_right_ending() -> None:
    world = World((A, B), speed="no difference")
    state = session(world)
    assert state.finished is not None
    assert (state.finished.word, world.serving, world.running) == ("done", "as found", set())
    assert state.finished.says.startswith("nothing beats the present configuration (2 trials")
    assert [t.says for t in state.trials] == ["speed: no difference"] * 2


@pytest.mark.parametrize(("word", "says"), [
    ("worse", "nothing beats"), ("no difference", "nothing beats"), ("inconclusive", "nothing was shown to beat"),
])  # fmt: skip
def test_that_nothing_beats_it_is_said_only_where_every_trial_has_told(word: e.SpeedWord, says: str) -> None:
    state = state_after(STARTED, e.Observed("r", ""), e.Diagnosed("", []), e.Proposed((A,), True), ALLOWED, start(1),
                        better(1, word=word), e.RolledBack(1, ""))  # fmt: skip
    assert summary(state).startswith(f"{says} the present configuration")


def test_no_proposal_is_an_ending_too() -> None:
    state = session(World())
    assert state.finished is not None and state.finished.says.startswith("nothing was tried")


@pytest.mark.parametrize("word", ["different", "inconclusive", "blind", "failed"])
def test_faster_and_not_the_same_is_taken_back(word: e.FidelityWord) -> None:
    world = World((A,), fidelity=word)
    state = session(world)
    assert (state.present, world.serving) == ((), "as found")
    assert state.trials[0].says == f"fidelity: {word}, 512 prompts"


def clean(world: World, state: State) -> None:
    assert state.phase == "finished"
    assert world.running == set(), "an engine of a trial was left"
    kept = [t for t in state.trials if t.end == "kept"]
    assert world.serving == (f"trial {kept[-1].number}" if kept else "as found")
    assert all(t.end for t in state.trials)
    assert replay(world.entries) == state


@pytest.mark.parametrize("point", POINTS)
def test_kill_9_at_any_point_and_the_session_goes_on_as_if_nothing_had_been(point: str) -> None:
    world = World((A, B), before=at(point, Killed()))
    with pytest.raises(Killed):
        session(world)
    world.before = str
    last = replay(world.entries)
    state = resumed(world) if last.phase != "finished" else last
    clean(world, state)
    assert set(state.present) == {Setting("max_running_requests", 64), Setting("step_token_budget", 512)}


@pytest.mark.parametrize("point", POINTS)
def test_killed_again_and_again_a_session_still_ends(point: str) -> None:
    world = World((A, B), before=at(point, Killed(), times=6))
    with pytest.raises(Killed):
        session(world)
    for _ in range(12):
        if replay(world.entries).phase == "finished":
            break
        try:
            resumed(world)
        except Killed:
            continue
    clean(world, replay(world.entries))


@pytest.mark.parametrize("point", POINTS)
def test_ctrl_c_at_any_point_takes_back_what_is_under_way_and_ends(point: str) -> None:
    world = World((A, B), before=at(point, KeyboardInterrupt()))
    try:
        state = session(world)
    except KeyboardInterrupt:       # before the loop began
        assert point == "after started"
        return
    clean(world, state)
    assert state.finished is not None
    assert state.finished.word == ("done" if point == "after finished" else "interrupted")


@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith(("in ", "halfway")) and p != "in Finish"])
def test_an_error_at_any_point_leaves_nothing_behind(point: str) -> None:
    world = World((A, B), before=at(point, Failed("no room")))
    state = session(world)
    clean(world, state)
    in_trial = point in ("halfway through RunTrial", "in JudgeFidelity", "in Keep", "halfway through Keep")
    assert state.finished is not None
    assert state.finished.word == ("done" if in_trial else "failed")
    assert len(state.present) == (1 if in_trial else len([t for t in state.trials if t.end == "kept"]))


def test_a_candidate_that_breaks_is_left_and_the_next_one_tried() -> None:
    state = session(World((A, B), before=at("halfway through RunTrial", Failed("it did not boot"))))
    assert [t.end for t in state.trials] == ["rolled back", "kept"]
    assert state.trials[0].says == "candidate broke: it did not boot"


@pytest.mark.parametrize("minutes", [0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_a_budget_that_ends_in_any_state_ends_the_session_with_all_as_it_was(minutes: int) -> None:
    world = World((A, B))
    state = session(world, budget_ns=minutes * MIN_NS)
    clean(world, state)
    assert state.finished is not None and state.finished.word == "budget"
    assert len(state.present) == (1 if minutes >= 6 else 0)
    if minutes == 5:
        assert state.trials[0].says == "the budget ended before a verdict on fidelity"


class Dying(World):
    """The serving engine dies while a trial runs."""

    def trial(self, action):  # type: ignore[no-untyped-def]
        yield e.TrialStarted(action.trial, "beside", action.error_ratio)
        yield e.Broke("serving", "exit code 137")


def test_the_death_of_the_serving_engine_ends_it() -> None:
    world = Dying((A, B))
    state = session(world)
    clean(world, state)
    assert state.finished is not None and state.finished.word == "serving engine died"
    assert state.trials[0].says == "serving broke: exit code 137"


def test_what_cannot_be_taken_back_is_said_and_nothing_more_is_tried() -> None:
    world = World((A, B), speed="worse", before=at("in RollBack", Failed("the knob does not answer")))
    state = session(world)
    assert state.finished is not None
    assert (state.finished.word, [t.end for t in state.trials]) == ("not rolled back", ["not rolled back"])
    assert "the knob does not answer" in state.finished.says


class Refusing(World):
    """Nothing passes the guard, and the proposer never runs out."""

    asked = 0

    def perform(self, action):  # type: ignore[no-untyped-def]
        name = type(action).__name__
        if name == "Propose":
            self.asked += 1
            yield e.Proposed((proposal(("max_running_requests", self.asked)),), done=False)
        elif name == "Guard":
            yield e.Guarded(False, "memory", "it does not fit")
        else:
            yield from super().perform(action)


def test_a_proposer_of_nothing_that_passes_is_asked_three_times() -> None:
    world = Refusing()
    state = session(world)
    assert (world.asked, len(state.refused), state.refused[0].reason) == (3, 3, "it does not fit")
    assert state.finished is not None and state.finished.word == "done"


def test_the_same_state_and_time_give_the_same_action() -> None:
    world = World((A, B))
    session(world)
    for end in range(1, len(world.entries)):
        state = replay(world.entries[:end])
        assert next_action(state, world.now) == next_action(replay(world.entries[:end]), world.now)
    assert next_action(State(), 0) is None
    assert isinstance(next_action(replay(world.entries[:-1]), 0), Finish)

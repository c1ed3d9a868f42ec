"""Sessions of every ending, as journals written out, and the report each becomes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pellucid.tune import events as e
from pellucid.tune.effect.pairs import Pair
from pellucid.tune.report.fold import UNNAMED, of_session, of_trial, outcomes_named
from pellucid.tune.report.measured import Measured
from pellucid.tune.report.shape import Chain
from pellucid.tune.report.trial import NO_REQUESTS, NOT_ENDED
from tests.tune.report.made import DONE, GOAL, KEPT, SEEN, SESSION, A, B, journal, many, outcome, same, told, whole
from tests.tune.report.made import boot_fault as no_boot
from tests.tune.session import ALLOWED, MIN_NS, STARTED, better, fidelity, start

QUEUED = (STARTED, *SEEN, e.Proposed((A, B), True))
OFF = e.Guarded(False, "memory", "it does not fit")
LOST = (*QUEUED, ALLOWED, start(1), better(1, "worse", ratio=0.9), e.RolledBack(1, "speed: worse"))


def test_a_kept_candidate_is_told_with_its_gain_and_its_fidelity() -> None:
    made = told(*KEPT, *SEEN, e.Proposed((B,), True), OFF, DONE)
    assert made.ending == ("Kept step_token_budget=512: throughput +20% (+10% to +30%), fidelity same; "
                           "1 trial, 1 proposal refused, in 13 min.")  # fmt: skip
    assert [(t.number, t.state, t.why) for t in made.trials] == [(1, "kept", "restarted")]


@pytest.mark.parametrize(("events", "ending"), [
    ((*LOST, OFF, DONE), "Nothing beats the present configuration; 1 trial, 1 proposal refused, in "),
    ((*LOST, e.Finished("budget", "")), "The budget is spent. Nothing was kept; 1 trial, 0 proposals refused, in "),
    ((*QUEUED, OFF, OFF, DONE), "Nothing was tried; 0 trials, 2 proposals refused, in "),
    ((*LOST, e.Broke("serving", "code 9"), e.Finished("serving engine died", "")),
     "Ended early, serving engine died: code 9. Nothing was kept; 1 trial, 0 proposals refused, in "),
    ((*QUEUED, ALLOWED, start(1), e.NotRolledBack(1, "pid 7 is up"), e.Finished("not rolled back", "")),
     "Something is still as a trial made it: pid 7 is up. Nothing was kept; 1 trial, 0 proposals refused, in "),
    ((), "Nothing happened: the journal holds no start of a session."),
])  # fmt: skip
def test_every_ending_is_a_sentence(events: tuple[e.AnyEvent, ...], ending: str) -> None:
    assert told(*events).ending.startswith(ending)


def test_two_kept_candidates_are_told_with_what_each_brought() -> None:
    again = (*SEEN, e.Proposed((B,), True), ALLOWED, start(2), better(2), fidelity(2), e.Kept(2, "restarted"), DONE)
    ending = told(*KEPT, *again).ending
    assert ending.startswith("Kept max_running_requests=64, step_token_budget=512, in 2 steps: step_token_budget=512:")


def test_what_was_undone_is_not_kept_any_more_and_took_no_longer_for_it() -> None:
    made = told(*KEPT, *SEEN, e.Proposed((), True), DONE, e.Undone(1, "start the engine so: serve m"))
    assert made.ending.startswith("Nothing is kept any more: step_token_budget=512: throughput +20% (+10% to +30%)")
    assert (made.trials[0].state, made.trials[0].took_ns) == ("undone", 3 * MIN_NS)
    assert made.notes == ("trial 1 was undone: start the engine so: serve m",)


def test_a_session_that_was_killed_says_what_comes_first() -> None:
    made = told(*QUEUED, ALLOWED, start(1))
    assert "its process is gone in trial 1, which its next process takes back first. So far: nothing" in made.ending
    assert (made.trials[0].state, made.trials[0].took_ns) == ("cut off", None)
    assert [w.candidate for w in made.waiting] == ["max_running_requests=64"]
    assert [m.partition(": ")[2] for m in made.trials[0].missing] == [NOT_ENDED] * 3
    assert told(*QUEUED, ALLOWED, start(1), running=True).trials[0].state == "running"


def test_a_resumed_session_tells_of_it_and_shows_both_attempts() -> None:
    cut = (*QUEUED, ALLOWED, start(1), e.Resumed(17), e.RolledBack(1, "it was interrupted"))
    made = told(*cut, ALLOWED, start(2), better(2), fidelity(2), e.Kept(2, "restarted"), DONE)
    assert [(t.proposed.candidate, t.state) for t in made.trials] == [
        ("step_token_budget=512", "rolled back"), ("step_token_budget=512", "kept")]  # fmt: skip
    assert "a process was killed, and another one took over; it left a line of 17 bytes" in made.notes[0]


def test_who_proposed_what_was_claimed_and_what_the_guard_did_not_know_is_told() -> None:
    unsure = e.Guarded(True, "", "", ("the size of a block",), "beside")
    (trial,) = told(*QUEUED, unsure, start(1), better(1, "worse"), e.RolledBack(1, "speed: worse")).trials
    assert (trial.proposed.proposer, trial.proposed.source) == ("rules", "batch.prefill_stalling_decode")
    assert trial.proposed.claim == e.Claim(GOAL, 0.05, 0.3)
    assert trial.ruling is not None
    assert (trial.ruling.way, trial.ruling.notes) == ("beside", ("the size of a block",))


def test_what_the_guard_refused_stands_beside_the_trials() -> None:
    (refusal,) = told(*LOST, OFF, DONE).refused
    assert (refusal.proposed.candidate, refusal.check, refusal.reason) == (
        "max_running_requests=64", "memory", "it does not fit")  # fmt: skip


def test_the_verdict_over_time_is_the_outcomes() -> None:
    (trial,) = told(*KEPT, outcomes={1: outcome(1.08, 24, same())}).trials
    assert [(c.metric, c.margin_ratio, len(c.looks)) for c in trial.courses] == [
        (GOAL, 0.03, 24), ("itl_p95_ns", 0.1, 24)]  # fmt: skip
    assert [len(a.present) for a in trial.arms] == [24] * 7
    assert trial.answers is not None and trial.answers.detail == same()
    assert (trial.missing, len(trial.requests)) == ((), 4)


def test_an_outcome_of_before_requests_were_kept_says_so() -> None:
    (trial,) = told(*KEPT, outcomes={1: outcome(1.08, 24, same(), requests=())}).trials
    assert (trial.missing, trial.requests) == ((NO_REQUESTS,), ())


def test_without_an_outcome_it_is_what_the_journal_peeked_at_and_the_rest_is_said_to_be_missing() -> None:
    peek = e.Peeked(1, 3, "inconclusive", (e.Measure(GOAL, 1.1, None, 1.4),))
    (trial,) = told(*KEPT[:-3], peek, *KEPT[-3:]).trials
    (course,) = trial.courses
    assert [(x.pairs_count, x.ratio, x.low_ratio, x.high_ratio) for x in course.looks] == [(3, 1.1, None, 1.4)]
    assert (course.margin_ratio, trial.arms) == (None, ())
    assert trial.missing == (
        "margins in the verdict over time: the journal does not hold them", f"the blocks of both arms: {UNNAMED}",
        "fidelity by task, with its floor and power: the journal has the word alone")  # fmt: skip


def test_a_candidate_that_did_not_boot_has_its_log_and_no_verdict() -> None:
    broke = (*QUEUED, ALLOWED, start(1), e.Broke("candidate", "does not boot"), e.RolledBack(1, "candidate broke"))
    (trial,) = told(*broke, outcomes={1: outcome(1, 0, troubles=(no_boot(),))}).trials
    assert (trial.speed, trial.answers, trial.courses, trial.arms) == (None, None, (), ())
    assert trial.broke is not None and trial.broke.says == "does not boot"
    assert [t.log_tail[-1] for t in trial.troubles] == ["ValueError: no such thing"]
    assert "the blocks of both arms: no pair was measured" in trial.missing


def test_a_metric_that_no_block_has_is_left_out_and_one_that_some_have_is_not() -> None:
    def unseen(pair: Pair) -> Pair:
        return replace(pair, a=replace(pair.a, good_count=None, tpot_mean_ns=None), b=replace(pair.b, good_count=None))

    made = outcome(1.08, 6)
    arms = {a.metric: a for a in replace(made, pairs=tuple(map(unseen, made.pairs))).arms()}
    assert "goodput_per_s" not in arms
    assert arms["tpot_mean_ns"].present == (None,) * 6


def test_a_journal_that_cannot_follow_is_told_up_to_there() -> None:
    entries = journal(*LOST, e.Kept(1, "says who"), DONE)
    made = of_session(SESSION, entries, {}, Chain(len(entries), None, ("line 9: it was changed",), 0, False))
    assert [t.state for t in made.trials] == ["rolled back"]
    assert made.notes[-1].startswith("entry 8 cannot follow (kept of trial 1 in phase 'guarding'); it and what is ")
    assert made.json()["chain"]["whole"] is False


def test_claims_stand_beside_outcomes() -> None:
    made = told(*KEPT)
    (row,) = made.claims
    assert (row.trial, row.compared.covered) == (1, True)
    assert row.compared.outcome_ratio == pytest.approx(0.2)
    assert [s.covered_count for s in made.scores] == [1]


def test_conditions_that_nobody_recorded_are_none() -> None:
    bare, known = told(*KEPT).conditions, told(*KEPT, outcomes={1: outcome()}).conditions
    assert (bare.machine, bare.seed, bare.model) == (None, None, None)
    assert (known.machine, known.seed, known.model) == ("x86_64, AMD EPYC", 7, "tiny-dense")
    assert (bare.engine_version, bare.slo, bare.budget_ns) == ("0.32.0", "ttft_p95<2s", STARTED.budget_ns)


def test_a_secret_of_the_command_is_not_in_the_report() -> None:
    made = outcome()
    where = replace(made.conditions, command=("serve", "--api-key", "s3cret", "--x-token=s3cret"))
    assert "s3cret" not in str(of_trial(replace(made, conditions=where)).json())


def test_a_trial_alone_is_a_report_without_a_session() -> None:
    made = of_trial(outcome(0.95, 12))
    assert made.ending.startswith("Tried step_token_budget=512: worse, output_tokens_per_s × 0.9")
    assert (made.chain, made.trials[0].state, made.conditions.slo) == (None, "tried", None)


def test_the_evidence_of_a_trial_that_broke_is_found() -> None:
    broke = e.Broke("candidate", "died", {"outcome": "/f"})
    judged = e.SpeedJudged(2, "worse", (), (), 1, 1, None, {"outcome": "/g"})
    entries = journal(*QUEUED, ALLOWED, start(1), broke, e.RolledBack(1, ""), ALLOWED, start(2), judged)
    assert outcomes_named(entries) == {1: {"outcome": "/f"}, 2: {"outcome": "/g"}}


@pytest.mark.slow
def test_two_hundred_trials_are_folded_within_seconds() -> None:
    entries = journal(*many(200))
    outcomes: dict[int, Measured | str] = dict.fromkeys(range(1, 201), outcome(1.0, 60))
    began_s = time.monotonic()
    made = of_session(SESSION, entries, outcomes, whole(entries))
    assert (len(made.trials), time.monotonic() - began_s < 10) == (200, True)

"""The observation matrix on built rows: values, baselines and states, and never one where there cannot be."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pellucid.catalog.load import Observation, observations
from pellucid.diagnose.matrix import Matrix, Observed, observe, times_worse, value_of
from pellucid.diagnose.past import look_back
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Gain, Need, Row, Rule, Verdict, clear, found
from pellucid.diagnose.run import BlindFact
from pellucid.store.read import RunReader, open_run
from tests.diagnose.engine_model import BASE, MS, Rows, write_run

STEP_NS = 100 * MS
SECOND = 1000 * MS
ROWS = observations()


def judge(row: Row) -> Verdict:
    if row.number("waiting_mean_count") > 5:
        return found("many wait", Gain("ttft_mean_ns", 0.1, 0.2, "local"), {})
    return clear("few wait")


RULE = replace(
    all_rules()[0], id="test.rule", needs=(Need("steps", ("waiting_count",), "turn it on"),), judge=judge,
    evidence="SELECT avg(waiting_count) AS waiting_mean_count FROM steps",
)  # fmt: skip


def steps(count: int, first: int = 0, **columns: Any) -> Rows:
    """Steps of 100 ms without a gap between them."""
    return {"steps": [
        {"step": n, "start_ns": BASE + n * STEP_NS, "end_ns": BASE + (n + 1) * STEP_NS, "host_gap_ns": 0,
         "waiting_count": 0, "waiting_kv_count": 0, "decode_requests_count": 4, **columns}
        for n in range(first, first + count)
    ]}  # fmt: skip


def joined(*parts: Rows) -> Rows:
    return {"steps": [row for part in parts for row in part["steps"]]}


def opened(folder: Path, rows: Rows) -> RunReader:
    return open_run(write_run(folder, rows))


def matrix(
    folder: Path, rows: Rows, since_ns: int | None = None, rules: tuple[Rule, ...] = (RULE,),
    blind: tuple[str, ...] = (), visible: tuple[str, ...] = (),
) -> Matrix:  # fmt: skip
    facts = {name: BlindFact("shed: too dear", "less load") for name in blind} | dict.fromkeys(visible)
    return observe(opened(folder, rows), facts, since_ns, None, rules)


def row(found: Matrix, metric: str) -> Observed:
    return next(r for r in found.rows if r.metric == metric)


def test_the_baseline_is_the_median_of_the_runs_own_healthy_past(tmp_path: Path) -> None:
    """Five past windows; somebody found something in the second, whose waiting is not in the baseline."""
    parts = [steps(40, 40 * n, waiting_kv_count=w, waiting_count=w) for n, w in enumerate((1, 9, 2, 3, 4, 5))]
    found = matrix(tmp_path, joined(*parts), since_ns=40 * STEP_NS)
    kv = row(found, "waiting_kv_mean_count")
    assert (len(found.frame.edges), found.frame.healthy) == (6, (0, 2, 3, 4))
    assert (kv.value, kv.baseline, kv.baseline_from) == (5.0, 2.5, "own_past")
    assert (kv.state, kv.times_worse) == ("watch", 2.0)


def test_without_enough_healthy_past_the_catalogue_is_asked_and_says_so(tmp_path: Path) -> None:
    kv = row(matrix(tmp_path, steps(60, waiting_kv_count=8, waiting_count=9)), "waiting_kv_mean_count")
    assert (kv.value, kv.baseline, kv.baseline_from, kv.state) == (8.0, 0.0, "catalogue", "bad")


def test_without_any_baseline_there_is_no_state(tmp_path: Path) -> None:
    requests = [{"request": n, "scheduled_ns": BASE, "prompt_tokens": 100, "cached_tokens": 50} for n in range(20)]
    hit = row(matrix(tmp_path, {**steps(30), "requests": requests}), "cached_tokens_ratio")
    assert (hit.value, hit.numerator, hit.denominator, hit.over_count) == (0.5, 1000, 2000, 20)
    assert (hit.baseline, hit.baseline_from, hit.state) == (None, None, "unjudged")
    assert "0 healthy windows" in hit.says


def test_a_window_no_rule_could_judge_is_not_healthy(tmp_path: Path) -> None:
    frame = look_back(opened(tmp_path, steps(200, waiting_count=None)), (RULE,))
    assert (len(frame.edges), frame.healthy) == (6, ())


def test_the_window_is_the_span_asked_for_or_the_last_part(tmp_path: Path) -> None:
    run = opened(tmp_path, steps(200))
    end_ns = BASE + 200 * STEP_NS
    assert look_back(run, (RULE,), 5 * SECOND).edges[-1] == end_ns - 5 * SECOND
    last = look_back(run, (RULE,)).edges[-1]
    assert abs(last - (end_ns - 200 * STEP_NS // 6)) < 2 * STEP_NS
    assert look_back(run, (RULE,), 5 * SECOND, 8 * SECOND).edges == (end_ns - 8 * SECOND + STEP_NS, end_ns - 5 * SECOND)
    assert look_back(run, (RULE,), 999 * SECOND).edges == (BASE,)


def test_a_short_run_is_one_window(tmp_path: Path) -> None:
    assert look_back(opened(tmp_path, steps(39)), (RULE,)).edges == (0,)
    assert len(look_back(opened(tmp_path / "b", steps(40)), (RULE,)).edges) == 2


def test_a_rate_is_per_second_of_busy_time(tmp_path: Path) -> None:
    rate = row(matrix(tmp_path, steps(30, output_tokens=4)), "output_tokens_per_s")
    assert (rate.value, rate.numerator, rate.denominator) == (40.0, 120, 30 * STEP_NS)
    assert (rate.state, rate.says) == ("unjudged", "neither way is worse")


def test_what_is_taken_over_too_few_is_shown_and_not_judged(tmp_path: Path) -> None:
    few = row(matrix(tmp_path, steps(9, waiting_kv_count=9)), "waiting_kv_mean_count")
    assert (few.value, few.state, few.says) == (9.0, "unjudged", "taken over 9 steps, and it takes 10")
    enough = row(matrix(tmp_path / "b", steps(10, waiting_kv_count=9)), "waiting_kv_mean_count")
    assert enough.state == "bad"


def test_a_fact_nobody_sees_is_blind_whatever_the_rows_say(tmp_path: Path) -> None:
    kv = row(matrix(tmp_path, steps(30), blind=("step.waiting_reason",)), "waiting_kv_mean_count")
    assert (kv.state, kv.value, kv.says, kv.collect) == ("blind", None, "shed: too dear", "less load")


def test_a_column_without_a_value_is_blind_and_zero_is_not(tmp_path: Path) -> None:
    found = matrix(tmp_path, steps(30, waiting_kv_count=None, recomputed_tokens=0, scheduled_tokens=4))
    kv, again = row(found, "waiting_kv_mean_count"), row(found, "recomputed_tokens_ratio")
    assert (kv.state, kv.value, kv.says) == ("blind", None, "no steps.waiting_kv_count: null in all 30 rows")
    assert (again.state, again.value) == ("ok", 0.0)
    gpu = row(found, "device_power_watts")
    assert (gpu.state, gpu.says, gpu.collect) == ("blind", "no row of gpu was recorded",
                                                  "record on the host of the devices")  # fmt: skip


def test_what_is_seen_and_did_not_happen_is_not_applicable(tmp_path: Path) -> None:
    found = matrix(tmp_path, steps(30, draft_tokens=0, accepted_tokens=0))
    for draft in (row(found, "accepted_tokens_ratio"), row(found, "draft_time_ratio")):
        assert (draft.state, draft.value) == ("not_applicable", None) and "does not speculate" in draft.says
    drafts = steps(30, draft_tokens=2, accepted_tokens=1)
    assert row(matrix(tmp_path / "b", drafts), "draft_time_ratio").state == "blind", "drafts without their times"


def test_no_row_of_a_fact_that_somebody_sees_means_there_was_nothing(tmp_path: Path) -> None:
    found = matrix(tmp_path, steps(30), visible=("worker.experts", "kv.lives"))
    hottest, age = row(found, "expert_hottest_ratio"), row(found, "evicted_age_p50_ns")
    assert (hottest.state, age.state, age.says) == ("not_applicable", "not_applicable", "nothing was evicted")
    assert "this model has no experts" in hottest.says
    assert row(found, "expert_busiest_rank_ratio").state == "blind", "nobody spoke of worker.expert_ranks"


def test_nothing_recorded_is_all_blind(tmp_path: Path) -> None:
    found = matrix(tmp_path, {})
    assert {r.state for r in found.rows} == {"blind"}
    assert [r.metric for r in found.rows] == list(ROWS)
    assert all(r.says and r.collect for r in found.rows)


def pages(count: int, waiting: list[int]) -> Rows:
    """A page every five seconds: who waited, and 50 output tokens more."""
    return {"metrics": [
        {"process": "page", "metric": metric, "kind": kind, "value": value,
         "start_ns": BASE + (n - 1) * 5 * SECOND, "end_ns": BASE + n * 5 * SECOND}
        for n in range(1, count + 1)
        for metric, kind, value in (("waiting_count", "gauge", float(waiting[n - 1])), ("running_count", "gauge", 4.0),
                                    ("output_tokens", "counter", 50.0))
    ]}  # fmt: skip


PAGES = replace(
    RULE, needs=(Need("metrics", ("value", "metric"), "attach"),), judge=lambda _: clear("it is a page"),
    evidence="SELECT count(*) AS rows_count FROM metrics",
)  # fmt: skip


def test_a_run_of_metrics_pages_has_what_pages_tell_and_is_blind_for_the_rest(tmp_path: Path) -> None:
    found = matrix(tmp_path, pages(36, [2] * 30 + [9] * 6), rules=(PAGES,))
    assert (len(found.frame.edges), len(found.frame.healthy)) == (6, 5)
    waiting, rate = row(found, "waiting_mean_count"), row(found, "output_tokens_per_s")
    assert (waiting.value, waiting.baseline, waiting.baseline_from) == (9.0, 2.0, "own_past")
    assert (waiting.state, waiting.from_page) == ("watch", True)
    assert (rate.value, rate.numerator, rate.denominator) == (10.0, 300, 30 * SECOND)
    assert row(found, "waiting_kv_mean_count").state == "blind"


def test_what_was_seen_comes_before_what_a_page_tells(tmp_path: Path) -> None:
    both = row(matrix(tmp_path, {**steps(30, waiting_count=1), **pages(2, [7, 7])}), "waiting_mean_count")
    assert (both.value, both.from_page) == (1.0, False)
    shed = {**steps(30, waiting_count=1), **pages(2, [7, 7])}
    page = row(matrix(tmp_path / "b", shed, blind=("step.composition",)), "waiting_mean_count")
    assert (page.value, page.from_page) == (7.0, True)


HIGHER = Observation(
    "kv_cache", "m", [], [], [], "steps_count", 1, "a", "higher", value="x", least=2, watch_ratio=2, bad_ratio=3
)


@pytest.mark.parametrize(("value", "baseline", "worse"), [(6, 3, 2.0), (1, 0, 1.0), (4, 0, 2.0), (1, 4, 0.5)])
def test_higher_is_worse(value: float, baseline: float, worse: float) -> None:
    assert times_worse(HIGHER, value, baseline) == worse


@pytest.mark.parametrize(("value", "baseline", "worse"), [(3, 6, 2.0), (0, 1, 1.0), (0, 4, 2.0), (4, 1, 0.5)])
def test_lower_is_worse(value: float, baseline: float, worse: float) -> None:
    lower = structs.replace(HIGHER, worse="lower")
    assert times_worse(lower, value, baseline) == worse


@pytest.mark.parametrize(("waiting", "state"), [(1.99, "ok"), (2, "watch"), (7.99, "watch"), (8, "bad")])
def test_a_state_begins_on_its_limit(tmp_path: Path, waiting: float, state: str) -> None:
    """Hundred steps in which so many waited on average, beside a catalogue where nobody does."""
    rows = joined(*(steps(1, n, waiting_kv_count=int(waiting * (n + 1)) - int(waiting * n)) for n in range(100)))
    assert row(matrix(tmp_path, rows, since_ns=999 * SECOND), "waiting_kv_mean_count").state == state


def test_a_ratio_without_anything_to_divide_by_is_no_value() -> None:
    entry = ROWS["recomputed_tokens_ratio"]
    assert value_of("recomputed_tokens_ratio", entry, {"recomputed_tokens": 0, "recomputed_of_tokens": 0}) is None
    assert value_of("recomputed_tokens_ratio", entry, {"recomputed_tokens": None, "recomputed_of_tokens": 4}) is None


COLUMNS = ("waiting_kv_count", "prefill_tokens", "recomputed_tokens", "scheduled_tokens", "output_tokens",
           "draft_tokens", "accepted_tokens", "kv_used_blocks_count", "kv_total_blocks_count", "host_gap_ns",
           "preempted_count", "running_count")  # fmt: skip
FACTS = sorted({f for entry in ROWS.values() for f in entry.facts})


@given(st.integers(0, 10**6), st.sets(st.sampled_from(COLUMNS)), st.sets(st.sampled_from(FACTS)))
def test_no_state_without_a_baseline_and_no_value_for_what_is_blind(
    tmp_path_factory: pytest.TempPathFactory, seed: int, gone: set[str], blind: set[str]
) -> None:
    rnd = random.Random(seed)
    rows = joined(*(
        steps(1, n, **{c: None if c in gone or rnd.random() < 0.1 else rnd.randrange(5) for c in COLUMNS})
        for n in range(rnd.choice((5, 30, 90)))
    ))  # fmt: skip
    found = matrix(tmp_path_factory.mktemp("m"), rows, rnd.choice((None, SECOND)), blind=tuple(blind))
    assert [r.metric for r in found.rows] == list(ROWS)
    for r in found.rows:
        assert (r.value is None) == (r.state in ("blind", "not_applicable"))
        assert r.value is not None or (r.baseline, r.numerator, r.times_worse) == (None, None, None)
        assert r.state not in ("ok", "watch", "bad") or (r.baseline is not None and r.baseline_from and r.times_worse)
        assert r.state != "blind" or (r.says and r.collect)
        assert not blind & set(ROWS[r.metric].facts) or r.state == "blind"
        seen = {n.split(".")[1] for n in ROWS[r.metric].needs if n.startswith("steps.")}
        assert not gone & seen or r.value is None

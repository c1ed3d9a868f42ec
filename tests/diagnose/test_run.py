from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Gain, Need, Row, Rule, Verdict, clear, found
from pellucid.diagnose.run import Report, diagnose
from pellucid.store.read import open_run
from tests.diagnose.engine_model import BASE, MS, PROCESS, Rows, write_run

SECOND = 1000 * MS


def judge(row: Row) -> Verdict:
    if row.number("waiting_mean_count") > 5:
        return found("many wait", Gain("ttft_mean_ns", 0.1, 0.2, "local"), {})
    return clear("few wait")


RULE = replace(
    all_rules()[0], id="test.rule", needs=(Need("steps", ("waiting_count",), "turn it on"),), judge=judge,
    evidence="SELECT avg(waiting_count) AS waiting_mean_count FROM steps",
)  # fmt: skip


def steps(waiting: list[int] | list[None]) -> Rows:
    """One step of 100 ms for each entry."""
    return {"steps": [
        {"step": n, "start_ns": BASE + n * 100 * MS, "end_ns": BASE + (n + 1) * 100 * MS, "waiting_count": w}
        for n, w in enumerate(waiting)
    ]}  # fmt: skip


def judged(folder: Path, rows: Rows, rule: Rule = RULE, since_ns: int | None = None) -> Report:
    return diagnose(open_run(write_run(folder, rows)), since_ns, [rule])


def kind(folder: Path, rows: Rows, **asked: Any) -> str:
    return judged(folder, rows, **asked).results[0].verdict.kind


def test_a_state_in_all_windows_is_found(tmp_path: Path) -> None:
    result = judged(tmp_path, steps([9] * 100)).results[0]
    assert (result.verdict.kind, result.found_count(), result.judged_count()) == ("found", 5, 5)
    assert result.evidence == {"waiting_mean_count": 9}


def test_three_of_five_windows_are_enough_and_two_are_not(tmp_path: Path) -> None:
    assert kind(tmp_path / "3", steps([20] * 60 + [0] * 40)) == "found"
    two = judged(tmp_path / "2", steps([20] * 40 + [0] * 60)).results[0]
    assert two.verdict.kind == "clear"
    assert "in 2 of 5 windows" in two.verdict.says


def test_idle_time_does_not_use_up_windows(tmp_path: Path) -> None:
    """Half a minute of load in ten minutes of nothing."""
    rows = steps([9] * 150 + [9])
    rows["steps"][-1]["start_ns"] += 600 * SECOND
    rows["steps"][-1]["end_ns"] += 600 * SECOND
    assert kind(tmp_path, rows) == "found"


def test_few_steps_are_not_judged(tmp_path: Path) -> None:
    assert kind(tmp_path / "9", steps([9] * 9)) == "not_applicable"


def test_a_single_window_with_enough_steps_is_a_burst(tmp_path: Path) -> None:
    rows = steps([9] * 12)
    for step in rows["steps"][-2:]:
        step["end_ns"] += 100 * SECOND
    report = judged(tmp_path, rows)
    assert report.results[0].judged_count() == 1
    assert report.results[0].verdict.kind == "clear"


def test_since_looks_at_the_end_only(tmp_path: Path) -> None:
    rows = steps([0] * 300 + [20] * 100)
    assert kind(tmp_path / "all", rows) == "clear"
    assert kind(tmp_path / "since", rows, since_ns=9 * SECOND) == "found"


def test_a_column_that_is_null_throughout_is_blind_with_the_way_to_turn_it_on(tmp_path: Path) -> None:
    verdict = judged(tmp_path, steps([None] * 20)).results[0].verdict
    assert (verdict.kind, verdict.collect) == ("blind", "turn it on")
    assert verdict.says == "no steps.waiting_count: null in all 20 rows"


def test_a_blind_fact_gives_its_own_reason(tmp_path: Path) -> None:
    fact = {"process": PROCESS, "role": "engine_core", "fact": "waiting_count", "state": "blind",
            "reason": "hook target renamed", "collect": "update the probe"}  # fmt: skip
    rows = steps([None] * 20) | {"facts": [fact]}
    verdict = judged(tmp_path, rows).results[0].verdict
    assert (verdict.kind, verdict.collect) == ("blind", "update the probe")
    assert "hook target renamed" in verdict.says


def test_a_fact_that_one_process_sees_is_not_blind(tmp_path: Path) -> None:
    facts = [{"fact": "waiting_count", "state": s, "reason": "r", "collect": "c"} for s in ("blind", "visible")]
    assert kind(tmp_path, steps([9] * 100) | {"facts": facts}) == "found"


def test_a_rule_cannot_read_a_column_it_did_not_declare(tmp_path: Path) -> None:
    rule = replace(RULE, evidence="SELECT avg(running_count) AS waiting_mean_count FROM steps")
    verdict = judged(tmp_path, steps([9] * 20), rule).results[0].verdict
    assert verdict.kind == "broken"
    assert "running_count" in verdict.says


@pytest.mark.parametrize("table", ["requests", "host", "span_requests"])
def test_a_rule_cannot_read_a_table_it_did_not_declare(tmp_path: Path, table: str) -> None:
    rule = replace(RULE, evidence=f"SELECT count(*) AS waiting_mean_count FROM {table}")
    assert kind(tmp_path, steps([9] * 20), rule=rule) == "broken"


def test_a_rule_that_raises_is_broken_and_the_others_are_judged(tmp_path: Path) -> None:
    def fails(row: Row) -> Verdict:
        raise ZeroDivisionError(f"seven over {len(row)}")

    run = open_run(write_run(tmp_path, steps([9] * 100)))
    bad, good = diagnose(run, None, [replace(RULE, judge=fails), RULE]).results
    assert (bad.verdict.kind, good.verdict.kind) == ("broken", "found")
    assert "ZeroDivisionError: seven over 1" in bad.verdict.says


def test_an_evidence_query_of_two_rows_is_broken(tmp_path: Path) -> None:
    rule = replace(RULE, evidence="SELECT waiting_count AS waiting_mean_count FROM steps LIMIT 2")
    assert kind(tmp_path, steps([9] * 20), rule=rule) == "broken"


def test_span_rows_are_the_whole_span_in_every_window(tmp_path: Path) -> None:
    sql = "SELECT (SELECT count(*) FROM span_steps) - 94 AS waiting_mean_count FROM steps LIMIT 1"
    rule = replace(RULE, evidence=sql)
    assert judged(tmp_path, steps([0] * 100), rule).results[0].found_count() == 5


def test_a_run_can_be_judged_twice(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, steps([9] * 100)))
    assert diagnose(run, None, [RULE]).results[0].verdict == diagnose(run, None, [RULE]).results[0].verdict


def test_windows_have_the_same_busy_time_and_no_gap(tmp_path: Path) -> None:
    span = judged(tmp_path, steps([9] * 100)).span
    assert span is not None
    assert [w.end_ns for w in span.windows[:-1]] == [w.start_ns for w in span.windows[1:]]
    assert [round((w.start_ns - BASE) / SECOND) for w in span.windows if w.start_ns is not None] == [2, 4, 6, 8]


def test_a_damaged_segment_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps([9] * 100))
    write_run(tmp_path, steps([9] * 100))
    path = max(folder.glob("steps-*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 0xFF
    path.write_bytes(bytes(data))
    run = open_run(folder)
    assert diagnose(run, None, [RULE]).results[0].verdict.kind in ("found", "blind")


def test_a_visible_fact_without_rows_was_looked_for_and_is_not_there(tmp_path: Path) -> None:
    for state, expected in (("visible", "not_applicable"), ("blind", "blind")):
        facts = [{"fact": "worker.experts", "state": state, "reason": "the kernel does not tell"}]
        report = diagnose(open_run(write_run(tmp_path / state, steps([9] * 100) | {"facts": facts})))
        verdict = next(r.verdict for r in report.results if r.rule.id == "moe.expert_skew")
        assert verdict.kind == expected
        assert ("the kernel does not tell" in verdict.says) == (state == "blind")


COST = ("process", "step", "start_ns", "end_ns", "host_gap_ns", "decode_requests_count", "scheduled_tokens",
        "draft_tokens", "prefill_tokens", "recomputed_tokens")  # fmt: skip
MATCHED = "SELECT CASE WHEN matched_steps_count = 50 THEN 9 ELSE 0 END AS waiting_mean_count FROM speculation_cost"


def every_other_drafts() -> Rows:
    rows = steps([9] * 100)
    for n, step in enumerate(rows["steps"]):
        step |= {"decode_requests_count": 1, "draft_tokens": n % 2, "scheduled_tokens": 1 + n % 2, "prefill_tokens": 0,
                 "recomputed_tokens": 0, "host_gap_ns": 0}  # fmt: skip
    return rows


def test_what_a_step_costs_is_seen_through_a_view_of_the_whole_span_in_every_window(tmp_path: Path) -> None:
    rule = replace(RULE, needs=(Need("steps", COST, "turn it on"),), views=("speculation_cost",), evidence=MATCHED)
    assert judged(tmp_path, every_other_drafts(), rule).results[0].found_count() == 5


def test_a_rule_cannot_read_a_view_it_did_not_declare_nor_one_over_columns_it_does_not_need(tmp_path: Path) -> None:
    undeclared = replace(RULE, needs=(Need("steps", COST, "turn it on"),), evidence=MATCHED)
    assert kind(tmp_path / "1", every_other_drafts(), rule=undeclared) == "broken"
    narrow = replace(undeclared, needs=(Need("steps", COST[:-1], "turn it on"),), views=("speculation_cost",))
    assert kind(tmp_path / "2", every_other_drafts(), rule=narrow) == "broken"

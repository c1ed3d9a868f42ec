"""What drafts cost and bring, on rows whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.core.table import rows as table
from pellucid.store.read import RunReader, open_run
from pellucid.testing.build import build_run

MS = 1_000_000
SIMPLE = """
    process  task  position  drafted_count  accepted_count  output_tokens  gap_ns       step_draft_tokens  step_draft_ns
    a        copy  1         100            100             300            1600000000   600                -
    a        copy  2         100            100             -              -            -                  -
    a        chat  1         100            20              120            1600000000   600                40000000
    a        chat  2         100            0               -              -            -                  -"""


def steps(*kinds: tuple[int, float, int, int, int]) -> list[dict[str, Any]]:
    """Count, gap in ms, decodes, drafts, prompt tokens → that many steps one after the other.

    Each second one has a host gap of 1 ms, and two in a row differ by 2 ms, so that a mean has an error.
    """
    out: list[dict[str, Any]] = []
    now = 0
    for count, gap_ms, decodes, drafts, prompt in kinds:
        for n in range(count):
            gap_ns = int(gap_ms * MS) + (MS if n % 2 else -MS)
            host_ns = MS if n % 2 else 0
            out.append({"process": "a", "step": len(out) + 1, "start_ns": now + host_ns, "end_ns": now + gap_ns,
                        "host_gap_ns": host_ns if out else None, "decode_requests_count": decodes,
                        "draft_tokens": drafts, "scheduled_tokens": decodes + drafts + prompt, "prefill_tokens": prompt,
                        "recomputed_tokens": 0})  # fmt: skip
            now += gap_ns
    return out


def run(folder: Path, records: list[dict[str, Any]], drafts: str = SIMPLE) -> RunReader:
    return open_run(build_run(folder, {"steps": records, "speculation": table(drafts)}))


def cost(folder: Path, records: list[dict[str, Any]]) -> dict[str, Any]:
    return run(folder, records).one("SELECT * FROM speculation_cost")


def test_a_draft_token_costs_what_steps_at_the_same_number_of_decodes_tell_apart(tmp_path: Path) -> None:
    """Two decodes: 10 ms, and 16 ms with six drafts. Four decodes are slow in any case and have no steps without."""
    seen = cost(tmp_path, steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0), (40, 90, 4, 12, 0)))
    assert (seen["basis"], seen["drafted_steps_count"], seen["matched_steps_count"]) == ("matched", 80, 40)
    assert seen["draft_token_ns"] == pytest.approx(MS)
    assert 0 < seen["draft_token_error_ns"] < 0.1 * MS


def test_groups_of_decodes_weigh_by_how_many_steps_they_have(tmp_path: Path) -> None:
    """The second has two steps in all: it moves the estimate a little, not by half."""
    seen = cost(tmp_path, steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0), (2, 10, 3, 0, 0), (2, 40, 3, 6, 0)))
    assert MS < seen["draft_token_ns"] < 1.4 * MS


@pytest.mark.parametrize(("without", "basis"), [(20, "matched"), (19, "fitted")])
def test_few_steps_without_drafts_are_not_trusted(tmp_path: Path, without: int, basis: str) -> None:
    assert cost(tmp_path, steps((without, 10, 2, 0, 0), (40, 16, 2, 6, 0)))["basis"] == basis


def test_a_line_through_all_steps_stands_in_where_all_have_drafts(tmp_path: Path) -> None:
    """Drafts of one length, always: prompts tell what a token costs, 0.5 ms."""
    seen = cost(tmp_path, steps((40, 16, 2, 6, 0), (40, 66, 2, 6, 100)))
    assert (seen["basis"], seen["matched_steps_count"]) == ("fitted", None)
    assert seen["draft_token_ns"] == pytest.approx(0.5 * MS)
    assert 0 < seen["draft_token_error_ns"] < 0.01 * MS


def test_steps_that_are_all_alike_tell_nothing(tmp_path: Path) -> None:
    seen = cost(tmp_path, steps((40, 16, 2, 6, 0)))
    assert (seen["basis"], seen["draft_token_ns"], seen["draft_token_error_ns"]) == (None, None, None)


def test_a_gap_begins_where_the_step_before_ended_and_idle_time_is_in_none(tmp_path: Path) -> None:
    records = steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0))
    for record in records[60:]:
        record["start_ns"] += 60_000 * MS
        record["end_ns"] += 60_000 * MS
    records[60]["host_gap_ns"] = None
    assert cost(tmp_path, records)["draft_token_ns"] == pytest.approx(MS, rel=0.01)


def gains(folder: Path, records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {r["task"]: r for r in run(folder, records).rows("SELECT * FROM speculation_gain")}


def test_two_tasks_of_the_same_steps_differ_in_what_they_kept(tmp_path: Path) -> None:
    """100 steps of 16 ms with six drafts each: 10 ms without. One got 300 tokens in them, the other 120."""
    found = gains(tmp_path, steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0)))
    copy, chat = found["copy"], found["chat"]
    counts = ("drafts_count", "drafted_tokens", "accepted_tokens", "output_tokens")
    assert [[task[c] for c in counts] for task in (copy, chat)] == [[100, 200, 200, 300], [100, 200, 20, 120]]
    assert copy["estimate_ns"] / copy["drafts_count"] == pytest.approx(10 * MS)
    assert copy["gap_ns"] / copy["output_tokens"] == pytest.approx(16 * MS / 3)
    assert copy["estimate_low_ns"] < copy["estimate_ns"] < copy["estimate_high_ns"]


def test_the_time_to_propose_is_not_there_without_drafts(tmp_path: Path) -> None:
    found = gains(tmp_path, steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0)))
    assert found["copy"]["estimate_ns"] - found["chat"]["estimate_ns"] == pytest.approx(40 * MS)


def test_a_draft_is_never_taken_to_save_time(tmp_path: Path) -> None:
    found = gains(tmp_path, steps((40, 20, 2, 0, 0), (40, 16, 2, 6, 0)))["copy"]
    assert found["estimate_ns"] == found["estimate_high_ns"] == 1600 * MS


def test_without_a_basis_there_is_no_estimate(tmp_path: Path) -> None:
    found = gains(tmp_path, steps((40, 16, 2, 6, 0)))["copy"]
    assert [found[c] for c in ("estimate_ns", "estimate_low_ns", "estimate_high_ns", "basis")] == [None] * 4
    assert found["gap_ns"] == 1600 * MS


def test_a_task_has_its_speed_up_and_the_steps_it_rests_on(tmp_path: Path) -> None:
    """As above: 10 ms a token without; copy took 16 ms for three, chat 16 ms less the time to propose for 1.2."""
    records = steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0))
    found = {r["task"]: r for r in run(tmp_path, records).rows("SELECT * FROM speculation_tasks")}
    copy, chat = found["copy"], found["chat"]
    assert copy["speedup_ratio"] == pytest.approx(10 / (16 / 3))
    assert chat["speedup_ratio"] == pytest.approx(9.6 / (16 / 1.2))
    assert copy["speedup_low_ratio"] < copy["speedup_ratio"] < copy["speedup_high_ratio"]
    basis = ("basis", "drafted_steps_count", "matched_steps_count", "speedup_note")
    assert [copy[c] for c in basis] == ["matched", 40, 40, None]
    accepted = [(t["accepted_ratio"], t["position_accepted_ratios"]) for t in (copy, chat)]
    assert accepted == [(1, [1, 1]), (0.1, [0.2, 0])]


def test_the_share_of_time_is_over_the_steps_in_which_it_was_seen(tmp_path: Path) -> None:
    later = """
    a        chat  1         100            20              120            400000000    600                -"""
    records = run(tmp_path, steps((40, 16, 2, 6, 0)), SIMPLE + later).rows("SELECT * FROM speculation_tasks")
    copy, chat = sorted(records, key=lambda r: str(r["task"]), reverse=True)
    assert (chat["draft_ns"], chat["draft_gap_ns"], chat["draft_time_ratio"]) == (40 * MS, 1600 * MS, 0.025)
    assert (chat["time_note"], copy["draft_time_ratio"]) == (None, None)
    assert copy["time_note"] == "no worker said how long it proposed"


def test_without_a_basis_the_speed_up_is_blind_and_says_why(tmp_path: Path) -> None:
    (copy, _) = run(tmp_path, steps((40, 16, 2, 6, 0))).rows("SELECT * FROM speculation_tasks ORDER BY task DESC")
    estimates = ("without_ns", "without_low_ns", "without_high_ns", "speedup_ratio", "speedup_low_ratio", "basis")
    assert {copy[c] for c in estimates} == {None}
    assert copy["speedup_note"].startswith("no steps without drafts")
    assert copy["token_ns"] == pytest.approx(16 * MS / 3)


def test_engine_cores_are_one_and_one_without_an_estimate_leaves_none(tmp_path: Path) -> None:
    """The other core has as many drafts, each twice as long, and no steps of its own to compare."""
    other = """
    b        copy  1         100            100             300            3200000000   600                -
    b        copy  2         100            100             -              -            -                  -"""
    records = steps((40, 10, 2, 0, 0), (40, 16, 2, 6, 0))
    found = {r["task"]: r for r in run(tmp_path, records, SIMPLE + other).rows("SELECT * FROM speculation_tasks")}
    copy = found["copy"]
    assert (copy["drafts_count"], copy["output_tokens"], copy["token_ns"]) == (200, 600, 8 * MS)
    assert (copy["speedup_ratio"], copy["without_low_ns"], copy["basis"]) == (None, None, None)
    assert found["chat"]["speedup_ratio"] is not None


HELD = """
    process  model_weight_bytes  draft_weight_bytes  worker_kv_bytes  draft_kv_bytes  config_json
    w1       -                   -                   -                -               {}
    w1       600                 200                 400              200             {"x":1}
    w2       600                 200                 400              -               {}
    e        -                   -                   -                -               {}"""
FACTS = """
    process  fact                 state    reason
    w1       worker.draft_memory  visible  -
    w1       worker.draft_kv      visible  -
    w2       worker.draft_memory  visible  -
    w2       worker.draft_kv      blind    why
    e        core.config          visible  -"""


def held(folder: Path, workers: tuple[str, ...]) -> RunReader:
    """Only these workers, beside an engine core."""
    def chosen(text: str) -> list[dict[str, Any]]:
        return [r for r in table(text) if r["process"] in (*workers, "e")]

    tables = {"steps": steps((40, 16, 2, 6, 0)), "speculation": table(SIMPLE), "sources": chosen(HELD),
              "facts": chosen(FACTS)}  # fmt: skip
    return open_run(build_run(folder, tables))


def test_a_worker_has_what_its_drafter_holds_beside_all(tmp_path: Path) -> None:
    seen, blind = held(tmp_path, ("w1", "w2")).rows("SELECT * FROM drafter_memory ORDER BY process")
    sizes = ("draft_weight_bytes", "weight_bytes", "draft_kv_bytes", "kv_bytes", "draft_bytes", "held_bytes")
    assert [seen[c] for c in sizes] == [200, 800, 200, 400, 400, 1200]
    assert (seen["memory_ratio"], seen["memory_note"]) == (pytest.approx(1 / 3), None)
    assert [blind[c] for c in sizes] == [200, 800, None, 400, None, 1200]
    assert (blind["memory_ratio"], blind["memory_note"]) == (None, "why")


@pytest.mark.parametrize(("workers", "expected"), [
    (("w1",), (400, 1200, None)), (("w1", "w2"), (None, None, "why")),
    ((), (None, None, "no worker weighed its drafter")),
])  # fmt: skip
def test_a_task_has_the_memory_of_all_workers_or_none(
    tmp_path: Path, workers: tuple[str, ...], expected: tuple[object, ...]
) -> None:
    rows = held(tmp_path, workers).rows("SELECT draft_bytes, held_bytes, memory_note FROM speculation_tasks")
    assert [tuple(r.values()) for r in rows] == [expected] * 2


def test_a_request_whose_shares_are_gone_has_no_positions_and_says_so(tmp_path: Path) -> None:
    """One of which some are gone has those that are there; without drafts there is no row."""
    found = open_run(build_run(tmp_path, {
        "requests": table("""process  request  request_id  drafted_tokens  accepted_tokens
                             a        1        x1          5               2
                             a        2        x2          4               1
                             a        3        x3          0               0"""),
        "step_runs": table("""process  request  first_step  last_step  step_tokens  output_tokens  draft_tokens  phase
                              a        2        4           4          3            2              2             decode
                              a        3        4           9          1            1              0             decode
                              a        4        9           9          4            4              3             decode
                              a        1        9           9          4            4              -             decode
        """),
    })).rows("SELECT * FROM speculation_requests ORDER BY request, position")  # fmt: skip
    gone = "its shares of steps have expired, or an older recorder wrote them"
    columns = ("request_id", "request", "position", "drafted_count", "accepted_count", "note")
    assert [tuple(r[c] for c in columns) for r in found] == [
        ("x1", 1, None, None, None, gone), ("x2", 2, 1, 1, 1, gone), ("x2", 2, 2, 1, 0, gone),
        (None, 4, 1, 1, 1, None), (None, 4, 2, 1, 1, None), (None, 4, 3, 1, 1, None),
    ]  # fmt: skip

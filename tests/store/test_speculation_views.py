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

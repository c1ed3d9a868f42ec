"""Workers' records of a step → the times of its parts in `steps`."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pellucid_probe import records

from pellucid.collect.engine_core import EngineCore
from pellucid.collect.request import Request
from pellucid.store.schema import STEPS

UNSEEN = records.UNSEEN_NS
PARTS = ("draft_ns", "encoder_ns", "lora_ns")


def row(*workers: tuple[int, int, int], late: int = 0) -> dict[str, Any]:
    """The row of a step of which each worker says three parts; the last `late` of them after the engine core."""
    rows: list[dict[str, Any]] = []

    def append(table: str, values: tuple[Any, ...]) -> None:
        if table == "steps":
            rows.append(dict(zip(STEPS.names(), values, strict=True)))

    core = EngineCore("engine_core-1", append, lambda: {"process": "engine_core-1"}, Request, lambda _: None)
    works = [records.Work(1, 200, 800, 0, 0, *parts, rank, records.UNSEEN, records.UNSEEN)
             for rank, parts in enumerate(workers)]  # fmt: skip
    head = dict.fromkeys(records.Step._fields[:-1], 0) | {
        "step": 1, "schedule_start_ns": 100, "schedule_end_ns": 150, "update_start_ns": 900, "update_end_ns": 950,
        "mode": records.FULL + records.ONES,
    }  # fmt: skip
    early = len(works) - late
    for work in works[:early]:
        core.worked(records.unpack_work(records.pack_work(*work)))
    core.take(records.STEP, records.pack_step_head(*head.values()))
    for work in works[early:]:
        core.worked(work)
    core.end()
    return rows[0]


@pytest.mark.parametrize("late", [0, 1, 2])
def test_of_each_part_the_slowest_worker_counts(late: int) -> None:
    step = row((30, 200, 5), (40, 0, 7), late=late)
    assert [step[part] for part in PARTS] == [40, 200, 7]
    assert step["worker_ns"] == 600


def test_a_part_that_took_no_time_is_zero_and_one_that_nobody_saw_is_null() -> None:
    step = row((UNSEEN, 0, UNSEEN), (UNSEEN, UNSEEN, UNSEEN))
    assert [step[part] for part in PARTS] == [None, 0, None]


def test_a_record_of_a_probe_that_knew_fewer_parts_is_refused() -> None:
    with pytest.raises(struct.error):
        records.unpack_work(struct.pack("<Q5QiII", 1, 200, 800, 0, 0, UNSEEN, 0, 0, 0))

"""Two tasks of known acceptance, record by record → rows of `speculation`."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Any

from pellucid_probe import records

from pellucid.collect.engine_core import EngineCore
from pellucid.collect.request import Request
from pellucid.collect.speculation import TASKS, WINDOW_NS, Speculation
from pellucid.store.read import RunReader, open_run
from pellucid.store.schema import REQUESTS, SPECULATION, TABLES
from pellucid.testing.build import build_run

MS = 1_000_000
STEP_NS = 10 * MS


class Core:
    """An engine core's records, written by hand, and the rows made of them."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.requests: dict[str, Request] = {}
        self.core = EngineCore("engine_core-1", self._append, lambda: {"process": "engine_core-1"}, self._find,
                               lambda _: None)  # fmt: skip
        self.step = 0
        self.end_ns = 2 * WINDOW_NS

    def add(self, number: int, task: str | None, prompt: int = 8) -> None:
        self.core.take(records.ADD, records.pack_json({
            "r": number, "t": self.end_ns, "i": f"r-{number}", "e": f"x-{number}", "c": 0, "n": prompt, "m": 99,
            "k": task, "h": None,
        }))  # fmt: skip
        self.core.take(records.ADMIT, records.pack_admit((number, 0, self.step + 1, 0)))

    def run(self, shares: dict[int, int], drafts: dict[int, tuple[int, int]], draft_ns: int | None = None) -> None:
        """A step: number → tokens; number → drafted, produced."""
        self.step += 1
        self.end_ns += STEP_NS
        if draft_ns is not None:
            unseen = (records.UNSEEN_NS, records.UNSEEN_NS, 0, records.UNSEEN, records.UNSEEN)
            self.core.worked(records.Work(self.step, self.end_ns - STEP_NS, self.end_ns, 0, 0, draft_ns, *unseen))
        if drafts:
            self.core.take(records.SPEC, records.pack_spec([v for n, seen in drafts.items() for v in (n, *seen)]))
        numbers, counts = list(shares), list(shares.values())
        outputs = sum(produced for _, produced in drafts.values()) + len(set(shares) - set(drafts))
        head = dict.fromkeys(records.Step._fields[:-1], 0) | {
            "step": self.step, "schedule_start_ns": self.end_ns - STEP_NS + MS, "schedule_end_ns": self.end_ns - 8 * MS,
            "update_start_ns": self.end_ns - MS, "update_end_ns": self.end_ns, "requests": len(shares),
            "tokens": sum(counts), "running": len(shares), "outputs": outputs, "had_work_after": 1,
            "mode": records.FULL + records.WORDS,
        }  # fmt: skip
        frame = array("I", numbers).tobytes() + array("I", counts).tobytes()
        self.core.take(records.STEP, records.pack_step_head(*head.values()) + frame)

    def rows(self, table: str = "speculation") -> list[dict[str, Any]]:
        self.core.end()
        return self.tables.get(table, [])

    def _append(self, table: str, row: tuple[Any, ...]) -> None:
        self.tables.setdefault(table, []).append(dict(zip(TABLES[table].names(), row, strict=True)))

    def _find(self, internal_id: str) -> Request:
        return self.requests.setdefault(internal_id, Request(internal_id))


def two_tasks() -> Core:
    """`copy` keeps every draft, `chat` keeps the first token of every other one. Four drafts of three tokens each."""
    core = Core()
    core.add(1, "copy")
    core.add(2, "chat")
    core.run({1: 8, 2: 8}, {})
    for n in range(4):
        core.run({1: 4, 2: 4}, {1: (3, 4), 2: (3, 1 + n % 2)}, draft_ns=MS)
    return core


def counts(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, int]]:
    return {(r["task"], r["position"]): (r["drafted_count"], r["accepted_count"]) for r in rows}


def test_a_position_is_accepted_when_so_many_tokens_and_one_more_were_produced() -> None:
    assert counts(two_tasks().rows()) == {
        ("copy", 1): (4, 4), ("copy", 2): (4, 4), ("copy", 3): (4, 4),
        ("chat", 1): (4, 2), ("chat", 2): (4, 0), ("chat", 3): (4, 0),
    }  # fmt: skip


def test_what_a_draft_as_a_whole_did_stands_at_its_first_position_so_that_sums_are_right() -> None:
    first, *others = [r for r in two_tasks().rows() if r["task"] == "chat"]
    columns = ("output_tokens", "gap_ns", "step_draft_tokens", "step_draft_ns")
    assert tuple(first[c] for c in columns) == (6, 4 * STEP_NS, 4 * 6, 4 * MS)
    assert {r[c] for r in others for c in columns} == {None}


def test_positions_add_up_to_the_requests_and_to_the_steps() -> None:
    core = two_tasks()
    rows = core.rows()
    totals = [(r.fields["drafted_tokens"], r.fields["accepted_tokens"]) for r in core.requests.values()]
    assert totals == [(12, 12), (12, 2)]
    for task, total in zip(("copy", "chat"), totals, strict=True):
        of_task = [r for r in rows if r["task"] == task]
        assert (sum(r["drafted_count"] for r in of_task), sum(r["accepted_count"] for r in of_task)) == total
    assert sum(r["draft_tokens"] for r in core.rows("steps")) == 24


def test_a_step_without_drafts_counts_for_nobody_and_its_time_is_not_the_next_ones() -> None:
    core = two_tasks()
    core.run({1: 1, 2: 1}, {})
    core.run({1: 2, 2: 1}, {1: (1, 1)})
    by_task = {r["task"]: r for r in core.rows() if r["position"] == 1}
    assert (by_task["copy"]["drafted_count"], by_task["copy"]["gap_ns"]) == (5, 5 * STEP_NS)
    assert (by_task["chat"]["drafted_count"], by_task["chat"]["gap_ns"]) == (4, 4 * STEP_NS)


def test_time_without_work_is_nobodys() -> None:
    core = Core()
    core.add(1, "copy")
    core.run({1: 8}, {})
    core.core._before = core.core._before._replace(had_work_after=0) if core.core._before else None
    core.end_ns += 60 * 1000 * MS
    core.run({1: 4}, {1: (3, 4)})
    assert next(r["gap_ns"] for r in core.rows()) == STEP_NS - MS


def test_drafting_time_that_a_step_does_not_tell_is_null_for_the_window() -> None:
    core = two_tasks()
    core.run({1: 4, 2: 1}, {1: (3, 4)})
    assert {r["task"]: r["step_draft_ns"] for r in core.rows() if r["position"] == 1} == {"copy": None, "chat": 4 * MS}


def test_drafts_of_a_lost_step_are_not_given_to_the_next() -> None:
    core = two_tasks()
    core.step += 3
    core.run({1: 4, 2: 4}, {1: (3, 4), 2: (3, 4)})
    assert counts(core.rows())["copy", 1] == (4, 4)


def test_a_window_has_rows_of_its_own_by_the_end_of_the_step() -> None:
    core = two_tasks()
    core.end_ns = 4 * WINDOW_NS - STEP_NS      # the next step ends with the window, so it is in the one after
    core.run({1: 4}, {1: (3, 4)})
    assert Counter((r["task"], r["start_ns"], r["end_ns"]) for r in core.rows()) == {
        ("copy", 2 * WINDOW_NS, 3 * WINDOW_NS): 3, ("chat", 2 * WINDOW_NS, 3 * WINDOW_NS): 3,
        ("copy", 4 * WINDOW_NS, 5 * WINDOW_NS): 3,
    }  # fmt: skip


def test_many_tasks_make_no_more_rows_and_nothing_is_left_out() -> None:
    """Without labels a task is a first block: as many as prompts."""
    rows: list[dict[str, Any]] = []
    speculation = Speculation(lambda _, row: rows.append(dict(zip(SPECULATION.names(), row, strict=True))), dict)
    drafts = [(Request(f"r-{n}", label=f"t{n:03}", label_source="body"), 2 + (n >= 50), 1) for n in range(300)]
    speculation.take({"step": 1, "start_ns": 0, "end_ns": 5, "draft_ns": 7}, drafts)
    speculation.emit_older_than(WINDOW_NS)
    firsts = [r for r in rows if r["position"] == 1]
    assert len(firsts) == TASKS + 1
    assert {r["task"] for r in firsts} == {f"t{n:03}" for n in range(50, 50 + TASKS)} | {None}
    assert sum(r["drafted_count"] for r in rows) == 50 * 2 + 250 * 3
    assert sum(r["output_tokens"] for r in firsts) == 300
    assert (firsts[-1]["gap_ns"], firsts[-1]["step_draft_tokens"]) == (5 * (300 - TASKS), 850 * (300 - TASKS))


def recorded(core: Core, folder: Path) -> RunReader:
    rows = core.rows()
    assert rows
    requests = [dict(zip(REQUESTS.names(), r.row({"process": "engine_core-1"}), strict=True))
                for r in core.requests.values()]  # fmt: skip
    return open_run(build_run(folder, {**core.tables, "requests": requests}))


def mixed() -> Core:
    """Three requests of two tasks. Drafts of two lengths, some kept whole, some in part, some not at all; steps without
    any draft in between; one that is gone when its last draft's result comes."""
    core = Core()
    for number, task in ((1, "copy"), (2, "chat"), (3, "copy")):
        core.add(number, task)
    core.run({1: 8, 2: 8, 3: 8}, {})
    core.run({1: 4, 2: 4, 3: 3}, {1: (3, 4), 2: (3, 1), 3: (2, 2)})
    core.run({1: 1, 2: 1, 3: 1}, {})
    core.run({1: 4, 2: 3, 3: 1}, {1: (3, 2), 2: (2, 3)})
    core.run({1: 1, 2: 4, 3: 3}, {2: (3, 3), 3: (2, 3)})
    core.core.take(records.FINISH, records.pack_finish((3, core.end_ns, 0, 8, 8, 0, "abort")))
    core.run({1: 1, 2: 1, 3: 3}, {})
    return core


def test_a_requests_positions_are_those_of_its_drafts(tmp_path: Path) -> None:
    found = recorded(mixed(), tmp_path).rows("SELECT * FROM speculation_requests ORDER BY request, position")
    assert [(r["request_id"], r["task"], r["position"], r["drafted_count"], r["accepted_count"]) for r in found] == [
        ("x-1", "copy", 1, 2, 2), ("x-1", "copy", 2, 2, 1), ("x-1", "copy", 3, 2, 1),
        ("x-2", "chat", 1, 3, 2), ("x-2", "chat", 2, 3, 2), ("x-2", "chat", 3, 2, 0),
        ("x-3", "copy", 1, 2, 2), ("x-3", "copy", 2, 2, 1),
    ]  # fmt: skip
    assert {r["note"] for r in found} == {None}


def test_they_add_up_to_the_requests_totals_and_to_each_tasks_positions(tmp_path: Path) -> None:
    run = recorded(mixed(), tmp_path)
    totals = run.rows("""
        SELECT request, drafted_tokens, accepted_tokens, sum(drafted_count) AS d, sum(accepted_count) AS a
        FROM speculation_requests GROUP BY ALL ORDER BY request""")
    assert [(t["drafted_tokens"], t["accepted_tokens"]) for t in totals] == [(6, 4), (8, 4), (4, 3)]
    assert all((t["d"], t["a"]) == (t["drafted_tokens"], t["accepted_tokens"]) for t in totals)
    columns = "task, position, sum(drafted_count) AS d, sum(accepted_count) AS a"
    by_request, by_task = (run.rows(f"SELECT {columns} FROM {table} GROUP BY task, position ORDER BY task, position")
                           for table in ("speculation_requests", "speculation"))  # fmt: skip
    assert by_request == by_task


def test_whether_a_request_that_was_gone_had_drafts_is_not_known() -> None:
    core = mixed()
    core.rows()
    shares = [(r["step_tokens"], r["draft_tokens"]) for r in core.tables["step_runs"] if r["phase"] == "discarded"]
    assert shares == [(3, None)]

"""Rows as a user asks for them, over runs built from literal rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.table import rows as table
from pellucid.testing.build import build_run
from pellucid.verbs.rows import BLOCKS, PREFIXES, REQUESTS, SPECULATION, STEPS, Listing, Query, rows

TABLES = {
    "sources": table("""process        role         start_ns
                        engine_core-1  engine_core  1000"""),
    "steps": table("""process        step  start_ns  end_ns   execute_ns  preempted_count
                      engine_core-1  1     2000      3000     900         0
                      engine_core-1  2     3000      9000     -           2
                      engine_core-1  3     9000      9500     400         0"""),
    "requests": table("""process        request  request_id  arrival_ns  first_delivered_ns  last_delivered_ns  finish_reason
                         engine_core-1  1        cmpl-a      2000        3000                9000               stop
                         engine_core-1  2        cmpl-b      2500        -                   -                  abort"""),  # noqa: E501
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return build_run(tmp_path / "run", TABLES)


def ids(run: Path, query: Query) -> list[object]:
    return [r["step"] for r in rows(run, STEPS, query).rows]


def test_a_list_is_rows_and_units_with_the_schemas_names(run: Path) -> None:
    found = rows(run, STEPS, Query(columns=("step", "execute_ns"), limit=1)).json()
    assert found == {"rows": [{"step": 1, "execute_ns": 900}], "units": {"execute_ns": "ns"}}


def test_requests_have_their_derived_latency(run: Path) -> None:
    found = rows(run, REQUESTS, Query(columns=("request_id", "ttft_ns", "e2e_ns"))).json()
    assert found["rows"] == [
        {"request_id": "cmpl-a", "ttft_ns": 1000, "e2e_ns": 7000},
        {"request_id": "cmpl-b", "ttft_ns": None, "e2e_ns": None},
    ]
    assert found["units"] == {"ttft_ns": "ns", "e2e_ns": "ns"}


def test_rows_without_a_value_come_last_in_both_directions(run: Path) -> None:
    assert ids(run, Query(sort="execute_ns")) == [3, 1, 2]
    assert ids(run, Query(sort="execute_ns", descending=True)) == [1, 3, 2]


def test_a_condition_and_a_limit_leave_the_count_of_all_that_fit(run: Path) -> None:
    found = rows(run, STEPS, Query(where="preempted_count = 0", limit=1))
    assert ([r["step"] for r in found.rows], found.matching_count) == ([1], 2)


def test_a_missing_value_fits_no_comparison(run: Path) -> None:
    assert ids(run, Query(where="execute_ns > 0")) == ids(run, Query(where="execute_ns != 0")) == [1, 3]
    assert ids(run, Query(where="execute_ns is missing")) == [2]


def test_since_counts_back_from_the_end_of_the_run(run: Path) -> None:
    assert ids(run, Query(since_ns=500)) == [2, 3]
    assert ids(run, Query(since_ns=499)) == [3]


def test_an_unknown_column_is_refused_wherever_it_stands(run: Path) -> None:
    for query in (Query(sort="exec_ns"), Query(columns=("exec_ns",)), Query(where="exec_ns > 1")):
        with pytest.raises(AskedWrongly, match="nearest: execute_ns"):
            rows(run, STEPS, query)


def test_no_fitting_row_is_an_empty_list_where_there_are_rows(run: Path) -> None:
    assert rows(run, STEPS, Query(where="step > 99")).rows == []


def test_a_run_into_which_no_process_reported_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="no engine process with the probe reported"):
        rows(build_run(tmp_path / "run", {}), STEPS, Query())


def test_rows_that_nobody_could_see_are_blind_with_the_reason(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "run", {
        "sources": TABLES["sources"],
        "facts": table("""process        fact              state  reason                collect
                          engine_core-1  request.queued    blind  the frontend is Rust  use the Python one
                          engine_core-1  request.identity  blind  no hook               -"""),
    })  # fmt: skip
    with pytest.raises(CannotAnswer, match=r"request\.identity is blind, no hook"):
        rows(folder, REQUESTS, Query())


def test_an_engine_that_served_nothing_yet_has_no_rows_and_that_is_the_answer(tmp_path: Path) -> None:
    assert rows(build_run(tmp_path / "run", {"sources": TABLES["sources"]}), STEPS, Query()).rows == []


def test_a_blind_fact_that_rows_can_do_without_is_no_reason_for_an_empty_list(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "run", {
        "sources": TABLES["sources"],
        "facts": table("""process        fact              state    reason            collect
                          recorder       request.network   blind    no client times   measure there
                          engine_core-1  request.queued    visible  -                 -
                          frontend-1     request.identity  blind    no such frontend  -"""),
    })  # fmt: skip
    assert rows(folder, REQUESTS, Query()).rows == []


def test_a_damaged_segment_is_named(run: Path) -> None:
    (run / "steps-000001.parquet").write_bytes(b"not parquet")
    assert "steps-000001.parquet is damaged" in rows(run, STEPS, Query()).notes[0]


LOOKUPS = table("""process        request  family  time_ns  prompt_tokens  cached_tokens  evicted_tokens
                   engine_core-1  1        A       2000     100            64             32
                   engine_core-1  2        B       2100     50             0              0""")


def test_prefixes_are_listed_by_family_with_units(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", TABLES | {"prefix_lookups": LOOKUPS})
    columns = ("family", "prompt_tokens", "possible_tokens", "token_hit_ratio")
    assert rows(run, PREFIXES["family"], Query(columns=columns, where="possible_tokens > 0")).json() == {
        "rows": [{"family": "A", "prompt_tokens": 100, "possible_tokens": 96, "token_hit_ratio": 0.64}],
        "units": {"prompt_tokens": "tokens", "possible_tokens": "tokens", "token_hit_ratio": "ratio"},
    }


DRAFTS = {
    "speculation": table("""process        task  position  drafted_count  accepted_count  output_tokens  gap_ns
                            engine_core-1  chat  1         4              1               5              9000"""),
    "step_runs": table("""process        request  first_step  last_step  output_tokens  draft_tokens
                          engine_core-1  1        1           1          2              1"""),
}


@pytest.mark.parametrize(
    "listing", [*PREFIXES.values(), *BLOCKS.values(), *SPECULATION.values()], ids=[*PREFIXES, *BLOCKS, *SPECULATION]
)
def test_what_a_list_shows_and_orders_by_is_there(tmp_path: Path, listing: Listing) -> None:
    lives = table("""process        tier    block_hash  cached_ns  removed_ns  removed_reason
                     engine_core-1  device  a           0          5           evicted
                     engine_core-1  device  a           7          -           -""")
    evicted = [{**row, "evicted_by": 2} for row in LOOKUPS]
    held = table("""process        fact                 state
                    engine_core-1  worker.draft_memory  visible""")
    back = table("""process        tier  block_hash  time_ns
                    engine_core-1  cpu   a           6""")
    more = {"prefix_lookups": evicted, "kv_residency": lives, "kv_onboards": back, "facts": held}
    run = build_run(tmp_path / "run", TABLES | DRAFTS | more)
    found = rows(run, listing, Query(columns=listing.shown))
    assert found.rows
    assert set(found.rows[0]) == set(listing.shown)


def test_a_run_of_an_older_probe_says_that_it_is_one(tmp_path: Path) -> None:
    facts = table("""process        fact        state
                     engine_core-1  step.times  visible""")
    with pytest.raises(CannotAnswer, match=r"older probe recorded it, which did not know kv\.lives"):
        rows(build_run(tmp_path / "run", TABLES | {"facts": facts}), PREFIXES["family"], Query())


def test_prefixes_of_an_engine_without_a_prefix_cache_are_blind(tmp_path: Path) -> None:
    facts = table("""process        fact      state  reason                 collect
                     engine_core-1  kv.lives  blind  prefix caching is off  turn it on""")
    with pytest.raises(CannotAnswer, match=r"kv\.lives is blind, prefix caching is off\. turn it on"):
        rows(build_run(tmp_path / "run", TABLES | {"facts": facts}), PREFIXES["family"], Query())

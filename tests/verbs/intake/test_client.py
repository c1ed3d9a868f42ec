"""A client's own times beside the recording: joined where they fit, unknown where two clocks contradict each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.core.table import rows as table
from pellucid.core.units import MS_NS
from pellucid.testing.build import build_run
from pellucid.verbs.explain import explain_request

pytestmark = pytest.mark.slow

WALL = 1_796_000_000_000_000_000                # UNIX ns at CLOCK_MONOTONIC 0 of the engine's host
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ARRIVAL, FIRST, LAST = 1000, 1040, 1090         # ms: arrival, first and last token delivered


def recorded(folder: Path, **sources: int) -> Path:
    anchors = {"frontend-1": WALL, **sources}
    return build_run(folder, {
        "sources": [{"process": p, "role": p.split("-")[0], "anchor_mono_ns": 5, "anchor_wall_ns": wall + 5,
                     "config_json": "{}"} for p, wall in anchors.items()],
        "requests": table(f"""process  request  request_id  internal_id  traceparent  arrival_ns  first_delivered_ns  last_delivered_ns  finish_reason
                              core-1   1        cmpl-7      cmpl-7-x     00-{TRACE}-{CALLER}-01  {ARRIVAL * MS_NS}  {FIRST * MS_NS}  {LAST * MS_NS}  stop"""),  # noqa: E501
    })  # fmt: skip


def told(tmp_path: Path, *spans: dict[str, Any], run: Path | None = None) -> dict[str, Any]:
    file = tmp_path / "spans"
    file.write_text("\n".join(json.dumps(s) for s in spans))
    return explain_request(run or recorded(tmp_path / "run"), "cmpl-7", file)


def line(sent: float, received: float | None = None, first: float | None = None, **ids: str) -> dict[str, Any]:
    times = {"sent_unix_ns": sent, "received_unix_ns": received, "first_token_unix_ns": first}
    return {**(ids or {"request_id": "cmpl-7"}),
            **{n: WALL + round(ms * MS_NS) for n, ms in times.items() if ms is not None}}  # fmt: skip


def network(answer: dict[str, Any]) -> dict[str, Any]:
    (span,) = (s for s in answer["ttft"]["spans"] if s["span"] == "network")
    return dict(span)


def test_without_a_file_the_network_is_blind_and_says_how_to_see_it(tmp_path: Path) -> None:
    answer = explain_request(recorded(tmp_path), "cmpl-7")
    assert answer["client"] is None
    assert network(answer)["duration_ns"] is None and "--spans FILE" in network(answer)["collect"]


def test_a_client_that_says_when_it_sent_it_gives_the_network_its_part(tmp_path: Path) -> None:
    answer = told(tmp_path, line(980, 1115, 1050), line(5, request_id="other"))
    assert network(answer)["duration_ns"] == 20 * MS_NS
    assert (answer["ttft"]["total_ns"], answer["e2e"]["total_ns"]) == (60 * MS_NS, 110 * MS_NS)
    assert {n: answer["client"][n] for n in ("matched_by", "outside_ns", "skew_ns")} == {
        "matched_by": "request id", "outside_ns": 45 * MS_NS, "skew_ns": None}  # fmt: skip
    (part,) = network(answer)["parts"]
    assert "there and back it spent 45 ms outside of the engine" in part["says"]
    assert json.loads(json.dumps(answer))["client"] == answer["client"]


def test_the_calling_span_counts_among_others_of_its_trace(tmp_path: Path) -> None:
    """The agent's own span began long before: its time is no network."""
    spans = [{"traceId": TRACE, "spanId": "aaaaaaaaaaaaaaaa", "startTimeUnixNano": str(WALL)},
             {"traceId": TRACE, "spanId": CALLER, "startTimeUnixNano": str(WALL + 993 * MS_NS)}]  # fmt: skip
    answer = told(tmp_path, {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert (network(answer)["duration_ns"], answer["client"]["matched_by"]) == (7 * MS_NS, "caller's span")
    assert answer["client"]["outside_ns"] is None


def test_a_gateway_that_began_a_span_of_its_own_is_found_by_the_trace(tmp_path: Path) -> None:
    answer = told(tmp_path, line(990, traceparent=f"00-{TRACE}-{'b' * 16}-01"))
    assert (network(answer)["duration_ns"], answer["client"]["matched_by"]) == (10 * MS_NS, "trace")


@pytest.mark.parametrize(
    ("times", "skew_ms", "says"),
    [
        ((1001, None, None), 1, "it arrived before it was sent: they differ by 1.0 ms"),
        ((900, 1089, None), 1, "its answer was there before it was delivered whole"),
        ((900, None, 1038), 2, "its first token was there before it was delivered"),
        ((1300, 1430, 1350), 300, "there and back it spent 40 ms outside of the engine, whatever"),
    ],
    ids=["ahead", "behind", "behind at the first token", "far ahead"],
)
def test_times_that_the_recording_does_not_allow_leave_the_network_unknown(
    tmp_path: Path, times: tuple[float, float | None, float | None], skew_ms: int, says: str
) -> None:
    answer = told(tmp_path, line(*times))
    assert (network(answer)["duration_ns"], answer["client"]["skew_ns"]) == (None, skew_ms * MS_NS)
    assert says in network(answer)["reason"]
    assert answer["ttft"]["total_ns"] == (FIRST - ARRIVAL) * MS_NS


def test_times_on_the_limit_are_allowed(tmp_path: Path) -> None:
    answer = told(tmp_path, line(ARRIVAL, LAST, FIRST))
    assert (network(answer)["duration_ns"], answer["client"]["outside_ns"]) == (0, 0)


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ([line(980, request_id="other")], "none of its 1 spans is of this request"),
        ([], "none of its 0 spans"),
        ([line(980), line(985)], "2 spans have its request id"),
        ([line(980, traceparent=f"00-{TRACE}-{c * 16}-01") for c in "ab"], "2 spans have its trace"),
        ([line(980, 1000)], "70 ms shorter than what the engine did in it: they are not of one request"),
    ],
    ids=["another's", "nobody's", "a retry", "a trace of several calls", "too short"],
)
def test_a_file_that_does_not_tell_is_said_to_and_changes_nothing(
    tmp_path: Path, spans: list[dict[str, Any]], says: str
) -> None:
    answer = told(tmp_path, *spans)
    assert answer["client"] is None and network(answer)["duration_ns"] is None
    assert any(says in note for note in answer["notes"])


def test_a_wall_clock_that_was_set_while_the_engine_ran_places_no_clients_time(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", **{"engine_core-2": WALL + 3_600_000 * MS_NS})
    answer = told(tmp_path, line(980), run=run)
    assert any("was set by 60 min or more while it ran" in note for note in answer["notes"])
    assert network(answer)["duration_ns"] is None


def test_a_run_without_wall_times_cannot_place_a_clients(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run")
    (run / "sources-000000.parquet").unlink()
    with pytest.raises(CannotAnswer, match="no wall time"):
        told(tmp_path, line(980), run=run)

"""The page of a report: well formed, one file, nobody's words in it are markup, and every loss beside every win."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from pellucid.surface.page import charts
from pellucid.surface.page.html import e, script, script_json, table, written
from pellucid.surface.page.report import page, plotly_script
from pellucid.tune import events as ev
from pellucid.tune.effect.requests import SHARES
from pellucid.tune.report.fold import of_session, of_trial
from pellucid.tune.report.measured import Measured
from pellucid.tune.report.shape import Arms, Chain, Course, Look, Report
from tests.tune.report.made import (
    DONE,
    KEPT,
    SEEN,
    SESSION,
    A,
    boot_fault,
    journal,
    many,
    outcome,
    requests,
    same,
    told,
    whole,
)
from tests.tune.session import ALLOWED, STARTED, better, start

VOID = {"meta"}
BAD = "</script><img src=x onerror=alert(1)>"


class Seen(HTMLParser):
    """Elements as a browser would open and close them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.words += data


def seen(report: Report, plotly: str = "var Plotly = 1 < 2;") -> Seen:
    return Seen(page(report, plotly))


def figures(found: Seen) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(found.scripts[0])["figures"]
    return made


def full() -> Report:
    return told(*KEPT, DONE, outcomes={1: outcome(1.08, 24, same())})


def hostile() -> Report:
    """Everything that others may write, written by somebody who means harm."""
    proposal = ev.Proposal(A.candidate, BAD, BAD, BAD, ev.Claim("output_tokens_per_s", 0.1, 0.2))
    first = ev.Started(**{**{f: getattr(STARTED, f) for f in STARTED.__struct_fields__}, "workload": BAD, "slo": BAD,
                          "engine": BAD, "command": (BAD,)})  # fmt: skip
    broke = (ev.Broke("candidate", BAD), ev.RolledBack(1, BAD))
    kept = (ALLOWED, start(2), better(2), ev.FidelityJudged(2, "different", BAD), ev.RolledBack(2, BAD))
    events = (first, *SEEN, ev.Proposed((proposal, proposal, proposal), True, (BAD,)), ALLOWED, start(1), *broke, *kept,
              ev.Guarded(False, BAD, BAD))  # fmt: skip
    bad = outcome(notes=(BAD,), reason=BAD, troubles=(replace(boot_fault(), detail=BAD, log_tail=(BAD,)),))
    entries = journal(*events)
    return of_session(BAD, entries, {1: bad, 2: BAD}, Chain(9, BAD, (BAD,), 3, False))


def empty() -> Report:
    entries = journal()
    return of_session(SESSION, entries, {}, whole(entries))


@pytest.mark.parametrize("report", [full(), hostile(), empty(), of_trial(outcome()), of_trial(outcome(pairs_count=0))])
def test_every_page_is_well_formed_and_asks_for_nothing(report: Report) -> None:
    found = seen(report)
    assert found.open == []
    assert {name for name, _ in found.attributes} <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "type", "style"}  # fmt: skip
    assert [value for name, value in found.attributes if name == "href" and not str(value).startswith("#trial-")] == []
    assert set(found.tags).isdisjoint({"img", "iframe", "link", "object", "embed", "form", "b onerror"})


def test_the_words_of_others_are_shown_and_never_run() -> None:
    text = page(hostile(), "")
    assert "<img" not in text
    assert Seen(text).words.count(BAD) > 15
    assert len(Seen(text).scripts) == 3
    drawn = json.dumps(figures(Seen(text)))
    assert "&lt;img" in drawn and "<img" not in drawn, "Plotly reads markup in texts"


def test_no_script_runs_but_those_that_are_named() -> None:
    found = seen(full())
    (policy,) = (v for n, v in found.attributes if n == "content" and v and v.startswith("default-src"))
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in found.scripts[1:]]
    assert policy == f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'; style-src 'unsafe-inline'; img-src data:"  # noqa: E501
    assert "script-src 'none'" in page(empty(), "never put in")
    assert "never put in" not in page(empty(), "never put in")


def test_a_script_that_would_end_early_is_refused() -> None:
    for text in ("a</SCRIPT>b", "<!-- c"):
        with pytest.raises(ValueError, match="ends a script"):
            script(text)
    assert json.loads(script_json({"a": BAD + "\u2028"})) == {"a": BAD + "\u2028"}
    assert "<" not in script_json({"a": BAD})


def test_plotlys_own_script_goes_in_as_it_is() -> None:
    plotly = plotly_script()
    text = page(full(), plotly)
    assert len(text) < 6_000_000
    assert Seen(text).scripts[1] == plotly.strip()


def test_what_a_page_cannot_hold_becomes_a_question_mark() -> None:
    assert "a?b?c" in written(e("p", "a\x00b\ud800c"))
    assert "<td>–</td>" in written(table(("a",), [(None,)]))


def test_a_reader_meets_the_ending_the_conditions_and_the_verdicts() -> None:
    words = seen(full()).words
    for part in ("Kept step_token_budget=512: throughput +20%", "x86_64, AMD EPYC", "seed7", "at most 1.0%", "because",
                 "output_tokens_per_s better by 5.0% to 30%", "allowed, beside", "smallest corruption found", "0.9987",
                 "The chain holds", "Latencies of single requests", "ttft_nspresent391"):  # fmt: skip
        assert part in words, part


def test_what_is_missing_is_said() -> None:
    words = seen(told(*KEPT)).words
    assert "machinenot recorded" in words
    assert "the blocks of both arms: the journal names no outcome" in words


def test_a_broken_chain_is_told_first_and_where_it_broke() -> None:
    entries = journal(*KEPT)
    words = seen(of_session(SESSION, entries, {}, Chain(8, "ff", ("line 4: it was changed",), 0, False))).words
    assert words.index("The audit log was changed") < words.index("Conditions")
    assert "The chain is broken" in words and "line 4: it was changed" in words


def test_a_trial_that_was_not_taken_back_is_told_first() -> None:
    left = told(*KEPT[:-3], ev.NotRolledBack(1, "pid 7 is up"))
    words = seen(left).words
    assert words.index("Trial 1 was not rolled back: pid 7 is up") < words.index("Conditions")


@pytest.mark.slow
def test_two_hundred_trials_are_one_page_below_eleven_megabytes() -> None:
    entries = journal(*many(200))
    outcomes: dict[int, Measured | str] = dict.fromkeys(range(1, 201), outcome(1.0, 60))
    text = page(of_session(SESSION, entries, outcomes, whole(entries)), plotly_script())
    assert len(text.encode()) < 11_000_000
    assert text.count('id="trial-') == 200


def look(pairs_count: int, low: float | None, middle: float | None, high: float | None) -> Look:
    return Look(pairs_count, None, middle, low, high, "inconclusive")


def test_an_open_end_is_no_point_of_the_band() -> None:
    made = charts.course(Course("tpot_mean_ns", 0.03, None, (look(1, None, 1.1, None), look(2, 0.9, 1.1, 1.3))))
    band, low, high, middle = made["data"]
    assert (band["x"], band["y"]) == ([2, 2], pytest.approx([-10, 30]))
    assert low["y"][0] is None and high["y"][0] is None
    assert middle["y"] == pytest.approx([10, 10])
    (margin,) = made["layout"]["shapes"]
    assert (margin["y0"], margin["y1"]) == pytest.approx((-2.9126, 3.0), abs=1e-3)


def test_an_end_far_off_does_not_press_the_rest_into_a_line() -> None:
    made = charts.course(Course("tpot_mean_ns", 0.03, None, (look(1, 0.001, 1.0, 9000.0),)))
    least, most = made["layout"]["yaxis"]["range"]
    assert -40 < least < -6 and 6 < most < 40


def test_a_block_that_nobody_saw_is_no_dot_and_times_are_in_their_unit() -> None:
    made = charts.arms(Arms("ttft_p95_ns", (2e6, None), (4e6, 5e6)))
    assert [box["y"] for box in made["data"]] == [[2.0, None], [4.0, 5.0]]
    assert made["layout"]["yaxis"]["title"]["text"] == "ms"


def test_single_requests_are_two_lines_a_metric_and_failed_ones_are_no_points() -> None:
    made = charts.requests(requests(2.0)[:2])
    present, candidate = made["data"]
    assert (present["name"], candidate["name"]) == ("present, 39", "candidate, 39")
    assert len(present["x"]) == len(SHARES) == 101 and (present["y0"], present["dy"]) == (0, 1.0)
    assert (present["x"][0], candidate["x"][0]) == (80.0, 40.0)
    assert (made["layout"]["xaxis"]["type"], made["layout"]["xaxis"]["title"]["text"]) == ("log", "ms")


def test_losses_stand_beside_wins() -> None:
    two = (*KEPT, *SEEN, ev.Proposed((A,), True), ALLOWED, start(2), better(2, "worse", ratio=0.8),
           ev.RolledBack(2, "speed: worse"), DONE)  # fmt: skip
    (overview, *_) = figures(seen(told(*two))).values()
    assert {d["name"]: d["x"] for d in overview["data"]} == {
        "kept": pytest.approx([20]), "not kept": pytest.approx([-20])}  # fmt: skip

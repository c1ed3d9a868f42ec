from __future__ import annotations

from typing import Any

import pytest

from pellucid.catalog.servers.dialects import PLAIN, Dialect
from pellucid.collect.client.ask import Ask
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import S_NS
from pellucid.verbs.loop.asks import NO_ANSWER, NO_LENGTH, NO_TIME, TOO_LONG, Plan, Room, Wish, planned
from pellucid.workload.file import Workload
from pellucid.workload.prompts import Vocabulary, prompts
from pellucid.workload.rows import Request, Rows

SPOKEN = Dialect("x", exact_length={"go_on": True}, task=("label",))
ROOM = Room(Vocabulary(4096, 3), 100)


def of(*requests: Request) -> Workload:
    rows = Rows()
    for request in requests:
        rows.add(request)
    return rows.workload("a test", "literal")


def plan(*requests: Request, dialect: Dialect = SPOKEN, **wish: Any) -> Plan:
    return planned(of(*requests), Wish(**wish), ROOM, dialect)


def ids(ask: Ask) -> list[int]:
    assert callable(ask.prompt)
    return list(ask.prompt())


def test_arrivals_and_lengths_are_the_workloads() -> None:
    made = plan(Request(5, 7, 0), Request(6, 8, S_NS // 2))
    assert [(a.at_s, len(ids(a)), a.output_tokens) for a in made.asks] == [(0.0, 5, 7), (0.5, 6, 8)]


def test_prompts_are_those_of_the_whole_file_whatever_is_left_out() -> None:
    requests = (Request(500, 7, 0), Request(40, 8, 1, [1, 2], 16), Request(40, 8, 2, [1, 3], 16))
    whole = list(prompts(of(*requests), ROOM.vocabulary, 5))
    made = plan(*requests, seed=5)
    assert (made.left_out, made.rows) == ({TOO_LONG: 1}, (1, 2))
    assert [ids(a) for a in made.asks] == [p.tolist() for p in whole[1:]]


@pytest.mark.parametrize(("prompt", "output", "fits"), [(60, 40, True), (60, 41, False), (101, 1, False)])
def test_prompt_and_answer_have_to_fit_together(prompt: int, output: int, fits: bool) -> None:
    made = plan(Request(prompt, output, 0), Request(5, 5, 1))
    assert made.left_out == ({} if fits else {TOO_LONG: 1})


def test_what_cannot_be_asked_for_is_left_out_and_counted() -> None:
    made = plan(Request(5, 5, 0), Request(5, None, 1), Request(5, 0, 2), Request(5, 5, None), Request(500, 5, 3))
    assert (len(made.asks), made.read_count) == (1, 5)
    assert made.left_out == {NO_LENGTH: 1, NO_ANSWER: 1, NO_TIME: 1, TOO_LONG: 1}


def test_a_turn_waits_for_the_answer_before_it_and_for_its_user() -> None:
    first, second, third = plan(
        Request(5, 5, 0, session="a"), Request(5, 5, 1, session="b"),
        Request(5, 5, S_NS, session="a", think_ns=S_NS // 4), speed=2,
    ).asks  # fmt: skip
    assert (first.after, second.after) == (None, None)
    assert (third.after, third.at_s, third.earliest_s) == (0, 0.125, 0.0)


def test_a_turn_without_a_think_time_comes_at_its_time_but_not_before_the_answer() -> None:
    _, second = plan(Request(5, 5, 0, session="a"), Request(5, 5, S_NS, session="a")).asks
    assert (second.after, second.at_s, second.earliest_s) == (0, 0.0, 1.0)


def test_a_turn_follows_the_last_one_that_fits() -> None:
    turns = [Request(n, 5, i, session="a", think_ns=1 if i else None) for i, n in enumerate((5, 500, 6))]
    assert [(len(ids(a)), a.after) for a in plan(*turns).asks] == [(5, None), (6, 0)]


def test_sampling_label_and_format_are_sent() -> None:
    (ask,) = plan(Request(5, 5, 0, task="plan", temperature=0.7, top_p=0.9, response_format="json_object")).asks
    assert (ask.task, ask.ignore_eos) == ("plan", False)
    assert ask.extra == {"temperature": 0.7, "top_p": 0.9, "response_format": {"type": "json_object"}}


def test_the_likeliest_tokens_and_a_seed_are_asked_for_where_they_were() -> None:
    requests = [Request(5, 5, n, top_k=k, seeded=seeded) for n, (k, seeded) in enumerate([(20, "no"), (0, "yes")])]
    one, two = plan(*requests, dialect=Dialect("x", exact_length={"go_on": True}, top_k="best")).asks
    assert (one.extra, two.extra) == ({"best": 20}, {"best": 0, "seed": 1})
    plain = plan(*requests)
    assert [ask.extra for ask in plain.asks] == [{}, {"seed": 1}]
    assert any("1 requests are sampled from the likeliest tokens only" in note for note in plain.notes)


def test_what_is_not_in_the_source_is_not_sent() -> None:
    (ask,) = plan(Request(5, 5, 0)).asks
    assert (ask.task, ask.extra, ask.ignore_eos) == (None, {}, True)


def test_what_could_not_be_asked_for_is_said() -> None:
    requests = (Request(5, 5, 0, task="a", response_format="json"), Request(5, 5, 0, response_format="regex"))
    notes = " ".join(plan(*requests, dialect=PLAIN).notes)
    for said in ("no kind we know", "labels of 1 requests", "schemas of 1", "grammars of 1", "1 requests ask for JSON"):
        assert said in notes
    assert plan(Request(5, 5, 0, task="a", response_format="text")).notes == ()


def test_the_first_so_many_and_those_of_so_long() -> None:
    requests = [Request(5, 5, n * S_NS) for n in range(10)]
    assert len(plan(*requests, limit=3).asks) == 3
    assert len(plan(*requests, for_ns=4 * S_NS).asks) == 4
    assert len(plan(*requests, for_ns=4 * S_NS, speed=2).asks) == 8


def test_arrivals_are_drawn_where_there_are_none() -> None:
    requests = [Request(5, 5) for _ in range(2000)]
    made = plan(*requests, rate_per_s=4.0)
    assert made.asks[0].at_s == 0.0
    assert made.asks[-1].at_s == pytest.approx(500, rel=0.1)
    again, other = plan(*requests, rate_per_s=4.0), plan(*requests, rate_per_s=4.0, seed=1)
    assert [a.at_s for a in again.asks] == [a.at_s for a in made.asks] != [a.at_s for a in other.asks]


def test_answers_of_unknown_length_are_as_long_as_told() -> None:
    assert [a.output_tokens for a in plan(Request(5, None, 0), Request(5, 7, 0), output_tokens=9).asks] == [9, 7]


@pytest.mark.parametrize(
    ("request_", "wish", "says"),
    [(Request(5, 5), {}, "Try: --rate"), (Request(5, 5, 0), {"rate_per_s": 2.0}, "Try: --speed"),
     (Request(5, 5), {"rate_per_s": 0.0}, "no rate"), (Request(5, None, 0), {}, "Try: --output-tokens"),
     (Request(5, 5, 0), {"speed": 0.0}, "--speed 0"), (Request(5, 5, 0), {"tokens_ratio": -1.0}, "--scale-tokens -1")],
)  # fmt: skip
def test_a_wish_without_sense_is_refused_with_what_to_type(request_: Request, wish: dict[str, Any], says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        plan(request_, **wish)


def test_nothing_that_can_be_sent_is_an_error_with_counts() -> None:
    with pytest.raises(CannotAnswer, match=r"of 2, 2 longer than the engine takes.*100 tokens.*--scale-tokens"):
        plan(Request(500, 5, 0), Request(600, 5, 1))
    with pytest.raises(CannotAnswer, match="no request"):
        plan()


def test_a_piece_begins_at_its_own_start() -> None:
    made = plan(
        Request(5, 5, 0, session="a"), Request(5, 5, 9 * S_NS), Request(5, 5, 10 * S_NS, session="a", think_ns=S_NS),
        Request(5, 5, 12 * S_NS, session="a", think_ns=S_NS), Request(5, 5, 13 * S_NS, session="a"),
        Request(5, 5, 20 * S_NS),
    )  # fmt: skip
    assert [(a.at_s, a.after, a.earliest_s) for a in made.between(10, 20)] == [(0, None, 0), (1, 0, 0), (0, 1, 3)]


def test_pieces_side_by_side_are_the_whole() -> None:
    made = plan(*(Request(5, n + 1, n * S_NS // 3) for n in range(30)))
    pieces = [made.between(start, start + 2.5) for start in (0, 2.5, 5, 7.5)]
    assert [a.output_tokens for piece in pieces for a in piece] == [a.output_tokens for a in made.asks]

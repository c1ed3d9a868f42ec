from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import AskedWrongly
from pellucid.tune import events as e
from pellucid.tune.propose import MOST_PROPOSALS, Answer, Brief, listed, rules, together
from pellucid.tune.propose.listed import read_list
from pellucid.tune.propose.wire import MOST_BYTES, decode, encode
from pellucid.tune.space import Candidate, Setting
from pellucid.tune.state import State
from tests.tune.session import ALLOWED, STARTED, better, fidelity, proposal, start, state_after

ENGINE = Engine("vllm", "0.32.0", {"device": "cpu", "max_num_seqs": 16, "max_num_batched_tokens": 2048})
FINDING = {
    "id": "queue.sequence_cap_binding", "says": "the cap binds",
    "gain": {"metric": "ttft_mean_ns", "low_ratio": 0.1, "high_ratio": 0.4},
    "moves": [{"knob": "max_running_requests", "target": 9000.4}, {"knob": "async_scheduling", "target": 1.0}],
}  # fmt: skip
PAGE = Path(__file__).parents[3] / "docs" / "proposers.md"
RUNNING = (Setting("max_running_requests", 64),)


def brief(
    state: State | None = None, seen: tuple[Candidate, ...] = (), findings: tuple[Any, ...] = (FINDING,)
) -> Brief:
    return Brief(ENGINE, {"verdict": "it waits"}, findings, state or State(), frozenset(seen), 90_000_000_000)


def test_each_move_of_a_finding_is_a_candidate_with_the_rules_claim() -> None:
    answer = rules.propose(brief())
    assert [p.candidate for p in answer.proposals] == [
        (Setting("max_running_requests", 4096),), (Setting("async_scheduling", True),)]  # fmt: skip
    assert {(p.proposer, p.source, p.claim) for p in answer.proposals} == {
        ("rules", "queue.sequence_cap_binding", e.Claim("ttft_mean_ns", 0.1, 0.4))}  # fmt: skip
    assert answer.done


def test_what_was_seen_is_not_proposed_again_and_without_findings_there_is_nothing() -> None:
    answer = rules.propose(brief(seen=((Setting("async_scheduling", True),),)))
    assert [p.candidate[0].knob for p in answer.proposals] == ["max_running_requests"]
    assert rules.propose(brief(findings=())) == Answer((), done=True)


TOML = b"""
[[propose]]
set = { max_num_seqs = 64, step_token_budget = 512 }
why = "more at once"
claim = { metric = "output_tokens_per_s", low_ratio = 0.0, high_ratio = 0.2 }
[[propose]]
set = {}
"""


def test_a_list_is_read_from_toml_and_from_json() -> None:
    found = read_list(TOML, "c.toml", ENGINE)
    assert [p.candidate for p in found] == [
        (Setting("max_running_requests", 64), Setting("step_token_budget", 512)), ()]  # fmt: skip
    assert (found[0].why, found[0].claim) == ("more at once", e.Claim("output_tokens_per_s", 0.0, 0.2))
    as_json = json.dumps({"propose": [{"set": {"max_num_seqs": 64, "step_token_budget": 512}}]}).encode()
    assert read_list(as_json, "c.json", ENGINE)[0].candidate == found[0].candidate


@pytest.mark.parametrize(("text", "says"), [
    (b"", "missing required field"), (b"[[propose]]\n", "missing required field `set`"), (b"[[propose", "c: "),
    (b"propose = []", "no candidate"), (b'{"propose": 3}', "Expected `array`"), (b"\xff\xfe", "c: "),
    (b"[[propose]]\nset = { max_num_seq = 4 }", "entry 1: max_num_seq is no knob"),
    (b"[[propose]]\nset = { max_num_seqs = [4] }", "c: "),
    (b"[[propose]]\nsets = { max_num_seqs = 4 }", "unknown field"),
    (b'[[propose]]\nset = {}\nclaim = { metric = "fun", low_ratio = 0, high_ratio = 1 }', "claim on fun"),
    (b'[[propose]]\nset = {}\nclaim = { metric = "ttft_mean_ns", low_ratio = 1, high_ratio = 0 }', "smaller one"),
])  # fmt: skip
def test_a_list_that_does_not_read_is_refused_with_its_name(text: bytes, says: str) -> None:
    with pytest.raises(AskedWrongly, match=r"^c: ") as caught:
        read_list(text, "c", ENGINE)
    assert says in str(caught.value)


def test_the_present_configuration_against_itself_comes_as_often_as_it_is_listed() -> None:
    same = proposal()
    fresh = together((listed.propose((same, same), brief()),), frozenset())
    assert len(fresh.proposals) == 2
    tried = state_after(STARTED, e.Observed("", ""), e.Diagnosed("", []), e.Proposed((same,), False), ALLOWED, start(1))
    assert len(listed.propose((same, same), brief(tried, seen=((),))).proposals) == 1


def test_proposers_are_heard_in_turn_and_nothing_twice() -> None:
    a, b = proposal(("max_running_requests", 64)), proposal(("step_token_budget", 512), source="x.y")
    answer = together((Answer((a,), True, ("one",)), Answer((a, b), False, ("two",))), frozenset((b.candidate,)))
    assert answer == Answer((a,), done=False, trouble=("one", "two"))


def test_an_outside_program_is_told_what_is_known_in_one_line() -> None:
    a = proposal(("max_running_requests", 64))
    state = state_after(STARTED, e.Observed("", ""), e.Diagnosed("", []), e.Proposed((a,), False), ALLOWED, start(1),
                        better(1), fidelity(1, "blind"), e.RolledBack(1, "fidelity: blind"))  # fmt: skip
    line = encode(brief(state))
    said = json.loads(line)
    assert (line.count(b"\n"), said["pellucid"], said["left_s"], said["findings"]) == (1, 1, 90.0, [FINDING])
    (cap,) = (k for k in said["knobs"] if k["name"] == "max_running_requests")
    assert (cap["engines_name"], cap["present"], cap["low"], cap["high"]) == ("--max-num-seqs", 16, 1, 4096)
    (trial,) = said["history"]
    assert (trial["set"], trial["state"], trial["speed"], trial["fidelity"], trial["why"]) == (
        {"max_running_requests": 64}, "rolled back", "better", "blind", "fidelity: blind")  # fmt: skip


def test_an_answer_is_proposals_or_done() -> None:
    line = b'{"propose": [{"set": {"max_num_seqs": 64}, "why": "w"}]}\n'
    assert decode(line, "agent", ENGINE) == Answer((e.Proposal(RUNNING, "agent", "", "w"),), done=False)
    assert decode(b'{"done": "enough"}\n', "agent", ENGINE) == Answer((), done=True)


@pytest.mark.parametrize(("line", "says"), [
    (b"", "it ended without an answer"), (b'{"propose"', "in the middle of a line"), (b"hello\n", "'hello' is no"),
    (b"[]\n", "is no answer"), (b"{}\n", "either propose or done"), (b'{"propose": [], "done": "x"}\n', "either"),
    (b'{"propose": 4}\n', "is no answer"), (b'{"suggest": []}\n', "unknown field"), (b"\xff\n", "is no answer"),
    (b"[" * 100_000 + b"\n", "is no answer"), (b'{"done": "' + b"x" * MOST_BYTES + b'"}\n', "more than 1,048,576"),
])  # fmt: skip
def test_garbage_is_trouble_in_words_and_ends_it(line: bytes, says: str) -> None:
    answer = decode(line, "agent", ENGINE)
    assert (answer.proposals, answer.done, len(answer.trouble)) == ((), True, 1)
    assert says in answer.trouble[0] and len(answer.trouble[0]) < 300


@pytest.mark.parametrize(("entry", "says"), [
    ('{"set": {"colour": 1}}', "colour is no knob"), ('{"set": {"max_num_seqs": null}}', "Expected"),
    ('{"set": 1}', "Expected"), ('{"sett": {}}', "sett"), ('{"set": {}, "claims": {}}', "claims"),
    ('{"set": {"max_num_seqs": 4, "max_running_requests": 5}}', "set twice"),
])  # fmt: skip
def test_a_proposal_that_does_not_read_is_left_out_and_the_others_stand(entry: str, says: str) -> None:
    answer = decode(f'{{"propose": [{entry}, {{"set": {{"max_num_seqs": 64}}}}]}}\n'.encode(), "agent", ENGINE)
    assert [p.candidate for p in answer.proposals] == [RUNNING]
    assert answer.trouble[0].startswith("agent: proposal 1") and says in answer.trouble[0]


def test_of_too_many_proposals_the_first_are_read() -> None:
    many = {"propose": [{"set": {"max_num_seqs": n + 1}} for n in range(MOST_PROPOSALS + 1)]}
    answer = decode(json.dumps(many).encode() + b"\n", "agent", ENGINE)
    assert (len(answer.proposals), answer.trouble) == (16, ("agent: 17 proposals at once; the first 16 were read",))


def test_the_samples_of_the_page_are_read() -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (toml,) = (text for kind, text in blocks if kind == "toml")
    asked, proposed, done = (text for kind, text in blocks if kind == "json")
    assert len(read_list(toml.encode(), "page", ENGINE)) == 2
    assert json.loads(asked).keys() == json.loads(encode(brief())).keys()
    assert decode(proposed.encode(), "agent", ENGINE).trouble == () != decode(proposed.encode(), "", ENGINE).proposals
    assert decode(done.encode(), "agent", ENGINE) == Answer((), done=True)


words = st.text(max_size=5)
values = st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | words,
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))


@given(st.binary(max_size=40) | values.map(lambda v: json.dumps({"propose": v}).encode())
       | values.map(lambda v: json.dumps({"propose": [{"set": {"max_num_seqs": v}}]}).encode()))  # fmt: skip
def test_whatever_a_program_says_is_an_answer_or_trouble(said: bytes) -> None:
    answer = decode(said + b"\n", "agent", ENGINE)
    assert answer.done or answer.proposals or answer.trouble or said.strip() == b'{"propose": []}'

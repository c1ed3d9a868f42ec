"""The end that asks for a schedule, with a child that is no engine: what it says is written out here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.collect.vllm.schedule import Limits, Request, Schedules, schedule
from pellucid.collect.vllm.schedule_lines import PlannedStep, Prefill
from pellucid.collect.vllm.schedule_settings import Settings
from pellucid.collect.vllm.scheduled import Scheduled, token_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed, PellucidError

SETTINGS = Settings(2, 64, 128, 9, 16)
ASKED = [Request(0, 20, 2), Request(5, 8, 1, blocks=[7], block_tokens=8)]
LIMITS = Limits(start_s=10, silent_s=10)
# Reads what is asked of it, and keeps it; `say` writes a line.
HEAD = """#!{python}
import json, os, sys, time
if sys.argv[1] == "-c":
    print("a Python")
    sys.exit()
asked = []
def say(kind, **values): print(json.dumps(dict(kind=kind, **values)), flush=True)
def hear(): asked.append(sys.stdin.readline()); return asked[-1]
def ready(): hear(); say("ready", engine_version="0", settings={{}}, notes=["odd"])
def hear_requests():
    while hear().strip(): pass
def step(number, start_ns, **values):
    said = dict(prefills=[], decode_count=0, decode_context_tokens=0, running_count=1, waiting_count=0,
                preempted_count=0, kv_used_blocks_count=2)
    say("step", step=number, start_ns=start_ns, **{{**said, **values}})
def served(request, first_step, token_steps, **values):
    said = dict(preemptions_count=0, cached_tokens=0, finish_reason="length")
    say("request", request=request, first_step=first_step, token_steps=token_steps, **{{**said, **values}})
def end(steps, served, refused):
    totals = dict.fromkeys(("clock_ns", "prefill_tokens", "output_tokens", "preempted_count"), 0)
    say("end", steps_count=steps, served_count=served, refused_count=refused, **totals)
"""
WHOLE = """
ready(); hear_requests()
step(0, 0, prefills=[[20, 20, True]]); hear()
step(1, 100, prefills=[[8, 8, True]], decode_count=1, decode_context_tokens=21, running_count=2); hear()
served(1, 1, [[1, 1]], cached_tokens=3); served(0, 0, [[0, 1]])
open({heard!r}, "w").writelines(asked)
end(2, 2, 0)
"""
Ask = Callable[..., Scheduled]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def asked(body: str, limits: Limits = LIMITS, step_ns: Callable[[PlannedStep], int] = lambda _: 100) -> Scheduled:
        python = tmp_path / "python"
        python.write_text(HEAD.format(python=sys.executable) + body)
        python.chmod(0o755)
        return schedule(str(python), SETTINGS, ASKED, step_ns, limits=limits)

    return asked


def fault(ask: Ask, body: str, limits: Limits = LIMITS) -> PellucidError:
    with pytest.raises(PellucidError) as raised:
        ask(body, limits)
    return raised.value


def test_requests_have_their_times_and_steps_are_arrays(ask: Ask, tmp_path: Path) -> None:
    found = ask(WHOLE.format(heard=str(tmp_path / "heard")))
    assert (found.engine_version, found.notes, found.refused) == ("0", ("odd",), ())
    assert [(s.request, s.arrival_ns, s.queued_ns, s.scheduled_ns, s.first_token_ns, s.last_token_ns, s.cached_tokens)
            for s in found.served] == [(0, 0, 0, 0, 100, 200, 0), (1, 5, 100, 100, 200, 200, 3)]  # fmt: skip
    steps = found.steps
    assert (steps.start_ns.tolist(), steps.end_ns.tolist()) == ([0, 100], [100, 200])
    assert (steps.prefill_tokens.tolist(), steps.decode_context_tokens.tolist()) == ([20, 8], [0, 21])
    assert [token_ns(s, steps).tolist() for s in found.served] == [[100, 200], [200]]


def test_the_child_is_asked_in_the_engines_words(ask: Ask, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    ask(WHOLE.format(heard=str(heard)))
    assert heard.read_text().splitlines() == [
        '{"max_num_seqs":2,"max_num_batched_tokens":64,"max_model_len":128,"num_gpu_blocks":9,"block_size":16}',
        '{"arrival_ns":0,"prompt_tokens":20,"output_tokens":2,"priority":0}',
        '{"arrival_ns":5,"prompt_tokens":8,"output_tokens":1,"blocks":[7],"block_tokens":8,"priority":0}',
        "", '{"ns": 100}', '{"ns": 100}',
    ]  # fmt: skip


def test_the_caller_sees_each_step_before_it_says_how_long_it_takes(ask: Ask, tmp_path: Path) -> None:
    seen: list[PlannedStep] = []

    def step_ns(step: PlannedStep) -> int:
        seen.append(step)
        return 100

    ask(WHOLE.format(heard=str(tmp_path / "heard")), step_ns=step_ns)
    assert [(s.step, s.start_ns, s.decode_count) for s in seen] == [(0, 0, 0), (1, 100, 1)]
    assert seen[0].prefills == (Prefill(20, 20, True),)


@pytest.mark.parametrize(("body", "kind", "words"), [
    ("print('oh'); ready()", Failed, "said 'oh'"),
    ("ready(); hear_requests(); print('oh', file=sys.stderr); sys.exit(3)", Failed, "code 3. Its last lines:\n  oh"),
    ("ready(); hear_requests(); os.kill(os.getpid(), 9)", Failed, "exit code -9; it printed nothing"),
    ("ready(); hear_requests(); step(1, 0)", Failed, "out of turn"),
    ("ready(); hear_requests(); step(0, 0, prefills=[[1, True, 2]])", Failed, "Expected `int`"),
    ("hear(); step(0, 0)", Failed, "out of turn"),
    ("ready(); ready()", Failed, "out of turn"),
    ("ready(); hear_requests(); end(0, 0, 0)", Failed, "0 of 2 requests were answered"),
    ("ready(); hear_requests(); served(0, 0, [[0, 0]]); served(0, 0, [[0, 0]]); end(0, 2, 0)", Failed, "or some twice"),
    ("ready(); hear_requests(); served(0, 0, [[0, 0]]); served(1, 0, []); end(0, 2, 0)", Failed, "in a step that was"),
    ("ready(); hear_requests(); served(0, 0, []); served(1, 0, []); end(1, 2, 0)", Failed, "was said of them"),
    ("hear(); say('error', what='asked', message='no knob x')", AskedWrongly, "no knob x"),
    ("hear(); say('error', what='version', message='0 has no y')", CannotAnswer, "0 has no y"),
    ("import pellucid_probe_that_is_not_there", CannotAnswer, "has no probe"),
    ("import vllm_that_is_not_there", CannotAnswer, "has no engine"),
    ("hear(); print('TypeError: so\\nnote', file=sys.stderr); sys.exit(1)", Failed, "Error: so\n  note"),
])  # fmt: skip
def test_a_child_that_goes_wrong_is_told(ask: Ask, body: str, kind: type[PellucidError], words: str) -> None:
    found = fault(ask, body)
    assert (type(found), words in str(found)) == (kind, True), found


@pytest.mark.slow
@pytest.mark.parametrize(("body", "words"), [
    ("hear(); print('busy', file=sys.stderr, flush=True); time.sleep(60)", "silent for 1 s. Its last lines:\n  busy"),
    ("ready(); hear_requests(); time.sleep(60)", "silent for 1 s"),
    ("ready(); hear_requests(); sys.stdout.write('{'); sys.stdout.flush(); time.sleep(60)", "silent for 1 s"),
])  # fmt: skip
def test_a_silent_child_is_given_up_and_ended(ask: Ask, tmp_path: Path, body: str, words: str) -> None:
    pid = tmp_path / "pid"
    body = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n{body}"
    began_s = time.monotonic()
    found = fault(ask, body, Limits(1, 1))
    assert (type(found), words in str(found)) == (Failed, True), found
    assert time.monotonic() - began_s < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.slow
def test_a_child_that_reads_nothing_is_given_up(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ASKED", [Request(n, 1, 1) for n in range(20_000)])
    assert "has read nothing for 1 s" in str(fault(ask, "ready(); time.sleep(60)", Limits(10, 1)))


def test_an_error_told_while_requests_are_sent_is_not_lost(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ASKED", [Request(n, 1, 1) for n in range(20_000)])
    found = fault(ask, "ready(); hear(); say('error', what='asked', message='request 0 is odd')")
    assert (type(found), "request 0 is odd" in str(found)) == (AskedWrongly, True)


def test_a_time_below_nothing_is_refused(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="step 0 cannot take -1 ns"):
        ask(WHOLE.format(heard=str(tmp_path / "heard")), step_ns=lambda _: -1)


ROUNDS = """
open({starts!r}, "a").write("x")
def whole(): ready(); hear_requests(); end(0, 0, 0)
whole(); whole()
hear(); say("error", what="asked", message="no")
whole()
ready(); hear_requests(); print("oh")
"""


def test_a_child_is_asked_again_and_started_anew_after_a_fault(tmp_path: Path) -> None:
    """Its third schedule is refused and it hears on; in the fifth it goes wrong."""
    starts, python = tmp_path / "starts", tmp_path / "python"
    python.write_text(HEAD.format(python=sys.executable) + ROUNDS.format(starts=str(starts)))
    python.chmod(0o755)
    kinds: list[type] = []
    with Schedules(str(python), limits=LIMITS) as schedules:
        for _ in range(6):
            try:
                kinds.append(type(schedules.ask(SETTINGS, [], lambda _: 1)))
            except PellucidError as error:
                kinds.append(type(error))
    assert kinds == [Scheduled, Scheduled, AskedWrongly, Scheduled, Failed, Scheduled]
    assert starts.read_text() == "xx"


def test_a_python_without_an_engine_is_told() -> None:
    with pytest.raises(CannotAnswer, match="has no engine"):
        schedule(sys.executable, SETTINGS, ASKED, lambda _: 1)


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="no Python"):
        schedule("/bin/true", SETTINGS, ASKED, lambda _: 1)
    with pytest.raises(CannotAnswer, match="cannot run"):
        schedule(str(tmp_path / "none"), SETTINGS, ASKED, lambda _: 1)

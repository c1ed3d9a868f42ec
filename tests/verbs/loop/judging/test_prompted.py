"""Which prompts are chosen for a verdict on answers. The engine is a small one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pellucid.core.units import S_NS
from pellucid.verbs.loop.judging.gather import Plan
from pellucid.verbs.loop.judging.prompted import Chosen, affordable, of_workload
from pellucid.workload.file import SCHEMA, About, Workload
from tests.verbs.loop.small_engine import small_engine

PLAN = Plan(60 * S_NS, max_tokens=16)


def chosen(url: str, *rows: dict[str, Any]) -> Chosen:
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    return of_workload(Workload(About("here", "test", requests_count=len(rows)), table), 1.0, (url, {}), PLAN)


def test_prompts_are_the_workloads_with_its_sampling() -> None:
    rows = [{"prompt_tokens": 60 + n, "output_tokens": 8, "temperature": 0.5, "task": "chat"} for n in range(4)]
    with small_engine() as url:
        found = chosen(url, *rows, {"prompt_tokens": 0})
    assert all(len(p.content) >= 60 + n for n, p in enumerate(found.prompts)) and len(found.prompts) == 4
    assert {(p.task, p.temperature, p.max_tokens) for p in found.prompts} == {("chat", 0.5, 8)}
    assert "the workload's requests and as alike" in found.says
    assert "temperature in 4 of 4" in found.says and "tasks chat;" in found.says
    assert found.notes == ("1 of 5 requests of the workload are too long at that length",)
    assert found.took_ns > 0


def test_a_workload_without_sampling_says_so() -> None:
    with small_engine() as url:
        found = chosen(url, {"prompt_tokens": 40})
    assert "so the engine's own" in found.says and "no task named" in found.says


@pytest.mark.parametrize("kind", ["no_ids", "no_logprobs", "no_model", "error"])
def test_a_reference_that_does_not_score_leaves_texts_of_our_own_and_the_reason(kind: str) -> None:
    with small_engine(kind) as url:
        found = chosen(url, {"prompt_tokens": 40})
    assert found.says.startswith("texts of our own, in four tasks: the reference does not score (")
    assert isinstance(found.prompts[0].content, str)


def test_requests_without_a_prompt_leave_texts_of_our_own() -> None:
    with small_engine() as url:
        found = chosen(url, {"prompt_tokens": 0})
    assert "no request of the workload has 1 to" in found.says


@pytest.mark.parametrize(
    ("fixed_s", "token_s", "context", "most"),
    [(0.0, 0.0, None, 1024), (0.0, 0.0, 300, 219), (0.5, 0.01, None, 64), (0.0, 0.001, None, 351),
     (0.2, 0.001, 128, 47), (0.0, 1e-9, None, 1024)],
)  # fmt: skip
def test_a_prompt_is_as_long_as_there_is_time_to_score_it(
    fixed_s: float, token_s: float, context: int | None, most: int
) -> None:
    plan = Plan(300 * S_NS, max_tokens=80)      # 48 prompts with 7.25 scorings each, in 150 s: 0.431 s a scoring
    assert affordable(fixed_s, token_s, plan, context) == most

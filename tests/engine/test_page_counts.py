"""The metrics page beside the engine core: KV use, preemptions and cached tokens, of one frontend and of two."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pellucid.diagnose.run import Result, diagnose
from pellucid.store.read import open_run
from pellucid.testing.traffic import Ask, send
from tools.real_engine import COMMAND_LINE, SERVER, name_engine
from tools.recording import Served, launch, pellucid
from tools.traffic.prompts import tokens

RULE = "data.counters_disagree"
# Blocks for six of the twelve that may run at a time; what they share is 64 tokens.
FLAGS = ("--max-model-len", "512", "--max-num-seqs", "12", "--block-size", "32", "--num-gpu-blocks-override", "48")
USERS, SECONDS = 12, 20.0


@pytest.fixture(scope="module", params=[1, 2], ids=["one frontend", "two frontends"])
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Result]]:
    frontends, home = request.param, tmp_path_factory.mktemp("page")
    several = ("--api-server-count", str(frontends)) if frontends > 1 else ()
    engine, ready_s = launch(
        "tiny-dense", (*FLAGS, *several), home / "engine.log", pellucid("run", "--metrics", "{url}", "--"),
        {"PELLUCID_HOME": str(home), **(name_engine(home / "named") if several else {})},
        entry=COMMAND_LINE if several else SERVER,
    )  # fmt: skip
    served = Served(engine, "tiny-dense", home, ready_s, frozenset())
    try:
        send(served.url, served.model, asks(), SECONDS)
    finally:
        served.end()
    (result,) = (r for r in diagnose(open_run(served.folder())).results if r.rule.id == RULE)
    yield frontends, result


def asks() -> list[Ask]:
    """Each user waits for the answer before asking again."""
    pick, found = random.Random(11), list[Ask]()
    shared = tokens(pick, 64)
    for _ in range(USERS):
        for turn in range(400):
            prompt = f"{shared} {tokens(pick, 40)}"
            found.append(Ask(0.0, prompt, 160, after=len(found) - 1 if turn else None))
    return found


def test_both_had_enough_to_disagree_on(judged: tuple[int, Result]) -> None:
    frontends, result = judged
    told = result.evidence
    assert told["frontends_count"] == frontends
    assert told.number("preempted_count") >= 20
    assert told.number("recomputed_tokens") > 0
    assert told.number("cached_tokens") > 0.2 * told.number("prompt_tokens")
    assert told.number("page_kv_used_ratio") > 0.3


def test_nothing_is_found_and_what_the_page_never_has_is_said(judged: tuple[int, Result]) -> None:
    frontends, result = judged
    assert result.verdict.kind == "clear", result.verdict.says
    assert "tokens were computed again" in result.verdict.says
    assert ("frontends each counts its own" in result.verdict.says) == (frontends > 1)


def test_of_one_frontend_the_page_is_within_a_fiftieth(judged: tuple[int, Result]) -> None:
    frontends, result = judged
    if frontends > 1:
        pytest.skip("a gauge is that of the frontend that wrote last")
    told = result.evidence
    assert told.number("page_preempted_count") == pytest.approx(told.number("preempted_count"), rel=0.02, abs=3)
    assert told.number("page_cached_tokens") == pytest.approx(told.number("cached_tokens"), rel=0.02, abs=200)
    assert told.number("kv_off_ratio") < 0.02

"""Our own prompts: tasks in turn, all different, the same for the same seed."""

from __future__ import annotations

import json

from pellucid.workload.neutral import neutral


def test_tasks_come_in_turn() -> None:
    assert [p.task for p in neutral(6)] == ["chat", "code", "json", "copy", "chat", "code"]


def test_all_are_different_and_the_seed_says_which() -> None:
    made = neutral(1000, seed=3)
    assert len({p.content for p in made}) == 1000
    assert made == neutral(1000, seed=3)
    assert made[:4] == neutral(4, seed=3)
    assert made[:4] != neutral(4, seed=4)


def test_json_is_asked_for_and_shown() -> None:
    for prompt in neutral(40):
        assert (prompt.response_format is not None) == (prompt.task == "json")
        if prompt.task == "json":
            assert isinstance(prompt.content, str)
            _, *lines = prompt.content.splitlines()
            assert [set(json.loads(line)) for line in lines[1::2]] == [{"name", "city", "item", "pieces"}] * 2
            assert lines[-1].startswith("Order: ")

"""Prompts out of files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.verbs.loop.judging.asked import of_workload, read_prompts
from pellucid.verbs.loop.workload import Out, write_prompts
from pellucid.workload.file import SCHEMA, About, Workload, write
from pellucid.workload.neutral import JSON_OBJECT, Prompt
from pellucid.workload.prompts import Vocabulary


def file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_line_is_a_prompt(tmp_path: Path) -> None:
    path = file(
        tmp_path, '{"prompt": "Dear", "task": "mail", "max_tokens": 9, "temperature": 0.7, "top_p": 0.9}', "",
        '{"prompt_token_ids": [2, 818], "response_format": {"type": "json_object"}, "output_tokens": 5}',
        '{"prompt": [3, 4], "response_format": "json_object", "arrival_ns": 7}',
        '{"prompt": "x", "response_format": "text"}',
    )  # fmt: skip
    assert read_prompts(path) == [
        Prompt("mail", "Dear", 9, 0.7, 0.9), Prompt(None, (2, 818), 5, response_format=JSON_OBJECT),
        Prompt(None, (3, 4), response_format=JSON_OBJECT), Prompt(None, "x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "says"),
    [("{", "line 2"), ('{"prompt": 7}', "line 2: Expected"), ('{"prompt": ""}', "neither `prompt`"), ("{}", "neither"),
     ('{"prompt": "a", "max_tokens": 0}', "0 tokens"), ('{"prompt": [1, -1.5]}', "line 2")],
)  # fmt: skip
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        read_prompts(file(tmp_path, '{"prompt": "a"}', line))


def test_no_prompt_and_no_file_are_asked_wrongly(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no prompt in it"):
        read_prompts(file(tmp_path, ""))
    with pytest.raises(AskedWrongly, match="No such file"):
        read_prompts(tmp_path / "none")


def workload(tmp_path: Path) -> Path:
    rows = [
        {"arrival_ns": 0, "prompt_tokens": 20, "output_tokens": 7, "blocks": [0, 1], "block_tokens": 16, "task": "chat",
         "temperature": 0.5},
        {"arrival_ns": 9, "prompt_tokens": 18, "output_tokens": None, "blocks": [0, 2], "block_tokens": 16,
         "max_tokens": 40, "response_format": "json_schema"},
        {"arrival_ns": 9, "prompt_tokens": 5, "output_tokens": 1},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    write(Workload(About("here", "test", requests_count=3), table), tmp_path / "w.parquet")
    return tmp_path / "w.parquet"


def test_a_workloads_prompts_have_its_lengths_sampling_and_prefixes(tmp_path: Path) -> None:
    one, two = of_workload(workload(tmp_path), Vocabulary(500, 10), count=2, seed=1)
    assert (one.task, one.max_tokens, one.temperature, one.response_format) == ("chat", 7, 0.5, None)
    assert (two.task, two.max_tokens, two.temperature, two.response_format) == (None, 40, None, JSON_OBJECT)
    assert (len(one.content), len(two.content)) == (20, 18)
    assert one.content[:16] == two.content[:16]
    assert one.content[16:18] != two.content[16:18]


def test_without_a_vocabulary_the_text_is_ours_and_json_is_asked_for_where_it_was(tmp_path: Path) -> None:
    one, two, three = of_workload(workload(tmp_path), None, count=9, seed=1)
    assert (one.task, one.max_tokens, one.temperature) == ("chat", 7, 0.5)
    assert [isinstance(p.content, str) for p in (one, two, three)] == [True] * 3
    assert [p.response_format for p in (one, two, three)] == [None, JSON_OBJECT, None]
    assert "JSON" in str(two.content) and len({one.content, two.content, three.content}) == 3


def test_what_synthesise_writes_is_read(tmp_path: Path) -> None:
    write_prompts(workload(tmp_path), Out(tmp_path / "p.jsonl"), Vocabulary(500, 10), seed=1)
    told = [(p.content, p.max_tokens) for p in read_prompts(tmp_path / "p.jsonl")]
    assert told[0] == (of_workload(workload(tmp_path), Vocabulary(500, 10), 1, 1)[0].content, 7)
    assert [most for _, most in told] == [7, 40, 1]

"""Prompts out of files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.verbs.loop.judging.asked import read_prompts
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


def test_what_synthesise_writes_is_read(tmp_path: Path) -> None:
    rows = [
        {"arrival_ns": 0, "prompt_tokens": 20, "output_tokens": 7}, {"prompt_tokens": 18, "max_tokens": 40},
        {"prompt_tokens": 5, "output_tokens": 1},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    write(Workload(About("here", "test", requests_count=3), table), tmp_path / "w.parquet")
    write_prompts(tmp_path / "w.parquet", Out(tmp_path / "p.jsonl"), Vocabulary(500, 10), seed=1)
    told = [(len(p.content), p.max_tokens) for p in read_prompts(tmp_path / "p.jsonl")]
    assert told == [(20, 7), (18, 40), (5, 1)]

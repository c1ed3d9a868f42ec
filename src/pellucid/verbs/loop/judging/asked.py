"""Prompts out of a file of them, or out of a workload. (Our own text is `pellucid.workload.neutral`.)

    read_prompts(path)      JSON lines: {"prompt": "Dear", "task": "mail", "max_tokens": 64, "temperature": 0.7}
                                        {"prompt_token_ids": [2, 818], "response_format": {"type": "json_object"}}
    of_workload(path, None, count, seed=0)                    our own text, with the workload's answers and sampling
    of_workload(path, Vocabulary(262_144), count, seed=0)     ids of nobody, as long and as alike as the workload's
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import Workload, read
from pellucid.workload.neutral import JSON_OBJECT, Prompt, neutral
from pellucid.workload.prompts import Vocabulary
from pellucid.workload.prompts import prompts as synthesised

A_LINE = 'A line is {"prompt": "…", "task": "…"}'


class _Line(msgspec.Struct):
    """As written by people, or by `pellucid workload synthesise`."""

    prompt: str | list[int] | None = None
    prompt_token_ids: list[int] | None = None
    task: str | None = None
    max_tokens: int | None = None
    output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    response_format: dict[str, Any] | str | None = None


def read_prompts(path: Path) -> list[Prompt]:
    """Raises AskedWrongly with the line that does not read."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise AskedWrongly(f"{path}: {error.strerror or error}") from error
    found = [_prompt(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise AskedWrongly(f"{path} has no prompt in it. {A_LINE}")
    return found


def _prompt(path: Path, number: int, line: bytes) -> Prompt:
    try:
        said = msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError as error:
        raise AskedWrongly(f"{path}, line {number}: {error}. {A_LINE}") from error
    content: str | list[int] | tuple[int, ...] | None = said.prompt_token_ids if said.prompt is None else said.prompt
    if not content:
        raise AskedWrongly(f"{path}, line {number}: neither `prompt` nor `prompt_token_ids` has anything in it")
    most = said.max_tokens if said.max_tokens is not None else said.output_tokens
    if most is not None and most < 1:
        raise AskedWrongly(f"{path}, line {number}: an answer of {most} tokens says nothing")
    wanted = {"type": said.response_format} if isinstance(said.response_format, str) else said.response_format
    wanted = None if wanted is None or wanted.get("type") == "text" else wanted
    content = content if isinstance(content, str) else tuple(content)
    return Prompt(said.task, content, most, said.temperature, said.top_p, wanted)


def of_workload(path: Path, vocabulary: Vocabulary | None, count: int, seed: int) -> list[Prompt]:
    """The first `count` requests with the workload's answer lengths, tasks and sampling.

    With a vocabulary they are token ids of nobody, as long and as alike as the workload's; without, our own text, which
    says more of what a model does with people's prompts. A response format other than text is asked for as any JSON
    object: schemas are not recorded. Raises AskedWrongly where the file is no workload.
    """
    workload = read(path)
    rows = workload.requests.slice(0, count)
    told = rows.select(["task", "max_tokens", "output_tokens", "temperature", "top_p", "response_format"]).to_pylist()
    wants = [(row["response_format"] or "").startswith("json") for row in told]
    if vocabulary is None:
        contents = _own_text(wants, seed)
    else:
        ids = synthesised(Workload(workload.about, rows), vocabulary, seed)
        contents = [tuple(tokens.tolist()) for tokens in ids]
    return [
        Prompt(row["task"], content, row["output_tokens"] or row["max_tokens"], row["temperature"], row["top_p"],
               JSON_OBJECT if json else None)
        for row, content, json in zip(told, contents, wants, strict=True)
    ]  # fmt: skip


def _own_text(wants_json: Sequence[bool], seed: int) -> list[str | tuple[int, ...]]:
    made = neutral(4 * len(wants_json), seed)
    ours = {json: iter([p.content for p in made if (p.response_format is not None) == json]) for json in (True, False)}
    return [next(ours[json]) for json in wants_json]

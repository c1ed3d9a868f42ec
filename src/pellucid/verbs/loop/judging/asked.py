"""Prompts out of a file of them. (Those of a workload are `shaped`; our own text is `pellucid.workload.neutral`.)

    read_prompts(path)      JSON lines: {"prompt": "Dear", "task": "mail", "max_tokens": 64, "temperature": 0.7}
                                        {"prompt_token_ids": [2, 818], "response_format": {"type": "json_object"}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pellucid.core.errors import AskedWrongly
from pellucid.workload.neutral import Prompt

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
    top_k: int | None = None
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
    return Prompt(said.task, content, most, said.temperature, said.top_p, said.top_k, wanted)

"""What an engine's command line means, and the same command with one thing changed. Words in, words out.

    vllm = understood(("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--port=8000"))
    vllm.engine                                         "vllm"
    value(words, vllm.port)                             "8000"
    put(words, vllm.port, "40123")                      … --model m --port 40123
    model(words, vllm)                                  "m"

A flag is found as `--flag value`, as `--flag=value`, and with underscores for its hyphens. A command inside of a text
(`sh -c '…'`) is not looked into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePath

import msgspec

from pellucid.core.errors import AskedWrongly

FOLDER = Path(__file__).parent
Words = tuple[str, ...]


class CommandLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The head of command_lines.toml says what each field means."""

    programs: list[str]
    modules: list[str]
    subcommand: str
    port: list[str]
    host: list[str]
    model: list[str]
    api_key: list[str]
    api_key_env: str
    health: str
    version: str
    device_flags: list[list[str]]
    device_env: str
    core_env: str
    share: list[str]
    share_default: float
    kv_bytes: list[str]
    kv_gib_env: str
    process_bytes: int
    engine: str = ""      # the entry's name


@cache
def command_lines() -> dict[str, CommandLine]:
    """By engine. Raises ValueError that names the file and the key."""
    path = FOLDER / "command_lines.toml"
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=dict[str, CommandLine])
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return {engine: msgspec.structs.replace(entry, engine=engine) for engine, entry in found.items()}


def understood(words: Sequence[str]) -> CommandLine:
    """Whose command it is. Raises AskedWrongly where it is nobody's we know."""
    for entry in command_lines().values():
        if any(PurePath(w).name in entry.programs for w in words):
            return entry
        if any(a == "-m" and b.startswith(tuple(entry.modules)) for a, b in pairwise(words)):
            return entry
    known = ", ".join(command_lines())
    raise AskedWrongly(f"no engine is seen in the command {' '.join(words)!r} (known: {known}). It has to be there "
                       "word by word, not inside of a text for a shell")  # fmt: skip


def value(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The flag's last value, which is the one that counts; None where it is not there."""
    found = list(_places(words, names))
    if not found:
        return None
    start, end = found[-1]
    return words[start].partition("=")[2] if end == start + 1 else words[end - 1]


def put(words: Sequence[str], names: Sequence[str], text: str) -> Words:
    """With that value, and no other of the same flag."""
    return (*without(words, names), names[0], text)


def without(words: Sequence[str], names: Sequence[str]) -> Words:
    """Without the flag and its values."""
    gone = {i for start, end in _places(words, names) for i in range(start, end)}
    return tuple(w for i, w in enumerate(words) if i not in gone)


def model(words: Sequence[str], entry: CommandLine) -> str | None:
    """The model's name or folder; None where the command does not say."""
    flagged = value(words, entry.model)
    if flagged is not None or entry.subcommand not in words:
        return flagged
    behind = words[words.index(entry.subcommand) + 1:][:1]
    return next((w for w in behind if not w.startswith("-")), None)


def devices_count(words: Sequence[str], entry: CommandLine) -> int:
    """Devices that one engine takes. Raises AskedWrongly where the command has no number for it."""
    count = 1
    for names in entry.device_flags:
        text = value(words, names) or "1"
        if not text.isdigit() or int(text) < 1:
            raise AskedWrongly(f"{names[0]} {text}: is not a number of devices")
        count *= int(text)
    return count


def _places(words: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First word and the one behind the last, for each time the flag is there."""
    for i, word in enumerate(words):
        flag, equals, _ = word.partition("=")
        if _spelled(flag) in names:
            takes_next = not equals and i + 1 < len(words) and not _is_flag(words[i + 1])
            yield i, i + 1 + takes_next


def _spelled(flag: str) -> str:
    return flag[:2] + flag[2:].replace("_", "-") if flag.startswith("--") else flag


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()

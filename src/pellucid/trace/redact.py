"""Texts of a trace → the same without secrets, names of people and names of machines. Applied before a text is kept.

    Redactor().text("load /home/ada/w.bin with hf_AbCdEfGhIjKlMnOpQrSt")  == "load ~/w.bin with ~"

What a whole field of a file holds (an environment, a command line, names of processes) is never read; the loaders count
it with `dropped`. Here is what may stand inside a text that is kept: an annotation, the name of a kernel, a scalar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GONE = "~"
LONGEST_CHARACTERS = 32_768     # chosen: six times the longest name in the recordings we know, 5,096

# What a text has that any rule below changes. Looking for each is a hundred times as fast as the rules.
SUSPECT = ("/", "\\", "@", "token", "secret", "passw", "passphrase", "key", "credential", "bearer ", "basic ", "user",
           "host", "login", "logname", "hf_", "sk-", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "akia",
           "asia", "xox", "aiza", "ya29", "glpat-", "nvapi-", "eyj")  # fmt: skip
DOTTED = re.compile(r"\d\.\d+\.\d+\.\d")
HOME = re.compile(r"(?i)(?<![\w.~-])(?:[a-z]:)?[/\\]+(?:home|users|export/home)[/\\]+[^/\\\s\"':;,()\[\]<>]+")
INNER_HOME = re.compile(r"(?i)(?<=\w)([/\\])(?:home|users)[/\\][^/\\\s\"':;,()\[\]<>]+")
# Prefixes as issuers document them: Hugging Face, OpenAI, GitHub, AWS, Slack, Google, GitLab, NVIDIA; JSON Web Token.
KEY = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
                 r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|glpat-[\w-]{16,}"
                 r"|nvapi-[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)")  # fmt: skip
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{12,}")
# A value behind a telling name; a number is none (tokens=8000), and neither is a C++ scope (Token::sort).
NAMED = re.compile(r"(?i)\b([\w-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key"
                   r"|credentials?)[\"']?\s*(?:=|:(?!:))\s*[\"']?)(?![\d.]+\b)[^\s\"',;()<>~]{4,}")  # fmt: skip
PERSON = re.compile(r"(?i)\b((?:user(?:name)?|host(?:name)?|login|logname)[\"']?\s*=\s*[\"']?)[^\s\"',;()<>~]+")
LOGIN = re.compile(r"(?<=://)[^/\s:@]+(?::[^/\s@]*)?@")
MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
RULES = ((HOME, GONE), (INNER_HOME, rf"\1{GONE}"), (KEY, GONE), (BEARER, rf"\1 {GONE}"), (NAMED, rf"\1{GONE}"),
         (PERSON, rf"\1{GONE}"), (LOGIN, f"{GONE}@"), (MAIL, GONE), (ADDRESS, GONE))  # fmt: skip

# Keys of a file's head that hold an environment, a command line, a person or a machine: never read, counted.
SECRET_FIELDS = re.compile(r"(?i)env(iron(ment)?)?(_?vars?)?$|^cmd|command|^argv?s?$|host_?name|^host$|user|login"
                           r"|^owner|started_by|token|secret|passw|credential|api_?key|^metadata$"
                           r"|^process")  # fmt: skip


def _suspect(text: str, signs: Sequence[str]) -> bool:
    lower = text.lower()
    for sign in signs:      # not any(…): a generator for each text takes longer than looking
        if sign in lower:
            return True
    return "." in text and DOTTED.search(text) is not None


@dataclass(slots=True)
class Redactor:
    """Counts what it takes out."""

    count: int = 0

    def texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Many at once: what stands in none of them is looked for once."""
        every = tuple(texts)
        whole = "\n".join(every).lower()
        signs = tuple(sign for sign in SUSPECT if sign in whole)
        return tuple(self.text(text, signs) for text in every)

    def text(self, text: str, signs: Sequence[str] = SUSPECT) -> str:
        if len(text) > LONGEST_CHARACTERS:
            text = text[:LONGEST_CHARACTERS] + "…"
        if not _suspect(text, signs):
            return text
        for rule, instead in RULES:
            text, found_count = rule.subn(instead, text)
            self.count += found_count
        return text

    def dropped(self, count: int = 1) -> None:
        """Values that were not read at all."""
        self.count += count

    def dropped_fields(self, names: list[str]) -> None:
        self.count += sum(SECRET_FIELDS.search(name) is not None for name in names)

"""Takes out of a text what users typed and what says where and who they are, before anything is written.

    redact("user=ada at 192.0.2.7 read /home/ada/model.bin with hf_abcdefghijkl")
    == "user=<…> at <address> read model.bin with <secret>"

What is left is cut at 300 characters. Settings are kept by what they are, not by what they are not: numbers, switches
and short names; a setting whose name sounds of a secret, a person or a place is left out.
"""

from __future__ import annotations

import json
import re

LONGEST = 300
_USERS_TEXT = re.compile(
    r"""(?i)\b((?:prompt|input|inputs|input_value|input_ids|(?:prompt_)?token_ids|output_ids|messages?|content|text|body|"""
    r"""payload|resp|response|completion|arguments|query|system)['"]?\s*[:=]\s*).*"""
)
# Folders of a path, but not of an HTTP route; folders can be names of people.
_PATH = r"(?<!GET )(?<!POST )(?<!PUT )(?<!HEAD )(?<!PATCH )(?<!DELETE )(?<![\w.])(?:~|\.{0,2})(?:/[\w.@+\-=,:]+)*/"

_FILE = re.compile(r"\.(?:py|so|cpp|cc|cu|cuh|h|rs|json|jsonl|ya?ml|toml|txt|csv|log|gz|bin|safetensors|gguf|pth?|sh)$")


def _last(found: re.Match[str]) -> str:
    """A file's name stays, since it says what it is; a folder may be somebody's."""
    last = found[0].rsplit("/", 1)[1]
    return last if _FILE.search(last) else "<path>"


def _quoted(found: re.Match[str]) -> str:
    """One short word in quotes is a name of the program's; more may be what a user typed."""
    quote, said, end = found.groups()
    kept = bool(end) and (re.fullmatch(r"[\w.\-+:/<>]{0,40}", said) or re.fullmatch(r"[A-Z]+ \S+ HTTP/[\d.]+", said))
    return found[0] if kept else f"{quote}…{end}"


_RULES = tuple((re.compile(pattern), by) for pattern, by in (
    (r"(?i)\b(authorization|proxy-authorization|cookie|set-cookie)\b(['\"]?\s*[:=]\s*).*", r"\1\2<secret>"),
    (r"\b(?:hf_|sk-|sk_|gh[pousr]_|xox[abp]-|glpat-|AKIA|ASIA)[A-Za-z0-9_\-]{8,}", "<secret>"),
    (r"(?i)\bbearer\s+\S+", "<secret>"),
    (r"\beyJ[\w\-]{8,}\.[\w\-.]+", "<secret>"),
    (r"(?i)\b([\w\-]*(?:api[_\-]?key|secret|passw(?:or)?d|passwd|credential|access[_\-]?key|private[_\-]?key|token))"
     r"(['\"]?\s*[:=]\s*['\"]?)(?!-?\d+(?:\.\d+)?(?!\w))[^\s,'\"})]+", r"\1\2<secret>"),  # `#token: 1920` counts
    (r"(?i)\b(user|user_?name|login|logname|owner|tenant|email)(['\"]?\s*[:=]\s*['\"]?)[^\s,'\"})]+", r"\1\2<…>"),
    (r"(\"[A-Z]+ [^\s?\"]*)\?[^\s\"]*", r"\1"),                              # what follows ? in an HTTP request line
    (r"[\w.+\-]+@[\w\-]+\.[\w.\-]+", "<email>"),
    (r"\b(?:https?|wss?|s3|gs|ftp|file)://\S+", "<url>"),
    (r"\b(tcp|ipc|inproc|grpc|zmq|udp)://[^\s,'\")]+", r"\1://<address>"),
    (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)(?::\d+)?", "<address>"),
    (r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])|\[?::1\]?(?::\d+)?", "<address>"),
    (_PATH + r"[\w.+\-=]+", _last),
    (r"\b[A-Za-z]:\\\S+", "<path>"),
    (r"\[\s*-?\d+(?:\s*,\s*-?\d+){7,}.*?(?:\]|$)", "[…]"),
    (r"\b(?:-?\d+,\s){8,}-?\d+", "…"),
    (r"(?<!\w)([\"'`])((?:(?!\1).)*)(\1|$)", _quoted),
))  # fmt: skip
_SETTING = re.compile(
    r"""['"]?\b([a-z][a-z0-9_]*)['"]?\s*[=:]\s*"""
    r"""(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True|False|None|'[^']*'|"[^"]*"|[A-Za-z_][\w.\-]*)(?=\s*[,)}\]])"""
)
_PRIVATE = re.compile(
    r"key|token(?!s|iz)|secret|passw|cred|auth|user|tenant|host|addr|^ip$|_ip$|url|uri|endpoint|salt|header|ssl|"
    r"cookie|template|prompt(?!_tokens)|message|text(?!_)|dir$|folder|name$(?<!model_name)(?<!served_model_name)|id$"
)
_NAME = re.compile(r"[A-Za-z0-9_][\w.+\-]{0,79}(?:/[\w.+\-]{1,80})?")
_LITERALS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def redact(text: str) -> str:
    text = _USERS_TEXT.sub(r"\1<…>", text)
    for pattern, by in _RULES:
        text = pattern.sub(by, text)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def settings(text: str) -> str | None:
    """`{'max_model_len': 16384, 'api_key': 'x'}` → '{"max_model_len": 16384}'. The first value of a name counts."""
    found: dict[str, bool | int | float | str | None] = {}
    for name, raw in _SETTING.findall(text):
        if name in found or _PRIVATE.search(name):
            continue
        if raw in _LITERALS:
            found[name] = _LITERALS[raw]
        elif raw[0].isdigit() or raw[0] == "-":
            found[name] = float(raw) if any(c in raw for c in ".e") else int(raw)
        elif (short := short_name(raw.strip("'\""))) is not None:
            found[name] = short
    return json.dumps(found) if found else None


def short_name(text: str) -> str | None:
    """A name as one may keep it: a path becomes its last part, what is more than a name is dropped."""
    last = text.rstrip("/").rsplit("/", 1)[-1] if text.startswith(("/", "~", ".")) else text
    return last if _NAME.fullmatch(last) and redact(last) == last else None

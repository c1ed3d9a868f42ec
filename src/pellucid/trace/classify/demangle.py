"""Itanium-mangled name → text of the shape a demangler prints, as far as identifiers go. Cut-off names are read to the cut.

    _ZN4vllm8moe_gateI14__hip_bfloat16Li128EEEvPKT_i   →   vllm::moe_gate<__hip_bfloat16 128 >

Enough to find the function's own name and the words between its brackets, and no more: no parameters, no
substitutions (`S1_` says what was said before), no grammar of expressions. The grammar is that of the Itanium C++ ABI,
https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling.
"""

from __future__ import annotations

import re

ANONYMOUS = "(anonymous namespace)"
# Types of one letter that a reader of words asks for; the rest says nothing about a kernel's work.
BUILTIN = {"a": "signed char", "h": "unsigned char", "f": "float", "d": "double", "t": "unsigned short",
           "b": "bool", "i": "int", "l": "long", "j": "unsigned int", "m": "unsigned long"}  # fmt: skip
TOKEN = re.compile(
    r"(?P<length>\d+)|S[A-Z0-9]*_|S[absiodt]|T[A-Z]?\d*_|A\d*_|U[lt]|D[FpthnaciduT]|(?P<open>[NIJXFZL])|(?P<close>E)|"
    r"(?P<letter>[a-z])|."
)


def is_mangled(name: str) -> bool:
    return name.startswith(("_Z", "__Z"))


def demangle(name: str) -> str:
    """Any text in, text out. What is no mangled name comes back as it is."""
    if not is_mangled(name):
        return name
    at = name.index("Z") + 1
    parts, at = _function(name, at)
    if not parts:
        return name
    inside = _arguments(name, at) if name.startswith("I", at) else ""
    return "::".join(parts) + (f"<{inside}>" if inside else "")


def _function(name: str, at: int) -> tuple[list[str], int]:
    """Identifiers of the function's name and where its own arguments begin; those of outer classes are passed over."""
    nested = name.startswith("N", at)
    at += nested
    parts: list[str] = []
    while at < len(name):
        token = TOKEN.match(name, at)
        if token is None:
            break
        if token["length"]:
            identifier, at = _identifier(name, token)
            parts.append(identifier)
        elif name[at] == "I" and nested and (after := _end_of_group(name, at)) is not None and name[after : after + 1] != "E":
            at = after
        elif nested and not parts and (token[0] in ("K", "V", "r", "R", "O") or name[at] == "S"):
            at = token.end()
        elif name[at] == "L" and not parts:
            at += 1
        else:
            break
        if not nested and parts:
            break
    return parts, at


def _identifier(name: str, token: re.Match[str]) -> tuple[str, int]:
    length = int(token["length"][:9])
    identifier = name[token.end() : token.end() + length]
    return (ANONYMOUS if identifier.startswith("_GLOBAL__N") else identifier), token.end() + length


def _end_of_group(name: str, at: int) -> int | None:
    """The place after the `E` that closes what opens at `at`; None where the name is cut off before."""
    depth = 0
    for at_, kind, _ in _tokens(name, at):
        depth += (kind == "open") - (kind == "close")
        if depth == 0:
            return at_
    return None


def _arguments(name: str, at: int) -> str:
    """Identifiers, types and numbers between the brackets that open at `at`, in their order."""
    said: list[str] = []
    depth = 0
    for _, kind, text in _tokens(name, at):
        depth += (kind == "open") - (kind == "close")
        if depth == 0:
            break
        if text:
            said.append(text)
    return " ".join(said)


def _tokens(name: str, at: int) -> list[tuple[int, str, str]]:
    """(where it ends, open | close | word | other, what it says) from `at` on."""
    found: list[tuple[int, str, str]] = []
    literals: list[int] = []   # depths at which a literal `L type value E` is open
    depth = 0
    while at < len(name) and (token := TOKEN.match(name, at)):
        kind, text, at = token.lastgroup or "other", "", token.end()
        in_literal = bool(literals) and literals[-1] == depth
        if kind == "length" and in_literal:
            kind, said = "word", found[-1][2]
            text = f"({said}){token[0]}" if found[-1][1] == "close" and said else token[0]
        elif kind == "length":
            text, at = _identifier(name, token)
            kind = "word"
        elif kind == "letter" and in_literal:
            kind = "other"
        elif kind == "letter":
            text = BUILTIN.get(token[0], "")
        elif kind == "open":
            depth += 1
            if token[0] == "L":
                literals.append(depth)
        elif kind == "close":
            if in_literal:
                literals.pop()
            depth -= 1
        found.append((at, kind, text))
    return found

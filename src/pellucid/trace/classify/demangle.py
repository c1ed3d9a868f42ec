"""Itanium-mangled name → text of the shape a demangler prints, as far as identifiers go. A cut ends it.

    _ZN6engine8moe_gateI14__hip_bfloat16Li128EEEvPKT_i   →   engine::moe_gate<__hip_bfloat16 (int)128>

Enough to find the function's own name and the words between its brackets, and no more: no parameters, no
substitutions (`S1_` says what was said before), no grammar of expressions. The grammar is that of the Itanium C++ ABI,
https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ANONYMOUS = "(anonymous namespace)"
ARGUMENT_CHARS = 800    # chosen: the type that names the work comes first, layouts and tiles by the thousand after it
# Types of one letter that a reader of words asks for; the rest says nothing about a kernel's work.
BUILTIN = {"a": "signed char", "h": "unsigned char", "f": "float", "d": "double", "t": "unsigned short",
           "b": "bool", "i": "int", "l": "long", "j": "unsigned int", "m": "unsigned long"}  # fmt: skip
FLOATS = {"DF16b": "bfloat16", "DF16_": "half", "Dh": "half"}
QUALIFIERS = ("K", "V", "r", "R", "O", "L")   # const, volatile, restrict, & and &&; L: known in this file only
TOKEN = re.compile(
    r"(?P<length>\d+)|S[A-Z0-9]*_|S[absiodt]|T[A-Z]?\d*_|A\d*_|U[lt]|DF\d+_?b?|D[pthnaciduT]|(?P<open>[NIJXFZL])|(?P<close>E)|"
    r"(?P<letter>[a-z])|."
)


def is_mangled(name: str) -> bool:
    return name.startswith(("_Z", "__Z"))


def demangle(name: str) -> str:
    """Any text in, text out. What is no mangled name comes back as it is."""
    if not is_mangled(name):
        return name
    at = name.index("Z") + 1
    nested = name.startswith("N", at)
    at += nested
    parts: list[str] = []
    inside = ""
    while (token := TOKEN.match(name, at)) and (nested or not parts):
        if token["length"]:
            (identifier, at), inside = _identifier(name, token), ""
            parts.append(identifier)
        elif token[0] == "I" and parts:      # an outer class's, unless nothing but the end follows
            inside, at = _arguments(name, at)
        elif not parts and (token[0] in QUALIFIERS or token[0].startswith("S")):
            at = token.end()
        else:
            break
    if not parts:
        return name
    if not nested and name.startswith("I", at):
        inside, at = _arguments(name, at)
    return "::".join(parts) + (f"<{inside}>" if inside else "")


def _identifier(name: str, token: re.Match[str]) -> tuple[str, int]:
    length = int(token["length"][:9])
    identifier = name[token.end() : token.end() + length]
    return (ANONYMOUS if identifier.startswith("_GLOBAL__N") else identifier), token.end() + length


def _arguments(name: str, at: int) -> tuple[str, int]:
    """Identifiers, types and numbers between the brackets that open at `at`, in their order, and where
    they end, or where reading stopped."""
    said: list[str] = []
    depth, end, stop = 0, at, at + ARGUMENT_CHARS
    for end, kind, text in _tokens(name, at):
        depth += (kind == "open") - (kind == "close")
        if text:
            said.append(text)
        if depth == 0:
            break
        if end > stop:
            return " ".join(said), len(name)
    return " ".join(said), end


def _tokens(name: str, at: int) -> Iterator[tuple[int, str, str]]:
    """(where it ends, open | close | length | letter | other, what it says) from `at` on."""
    last = ""                  # what the identifier or letter before said: the type of a literal
    literals: list[int] = []   # depths at which a literal `L type value E` is open
    typed = False              # has the innermost literal its type, so that a number is its value?
    depth = 0
    while token := TOKEN.match(name, at):
        kind, text, at = token.lastgroup or "other", "", token.end()
        in_literal = bool(literals) and literals[-1] == depth
        if kind == "length" and in_literal and typed:
            text = f"({last}){token[0]}"
        elif kind == "length":
            text, at = _identifier(name, token)
            last, typed = text, True
        elif kind == "letter" and not in_literal:
            text = BUILTIN.get(token[0], "")
        elif kind == "letter":
            last, typed = BUILTIN.get(token[0], ""), True
        elif kind == "open":
            depth += 1
            if token[0] == "L":
                literals.append(depth)
                typed = False
        elif kind == "close":
            if in_literal:
                literals.pop()
            depth -= 1
        elif token[0] in FLOATS:
            text = FLOATS[token[0]]
        yield at, kind, text

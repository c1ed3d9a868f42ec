"""A kernel's name, demangled or short → the function's name and what stands between its brackets.

    void at::native::elementwise_kernel<128, 4, at::native::FillFunctor<float>>(int, T1)
        → Parts("at::native::elementwise_kernel", "128, 4, at::native::FillFunctor<float>")
    Memcpy HtoD (Pinned -> Device)
        → Parts("Memcpy HtoD", "")

Names that a profiler has cut off, and brackets that do not close, are read as far as they go. Parameters are left out:
they are types that any kernel may take.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BRACKET = re.compile(r"[<>()]")
NAMESPACE = ("(anonymous", "(unnamed")     # in brackets, and part of the name
SAID_WITH_SPACES = ("memcpy", "memset", "[cuda")
AFTER = re.compile(r"\s*\[clone .*|\.kd$")


@dataclass(frozen=True, slots=True)
class Parts:
    head: str          # with namespaces, without brackets, return type and parameters
    arguments: str     # of the templates, the outermost brackets left out; "" where there are none


def split(name: str) -> Parts:
    name = AFTER.sub("", name.strip()) if "[clone" in name or name.endswith(".kd") else name.strip()
    if "<" not in name and "(" not in name:
        return Parts(_without_return_type(name), "")
    outside: list[str] = []
    inside: list[str] = []
    depth = start = 0
    for bracket in BRACKET.finditer(name):
        at, sign = bracket.start(), bracket[0]
        if sign in "<(":
            if depth == 0:
                outside.append(name[start:at])
                if sign == "(" and not name.startswith(NAMESPACE, at):
                    start = len(name)
                    break
                start = at + 1
            depth += 1
        elif depth and name[at - 1] != "-":
            depth -= 1
            if depth == 0:
                inside.append(name[start:at])
                start = at + 1
    (inside if depth else outside).append(name[start:])
    return Parts(_without_return_type("".join(outside)), ", ".join(inside))


def _without_return_type(head: str) -> str:
    head = head.strip()
    if " " not in head or head[:6].lower().startswith(SAID_WITH_SPACES):
        return head
    return head.rsplit(" ", 1)[1] if head.startswith(("void ", "static ", "__global__ ")) or "::" in head else head

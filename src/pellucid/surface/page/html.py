"""Elements of a page. Text is escaped when the page is written, wherever it comes from; nothing here takes markup.

    e("p", "less than ", e("code", "<3"), class_="quiet")      <p class="quiet">less than <code>&lt;3</code></p>
    table(("metric", "change"), [("itl_p95_ns", "+8.0%")])
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

MISSING = "–"
NOT_ALLOWED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")      # control characters, half characters
Part = Element | str | None


def e(tag: str, *parts: Part, **attributes: str) -> Element:
    """None is left out. `class_` is class; an underscore within a name is a hyphen."""
    element = Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
    add(element, *parts)
    return element


def add(element: Element, *parts: Part) -> None:
    for part in parts:
        if isinstance(part, Element):
            element.append(part)
        elif part is not None and len(element):
            element[-1].tail = (element[-1].tail or "") + _allowed(part)
        elif part is not None:
            element.text = (element.text or "") + _allowed(part)


def said(text: str) -> Element:
    """Words of somebody else: of a proposer, an engine, a command line. Their direction of writing stays inside."""
    return e("span", text, class_="said")


def table(heads: Sequence[str], rows: Iterable[Sequence[Part]]) -> Element:
    """A wide one scrolls by itself on a narrow screen."""
    body = e("tbody", *(e("tr", *(e("td", MISSING if cell is None else cell) for cell in row)) for row in rows))
    return e("div", e("table", e("thead", e("tr", *(e("th", h) for h in heads))), body), class_="wide")


def pairs(rows: Iterable[tuple[str, Part]]) -> Element:
    """Labels with what stands beside them; None is said to be not recorded."""
    found = e("dl")
    for label, value in rows:
        add(found, e("dt", label), e("dd", e("span", "not recorded", class_="quiet") if value is None else value))
    return found


def bullets(items: Iterable[Part]) -> Element | None:
    found = [e("li", item) for item in items]
    return e("ul", *found) if found else None


def written(element: Element) -> str:
    return f"<!doctype html>\n{tostring(element, encoding='unicode', method='html')}\n"


def script(text: str, **attributes: str) -> Element:
    """As it is, to the last character. Raises ValueError for a text that would end its element."""
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("a script holds what ends a script")
    found = e("script", **attributes)
    found.text = text
    return found


def script_json(value: Any) -> str:
    """JSON that may stand in a script: no character in it ends that or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _allowed(text: str) -> str:
    """What no page may hold becomes a question mark."""
    return NOT_ALLOWED.sub("?", text)

"""Text or JSON of others → numbers in our units. What cannot be right is refused with the reason it is counted under.

    tokens("4808") == 4808        tokens("") is None        tokens("-1") → Unfit("negative")
    seconds_ns("5.25") == 5_250_000_000
    wall_ns("2023-11-16 18:17:03.9799600") == 1700158623979960000
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from pellucid.core.units import S_NS

MOST_TOKENS = 10**9            # chosen: a thousand times the longest context there is
MOST_NS = 2**62                # 146 years; what is longer is in another unit
_WALL = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)?")
UNREADABLE, NEGATIVE, CUT = "unreadable", "negative", "cut"
NO_PROMPT, BLOCKS = "no prompt", "blocks do not fit the prompt"


class Unfit(ValueError):
    """A line that cannot be a request; its text is the reason, one of the words above."""


def tokens(text: str) -> int | None:
    """A length; None for an empty cell. Raises Unfit."""
    value = _decimal(text)
    if value is None:
        return None
    if value != value.to_integral_value():
        _refuse(UNREADABLE)
    return checked_tokens(int(value))


def checked_tokens(count: int) -> int:
    """Raises Unfit where no prompt and no answer can be so long."""
    if not 0 <= count <= MOST_TOKENS:
        _refuse(NEGATIVE if count < 0 else UNREADABLE)
    return count


def prompt(count: int | None) -> int:
    """Raises Unfit where there is no prompt: nothing could be asked."""
    if not count:
        _refuse(NO_PROMPT)
    return count


def seconds_ns(text: str) -> int | None:
    return scaled_ns(text, S_NS)


def scaled_ns(text: str, unit_ns: int) -> int | None:
    """A moment in any unit, to the nanosecond; None for an empty cell. Raises Unfit."""
    value = _decimal(text)
    if value is None:
        return None
    return _moment(int((value * unit_ns).to_integral_value()))


def wall_ns(text: str) -> int | None:
    """A date with its time, UTC unless it says otherwise, as Unix nanoseconds. Raises Unfit."""
    if not text.strip():
        return None
    match = _WALL.fullmatch(text.strip())
    if match is None:
        _refuse(UNREADABLE)
    whole, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(whole + (zone or ""))
    except ValueError:
        _refuse(UNREADABLE)
    seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return _moment(seconds * S_NS + int((fraction or "0").ljust(9, "0")))


def _moment(value_ns: int) -> int:
    if not 0 <= value_ns < MOST_NS:
        _refuse(NEGATIVE if value_ns < 0 else UNREADABLE)
    return value_ns


def _decimal(text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        _refuse(UNREADABLE)
    if not value.is_finite() or value.adjusted() > 20:     # more digits than any moment has
        _refuse(UNREADABLE)
    return value


def _refuse(reason: str) -> NoReturn:
    raise Unfit(reason)

"""Requests that say when they ended and which conversation they belong to → requests with sessions and think times.

    conversation  from  to        session  think
    a             0     3         7c1d…    -           the first
    -             1     2         -        -
    a             5     6         7c1d…    2
    a             5.5   7         7c1d…    -           did not wait for the answer before it: an agent's parallel calls

What a session is called is a keyed hash: names of users and of tickets are found in such ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from pellucid.workload.fields import UNREADABLE, Unfit, prompt, scaled_ns, tokens
from pellucid.workload.rows import Request, Rows

NO_COUNTS, FAILED, NOT_ENDED = "without token counts", "failed", "not ended"
CLIENTS_ARRIVALS = ("arrivals are a benchmark's own: where it waited for answers (a fixed concurrency), they depend on "
                    "the engine that it met")  # fmt: skip
Said = int | float | str | None      # numbers may be written as text


@dataclass(frozen=True, slots=True)
class Turn:
    request: Request                 # arrival by a wall clock; without session and think time
    end_ns: int | None = None        # of its answer, by the same clock
    conversation: str = ""           # its id in the source; empty where it names none


def add_turns(turns: Sequence[Turn], key: bytes, rows: Rows) -> None:
    """Adds them in order of arrival, those without a time last. `key`: of the hashes of ids."""
    ends_ns: dict[str, int | None] = {}          # of the latest answer so far; None once one is not known
    for turn in sorted(turns, key=_arrival):
        name, arrival_ns = turn.conversation, turn.request.arrival_ns
        if not name:
            rows.add(turn.request)
            continue
        before_ns = ends_ns.get(name, 0)
        waited = name in ends_ns and before_ns is not None and arrival_ns is not None and arrival_ns >= before_ns
        think_ns = arrival_ns - before_ns if waited and arrival_ns is not None and before_ns is not None else None
        rows.add(replace(turn.request, session=_session(name, key), think_ns=think_ns))
        ends_ns[name] = None if before_ns is None or turn.end_ns is None else max(turn.end_ns, before_ns)


def said_prompt(*values: Said) -> int:
    """The first count that is there. Raises Unfit."""
    value = _first(values)
    if value is None:
        raise Unfit(NO_COUNTS)
    return prompt(tokens(str(value)))


def said_tokens(*values: Said) -> int | None:
    """The first count that is there. Raises Unfit."""
    value = _first(values)
    return None if value is None else tokens(str(value))


def said_limit(*values: Said) -> int | None:
    """An output limit; 0 and -1 stand for none. Raises Unfit."""
    value = _first(values)
    return None if value is None or str(value) in ("0", "-1") else tokens(str(value))


def said_ns(unit_ns: int, *values: Said) -> int | None:
    """The first moment that is there. Raises Unfit."""
    value = _first(values)
    return None if value is None else scaled_ns(str(value), unit_ns)


def said_setting(value: Said) -> float | None:
    """Of sampling. Raises Unfit."""
    if value is None:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise Unfit(UNREADABLE) from error
    if not math.isfinite(number) or number < 0:
        raise Unfit(UNREADABLE)
    return number


def _first(values: Sequence[Said]) -> Said:
    return next((v for v in values if v is not None), None)


def _arrival(turn: Turn) -> tuple[bool, int]:
    arrival_ns = turn.request.arrival_ns
    return arrival_ns is None, arrival_ns or 0


def _session(name: str, key: bytes) -> str:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8, key=key).hexdigest()

"""Totals → increases, over the scrapes of a recording.

    tracker.take(told_at_5s) → {Key(…, "output_tokens", "counter"): 1200.0, …}

A series that is lower than before, or was created anew, began again at zero: what it has now is its increase. One that
was not on an earlier page of its process began at zero too (the first 429 makes its own series). The first page of a
process has no increase: only gauges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pellucid.collect.openmetrics.translate import Key, Series, Told, created_key

RESETS = "counter_resets_count"
CREATED_SLACK_S = 1e-3     # the same moment, printed twice


@dataclass(slots=True)
class Tracker:
    _last: dict[Series, float] = field(default_factory=dict)
    _created: dict[Series, float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)         # processes of which there was a page

    def take(self, told: Iterable[Told], created: Mapping[Series, float]) -> dict[Key, float]:
        """Rows of one scrape; a metric of `RESETS` for each process whose counters are known."""
        values: dict[Key, float] = {}
        here: set[str] = set()
        for one in told:
            here.add(one.key.process)
            if one.key.kind == "gauge":
                values[one.key] = max(one.value, values.get(one.key, one.value))
            elif (increase := self._increase(one, created, values)) is not None:
                values[one.key] = values.get(one.key, 0.0) + increase
        for process in here & self._known:
            values.setdefault(_resets(process), 0.0)
        self._known |= here
        self._created.update(created)
        return values

    def _increase(self, one: Told, created: Mapping[Series, float], values: dict[Key, float]) -> float | None:
        before = self._last.get(one.series)
        self._last[one.series] = one.value
        if one.key.process not in self._known:
            return None
        if before is None:
            return one.value
        if one.value < before or self._created_anew(one, created):
            if one.key.kind in ("counter", "count"):
                key = _resets(one.key.process)
                values[key] = values.get(key, 0.0) + 1
            return one.value
        return one.value - before

    def _created_anew(self, one: Told, created: Mapping[Series, float]) -> bool:
        if not created:
            return False
        key = created_key(one)
        now, before = created.get(key), self._created.get(key)
        return now is not None and before is not None and now > before + CREATED_SLACK_S


def _resets(process: str) -> Key:
    return Key(process, RESETS, "counter")

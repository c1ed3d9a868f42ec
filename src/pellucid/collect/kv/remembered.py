"""A memory that forgets what is oldest, in two halves: an entry lives for at least half of the limit."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Holds `limit` / 2 to `limit` entries once it is full. Two plain dicts take half the memory of an ordered one."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._fresh: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        self._fresh[key] = value
        if len(self._fresh) >= self._half:
            self._old, self._fresh = self._fresh, {}

    def __contains__(self, key: K) -> bool:
        return key in self._fresh or key in self._old

    def get(self, key: K) -> V | None:
        found = self._fresh.get(key)
        return self._old.get(key) if found is None else found

    def forget(self, key: K) -> None:
        self._fresh.pop(key, None)
        self._old.pop(key, None)

"""Rules about what a device's time goes to: a row on which each finds something, and what moves it over a limit."""

from __future__ import annotations

from typing import Any

FOUND: dict[str, dict[str, Any]] = {}
ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = []

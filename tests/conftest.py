"""How hard property tests try: `quick` in `make check`, `thorough` in `make test` (HYPOTHESIS_PROFILE)."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("quick", max_examples=5, deadline=None)
settings.register_profile("thorough", max_examples=30, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


SHARED = Path(__file__).parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Real recordings of other people's engines, kept beside the repository. Without them CI fails; a laptop skips."""
    path = SHARED / name
    if not path.exists():
        reason = f"no {path}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path

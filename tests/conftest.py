"""How hard property tests try: `quick` in `make check`, `thorough` in `make test` (HYPOTHESIS_PROFILE)."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=5, deadline=None)
settings.register_profile("thorough", max_examples=30, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

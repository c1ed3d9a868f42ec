"""Damage anywhere is refused or counted, in every format of telemetry and results."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from tests.workload.documents.test_aiperf import TEXT as AIPERF
from tests.workload.documents.test_guidellm import SWEEP
from tests.workload.documents.test_otlp import TWO
from tests.workload.trace_files import trace


@pytest.mark.slow
@pytest.mark.parametrize("text", [AIPERF, SWEEP, TWO], ids=["aiperf", "guidellm", "otlp"])
def test_requests_are_never_more_than_those_of_the_file(tmp_path: Path, text: str) -> None:
    whole = len(trace(tmp_path, text))
    for at in range(0, len(text), 29):
        for odd in ("-", "9" * 30, "\0", '"', "1e99", "\n", "{", "]", "NaN"):
            try:
                found = trace(tmp_path, text[:at] + odd + text[at + 1 :])
            except AskedWrongly:
                continue
            assert found.requests.column("prompt_tokens").to_numpy().min() > 0
            assert len(found) + sum(found.about.left_out.values()) == found.about.read_count
            assert len(found) <= whole

"""What `top` shows: one look at the end of a run, recorded or being recorded.

    Top(folder).look() → {"run_id": "…", "state": "recording", "age_ns": 300000000, "why": {"verdict": "…", …},
                          "load": {"steps_per_s": 41.0, "output_tokens_per_s": 960.0, "running_mean_count": 24.0, …},
                          "requests": [{"request_id": "cmpl-1", "ttft_ns": 81000000, …}, …]}

Rates are over the last LOAD_NS of the run. The diagnosis, which reads more, is renewed every WHY_NS.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.clock import Anchor, Clock, monotonic_ns
from pellucid.core.errors import CannotAnswer, PellucidError
from pellucid.core.units import S_NS
from pellucid.store.read import RunReader, open_run
from pellucid.verbs.rows import last_moment_ns
from pellucid.verbs.runs import summary
from pellucid.verbs.watch.matrix import matrix
from pellucid.verbs.why import why

LOAD_NS = 10 * S_NS
WHY_SPAN_NS = 120 * S_NS     # long enough for a finding to persist over windows
WHY_NS = 5 * S_NS
MATRIX_NS = 30 * S_NS        # long enough for a tail, short enough to be now
MATRIX_HORIZON_NS = 600 * S_NS
LAST_REQUESTS = 8

_RUN = ("run_id", "state", "engine", "engine_version", "model", "duration_ns", "requests_count", "steps_count")

_LOAD = """
    SELECT count(*) AS steps_count,
           count(*) / $seconds AS steps_per_s,
           sum(output_tokens) / $seconds AS output_tokens_per_s,
           sum(prefill_tokens) / $seconds AS prefill_tokens_per_s,
           sum(recomputed_tokens) / $seconds AS recomputed_tokens_per_s,
           avg(running_count) AS running_mean_count,
           avg(waiting_count) AS waiting_mean_count,
           avg(waiting_sequence_cap_count) AS waiting_sequence_cap_mean_count,
           avg(waiting_token_budget_count) AS waiting_token_budget_mean_count,
           avg(waiting_kv_count) AS waiting_kv_mean_count,
           avg(waiting_deferred_count) AS waiting_deferred_mean_count,
           arg_max(sequence_cap_count, start_ns) AS sequence_cap_count,
           arg_max(kv_used_blocks_count, start_ns) AS kv_used_blocks_count,
           arg_max(kv_total_blocks_count, start_ns) AS kv_total_blocks_count,
           sum(preempted_count)::BIGINT AS preempted_count
    FROM steps WHERE end_ns > $since"""

_REQUESTS = f"""
    SELECT request_id, task, prompt_tokens, cached_tokens, output_tokens, ttft_ns, itl_mean_ns, e2e_ns,
           preemptions_count, finish_reason
    FROM request_latency
    ORDER BY coalesce(last_delivered_ns, finish_ns, last_token_ns, queued_ns, arrival_ns) DESC NULLS LAST, request DESC
    LIMIT {LAST_REQUESTS}"""


@dataclass(slots=True)
class Top:
    folder: Path
    clock: Clock = monotonic_ns
    wall: Clock = time.time_ns
    matrix: bool = False
    _why: dict[str, Any] | None = field(default=None)
    _matrix: dict[str, Any] | None = field(default=None)
    _why_ns: int = 0

    def look(self) -> dict[str, Any]:
        run = open_run(self.folder)
        row = summary(self.folder)
        return {
            **{k: row[k] for k in _RUN},
            "age_ns": self._age_ns(run, row["state"] == "recording"),
            "why": self._diagnosis(),
            "matrix": self._matrix,
            "load": _load(run),
            "requests": run.rows(_REQUESTS),
        }

    def _age_ns(self, run: RunReader, recording: bool) -> int | None:
        """How long ago the last row was seen. While it is recorded here, by the clock of the rows; later by the wall
        anchor of the process that wrote it. Null without one, or where the wall clock was set back since."""
        try:
            last_ns = last_moment_ns(run)
        except CannotAnswer:
            return None
        if recording:
            return self.clock() - last_ns
        anchors = run.rows("SELECT anchor_mono_ns AS mono_ns, anchor_wall_ns AS wall_ns FROM sources "
                           "WHERE anchor_mono_ns IS NOT NULL LIMIT 1")  # fmt: skip
        if not anchors:
            return None
        age_ns = self.wall() - Anchor(**anchors[0]).wall(last_ns)
        return age_ns if age_ns >= 0 else None

    def _diagnosis(self) -> dict[str, Any]:
        """A fault in the diagnosis is shown in its place; the load is worth seeing all the same."""
        now = self.clock()
        if self._why is None or now - self._why_ns >= WHY_NS:
            try:
                self._why = why(self.folder, WHY_SPAN_NS)
                self._matrix = matrix(self.folder, MATRIX_NS, MATRIX_HORIZON_NS) if self.matrix else None
            except PellucidError as error:
                self._why = {"verdict": str(error), "findings": [], "clear": [], "blind": []}
            self._why_ns = now
        return self._why


def _load(run: RunReader) -> dict[str, Any] | None:
    """Rates over the last seconds, or over the whole of a shorter run; None before the first step."""
    first_ns = run.one("SELECT min(start_ns) AS first_ns FROM steps")["first_ns"]
    if first_ns is None:
        return None
    end_ns = last_moment_ns(run)
    since_ns = max(end_ns - LOAD_NS, first_ns)
    if end_ns <= since_ns:
        return None
    return {"span_ns": end_ns - since_ns, **run.one(_LOAD, {"since": since_ns, "seconds": (end_ns - since_ns) / S_NS})}

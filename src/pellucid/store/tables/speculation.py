"""Speculation: what was drafted and kept, by task and position."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, STR, Table, columns

SPECULATION = Table("speculation", "a draft position of a task in a window of five seconds", (
    *PROVENANCE,
    *columns("task: traffic class, as in requests; null: all beyond the 64 tasks of the window that drafted most", STR),
    *columns("""
        start_ns: start of the window; a step belongs to the window in which it ended
        end_ns: end of the window
        position: draft position, 1 is the first token of a draft
        drafted_count: drafts that had a token at this position
        accepted_count: drafts whose token at this position was kept, so all before it were
        output_tokens: tokens kept in the requests' steps with a draft; null beyond position 1, as all that follow
        gap_ns: from the end of the step before to the end of the step, once for each request with a draft in it
        step_draft_tokens: draft tokens of all requests in those steps, once for each request with a draft in it
        step_draft_ns: proposing drafts in those steps, once for each request with a draft in it; null if not seen
        """),
))  # fmt: skip

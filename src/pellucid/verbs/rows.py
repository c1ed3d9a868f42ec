"""Rows of a run as a user asks for them: which columns, which rows, in what order.

    rows(folder, REQUESTS, Query(where="ttft_ns > 500ms", sort="ttft_ns", descending=True, limit=10)).json()
    → {"rows": [{"request_id": "cmpl-1", "ttft_ns": 812000000, …}, …], "units": {"ttft_ns": "ns", …}}

An empty answer means that no row fits. Where a table could not be seen at all, it raises CannotAnswer instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import unit_of
from pellucid.store.read import RunReader, open_run
from pellucid.store.where import Value, check_column, where


@dataclass(frozen=True, slots=True)
class Listing:
    """A kind of row a user can list."""

    name: str                   # as the table, for messages
    view: str                   # what is read: the table, or a view with derived columns
    last_seen: str              # SQL: the row's latest moment, for --since
    order: str                  # without --sort
    beside: str                 # the table that cannot have rows while this one has none; "" where none is an answer
    facts: frozenset[str]       # the facts that make these rows; blind when all of them are
    moments: frozenset[str]     # columns that are points in time, not durations
    shown: tuple[str, ...]      # columns of the terminal table without --columns; a narrow one has the first


REQUESTS = Listing(
    "requests", "request_latency",
    last_seen="coalesce(last_delivered_ns, finish_ns, last_token_ns, scheduled_ns, queued_ns, arrival_ns)",
    order="coalesce(arrival_ns, queued_ns), request", beside="steps",
    facts=frozenset(("request.identity", "request.queued")),
    moments=frozenset((
        "sent_ns", "arrival_ns", "submitted_ns", "queued_ns", "scheduled_ns", "first_token_ns", "first_delivered_ns",
        "last_token_ns", "finish_ns", "last_delivered_ns",
    )),
    shown=("request_id", "arrival_ns", "ttft_ns", "itl_mean_ns", "e2e_ns", "prompt_tokens", "output_tokens",
           "finish_reason", "preemptions_count", "ttft_queue_ns", "ttft_prefill_ns", "cached_tokens"),
)  # fmt: skip

STEPS = Listing(
    "steps", "steps", last_seen="end_ns", order="start_ns, process", beside="requests",
    facts=frozenset(("step.times", "step.composition")),
    moments=frozenset(("start_ns", "end_ns", "delivered_ns")),
    shown=("step", "start_ns", "host_gap_ns", "schedule_ns", "execute_ns", "update_ns", "running_count",
           "waiting_count", "prefill_tokens", "decode_tokens", "kv_used_blocks_count", "preempted_count"),
)  # fmt: skip

_SUMS = ("requests_count", "hit_requests_count", "prompt_tokens", "cached_tokens", "possible_tokens", "token_hit_ratio",
         "request_hit_ratio", "achieved_ratio", "evicted_tokens", "evicted_age_p50_ns", "salt_tokens", "lora_tokens",
         "multimodal_tokens", "tokenisation_tokens", "skipped_tokens", "never_seen_tokens", "tail_tokens")  # fmt: skip


def _lookups(view: str, order: str, shown: tuple[str, ...]) -> Listing:
    return Listing("prefixes", view, "last_ns", order, beside="requests", facts=frozenset(("kv.lives",)),
                   moments=frozenset(("last_ns",)), shown=shown)  # fmt: skip


def _blocks(view: str, order: str, moments: tuple[str, ...], shown: tuple[str, ...]) -> Listing:
    return Listing("blocks", view, "cached_ns", order, beside="requests", facts=frozenset(("kv.lives",)),
                   moments=frozenset(moments), shown=shown)  # fmt: skip


PREFIXES = {
    "family": _lookups("prefix_families", "prompt_tokens DESC, family", ("family", "tasks", *_SUMS)),
    "task": _lookups("prefix_tasks", "prompt_tokens DESC, task", ("task", *_SUMS)),
    "reason": _lookups("prefix_reasons", "tokens DESC, reason", (
        "reason", "tokens", "token_ratio", "prompt_tokens", "requests_count", "first_miss_count")),
    "evictor": _lookups("prefix_evictors", "evicted_tokens DESC, family, task", (
        "family", "task", "lookups_count", "own_lookups_count", "evicted_tokens", "evicted_age_p50_ns")),
    "all": _lookups("prefix_rates", "requests_count", _SUMS),
}  # fmt: skip

BLOCKS = {
    "tier": _blocks("kv_tiers", "tier, fate", (), (
        "tier", "fate", "blocks_count", "found_blocks_count", "hits_count", "age_p50_ns", "age_p95_ns", "idle_p50_ns",
        "idle_p95_ns", "returned_count", "away_p50_ns", "distance_p50_count", "distance_p90_count")),
    "age": _blocks("kv_ages", "tier, up_to_ns", (), ("tier", "up_to_ns", "evicted_count", "idle_count")),
    "life": _blocks("block_lives", "cached_ns, process, block_hash, kv_group", (
        "cached_ns", "last_used_ns", "freed_ns", "removed_ns"), (
        "block_hash", "tier", "cached_ns", "age_ns", "idle_ns", "hits_count", "removed_reason", "request", "removed_by",
        "tokens", "kv_group")),
    "onboard": Listing(
        "blocks", "kv_onboards", "time_ns", "time_ns, process, block_hash, kv_group", beside="",
        facts=frozenset(("kv.lives",)), moments=frozenset(("time_ns",)),
        shown=("block_hash", "tier", "time_ns", "age_ns", "idle_ns", "request", "kv_group"),
    ),
    "return": _blocks("block_returns", "removed_ns, process, block_hash, kv_group", ("removed_ns", "cached_ns"), (
        "block_hash", "tier", "removed_ns", "away_ns", "distance_count", "tokens", "kv_group")),
}  # fmt: skip


def _experts(view: str, order: str, *shown: str) -> Listing:
    return Listing("experts", view, "end_ns", order, beside="", facts=frozenset(("worker.experts",)),
                   moments=frozenset(("start_ns", "end_ns", "previous_start_ns")), shown=shown)  # fmt: skip


EXPERTS = {
    "layer": _experts(
        "expert_layers", "start_ns, process, layer", "layer", "start_ns", "layer_tokens", "hottest_expert",
        "hottest_tokens", "mean_tokens", "fair_hottest_tokens", "top_tokens", "bottom_tokens", "unused_count",
        "experts_count",
    ),
    "expert": _experts(
        "expert_loads", "start_ns, process, layer, expert_tokens DESC, expert", "layer", "expert", "rank", "start_ns",
        "expert_tokens", "mean_tokens", "layer_tokens",
    ),
    "rank": _experts(
        "expert_ranks", "start_ns, process, layer, rank", "layer", "rank", "start_ns", "rank_tokens", "mean_tokens",
        "experts_count", "ranks_count",
    ),
    "task": _experts(
        "expert_tasks", "task NULLS LAST, layer, place", "task", "layer", "place", "expert", "expert_tokens",
        "layer_tokens", "all_expert_tokens", "all_layer_tokens",
    ),
    "drift": _experts(
        "expert_drift", "start_ns, process, layer", "layer", "previous_start_ns", "start_ns", "drift_ratio",
        "fair_drift_ratio", "routed_tokens", "previous_routed_tokens",
    ),
}  # fmt: skip


def _kernels(view: str, order: str, shown: tuple[str, ...], moments: tuple[str, ...] = ()) -> Listing:
    return Listing("kernels", view, "NULL", order, beside="", facts=frozenset(("worker.captures",)),
                   moments=frozenset(moments), shown=shown)  # fmt: skip


_ROOF = ("roof_ns", "roofed_ns", "bound", "work_note")
KERNELS = {
    "phase": _kernels("kernel_phases", "capture, kernels_ns DESC, phase", (
        "phase", "steps_count", "kernels_ns", "step_ns", "busy_ns", "idle_ns", "tokens", "roof_ns", "roofed_ns",
        "token_joules")),
    "class": _kernels("kernel_classes", "capture, phase NULLS LAST, duration_ns DESC, class", (
        "phase", "class", "details", "duration_ns", "phase_ns", "step_ns", "kernels_count", *_ROOF)),
    "kernel": _kernels("kernel_names", "capture, phase NULLS LAST, duration_ns DESC, name", (
        "phase", "name", "class", "duration_ns", "phase_ns", "kernels_count", "mean_ns", *_ROOF)),
    "layer": _kernels("kernel_layers", "capture, phase NULLS LAST, layer NULLS LAST, duration_ns DESC, class", (
        "phase", "layer", "class", "duration_ns", "layer_ns", "kernels_count", "roof_ns", "roofed_ns")),
    "step": _kernels("kernel_steps", "capture, step, device_index", (
        "step", "phase", "graph", "took_ns", "busy_ns", "idle_ns", "prefill_tokens", "decode_requests_count",
        "class", "class_ns", "kernels_count", "idle_launch_ns"), ("start_ns", "end_ns")),
    "all": _kernels("kernels", "capture, start_ns, device_index, stream, name", (
        "start_ns", "name", "class", "phase", "layer", "duration_ns", "roof_ns", "bound", "op"), ("start_ns",)),
    "metric": _kernels("kernel_metrics", "capture, launch, section, metric", (
        "launch", "name", "section", "metric", "value", "unit", "text")),
}  # fmt: skip


def _drafts(view: str, order: str, *shown: str) -> Listing:
    return Listing("drafts", view, "NULL", order, beside="", facts=frozenset(("step.composition",)),
                   moments=frozenset(), shown=shown)  # fmt: skip


SPECULATION = {
    "task": _drafts(
        "speculation_tasks", "drafted_tokens DESC, task", "task", "drafted_tokens", "accepted_tokens",
        "position_accepted_ratios", "speedup_ratio", "speedup_low_ratio", "speedup_high_ratio", "basis",
        "draft_time_ratio", "draft_memory_ratio", "token_ns", "without_ns", "drafted_steps_count",
        "matched_steps_count",
    ),
    "position": _drafts(
        "speculation_positions", "task NULLS LAST, position", "task", "position", "drafted_count", "accepted_count",
        "accepted_ratio",
    ),
    "request": _drafts(
        "speculation_requests", "process, request, position", "request_id", "task", "position", "drafted_count",
        "accepted_count", "accepted_ratio", "drafted_tokens", "accepted_tokens", "note",
    ),
    "worker": _drafts(
        "drafter_memory", "process", "process", "draft_bytes", "held_bytes", "memory_ratio", "draft_weight_bytes",
        "weight_bytes", "draft_kv_bytes", "kv_bytes", "memory_note",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    where: str | None = None
    sort: str | None = None
    descending: bool = False
    columns: tuple[str, ...] = ()     # empty: all
    limit: int | None = None          # None: all
    since_ns: int | None = None       # only rows seen in the last so many ns of the run


@dataclass(frozen=True, slots=True)
class Rows:
    rows: list[dict[str, Any]]
    units: dict[str, str]
    matching_count: int               # rows that fit, before the limit
    origin_ns: int | None             # earliest moment of the run, for rendering moments
    moments: frozenset[str] = field(default_factory=frozenset)
    notes: tuple[str, ...] = ()       # what the reader left out, and why

    def json(self) -> dict[str, Any]:
        return {"rows": self.rows, "units": self.units}


def rows(folder: Path, listing: Listing, query: Query) -> Rows:
    run = open_run(folder)
    types = {r["column_name"]: r["column_type"] for r in run.rows(f"DESCRIBE {listing.view}")}
    condition, params = _condition(run, listing, query, types)
    columns = [check_column(c, types) for c in query.columns] or list(types)
    order = _order(listing, query, types)
    matching = run.one(f"SELECT count(*) AS n FROM {listing.view} WHERE {condition}", params)["n"]
    limit = "" if query.limit is None else f"LIMIT {query.limit:d}"
    found = run.rows(
        f"SELECT {', '.join(columns)} FROM {listing.view} WHERE {condition} "
        f"ORDER BY {order} {limit}", params,
    )  # fmt: skip
    if not matching:
        _refuse_unseen(run, listing)
    units = {c: unit_of(c) for c in columns if unit_of(c)}
    notes = tuple(f"{d.path.name} is damaged and left out: {d.reason}" for d in run.damaged)
    return Rows(found, units, matching, _origin_ns(run), listing.moments, notes)


def _order(listing: Listing, query: Query, types: dict[str, str]) -> str:
    if query.sort is None:
        if query.descending:
            raise AskedWrongly("--desc needs --sort COLUMN")
        return listing.order
    direction = "DESC" if query.descending else "ASC"
    return f"{check_column(query.sort, types)} {direction} NULLS LAST, {listing.order}"


def _condition(
    run: RunReader, listing: Listing, query: Query, types: dict[str, str]
) -> tuple[str, dict[str, Value]]:
    parts, params = ["true"], dict[str, Value]()
    if query.where is not None:
        condition, params = where(query.where, types, listing.moments)
        parts.append(condition)
    if query.since_ns is not None:
        params["since"] = last_moment_ns(run) - query.since_ns
        parts.append(f"{listing.last_seen} >= $since")
    return " AND ".join(parts), params


def last_moment_ns(run: RunReader) -> int:
    """The latest moment anything was seen in the run; `--since` counts back from it. Raises CannotAnswer on none."""
    last = run.one("""
        SELECT greatest((SELECT max(end_ns) FROM steps), (SELECT max(time_ns) FROM host),
                        (SELECT max(last_delivered_ns) FROM requests)) AS last_ns""")["last_ns"]
    if last is None:
        raise CannotAnswer(f"run {run.folder.name} has no row with a time yet, so --since has no end to count from")
    return int(last)


def _origin_ns(run: RunReader) -> int | None:
    origin = run.one("""
        SELECT least((SELECT min(start_ns) FROM sources), (SELECT min(start_ns) FROM steps),
                     (SELECT min(arrival_ns) FROM requests), (SELECT min(queued_ns) FROM requests)) AS origin_ns""")
    return None if origin["origin_ns"] is None else int(origin["origin_ns"])


def _refuse_unseen(run: RunReader, listing: Listing) -> None:
    """No row at all because nothing could be seen is not an empty list."""
    if run.one(f"SELECT count(*) AS n FROM {listing.view}")["n"]:
        return
    if not run.one("SELECT count(*) AS n FROM sources")["n"]:
        raise CannotAnswer(
            f"run {run.folder.name} has no {listing.name}: no engine process with the probe reported into it. "
            "Try: pellucid doctor"
        )
    blind = run.rows(
        "SELECT fact, any_value(reason) AS reason, any_value(collect) AS collect FROM facts "
        "WHERE list_contains($facts, fact) GROUP BY fact HAVING bool_and(state = 'blind') ORDER BY fact",
        {"facts": sorted(listing.facts)},
    )
    said = run.rows("SELECT count(*) FILTER (list_contains($facts, fact)) AS n FROM facts HAVING count(*) > 0",
                    {"facts": sorted(listing.facts)})  # fmt: skip
    if said and not said[0]["n"]:
        raise CannotAnswer(
            f"run {run.folder.name} has no {listing.name}: an older probe recorded it, which did not know "
            f"{', '.join(sorted(listing.facts))}. Try: record again with pellucid-probe of this version"
        )
    others = run.one(f"SELECT count(*) AS n FROM {listing.beside}")["n"] if listing.beside else 0
    if others and len(blind) < len(listing.facts):
        raise CannotAnswer(
            f"run {run.folder.name} has {others:,} {listing.beside} and no row of {listing.name}: they have expired, "
            "do not read, or come later. Try: pellucid why, pellucid runs"
        )
    if len(blind) == len(listing.facts):
        b = blind[0]
        raise CannotAnswer(f"run {run.folder.name} has no {listing.name}: {b['fact']} is blind, {b['reason']}. {b['collect'] or ''}")  # noqa: E501

"""Every replica that a Prometheus server already scrapes, from what it has stored.

    history = History("http://prometheus:9090", headers)
    record(history, folder, Recall(since_ns, anchor_now()))

One range query per metric that the server has and the catalog knows. Buckets are left out, and the step is chosen so
that a series has POINTS points at most: a day of ten replicas is some thousand rows a metric, not millions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from pellucid.catalog.load_series import find
from pellucid.collect.openmetrics import fetch
from pellucid.collect.openmetrics.address import Endpoint
from pellucid.collect.openmetrics.parse import Sample
from pellucid.collect.openmetrics.rows import Pages, write_unseen
from pellucid.core.clock import Anchor
from pellucid.core.errors import CannotAnswer, Failed
from pellucid.core.units import S_NS
from pellucid.store.write import Limits, RunWriter

POINTS = 200               # a series: forty in each of five windows
LEAST_STEP_S = 1
TIMEOUT_S = 60.0
MOST_ROWS = 5_000_000      # samples in all; beyond it the answer would take minutes and gigabytes


@dataclass(frozen=True, slots=True)
class History:
    at: Endpoint
    headers: Mapping[str, str] = field(default_factory=dict)
    selector: str = ""     # label matchers, as in PromQL, to look at some replicas only


@dataclass(frozen=True, slots=True)
class Recall:
    since_ns: int
    now: Anchor
    unseen: Mapping[str, str] = field(default_factory=dict)     # facts that no server has → what they are
    collect: str = ""                                           # how to see them


def record(history: History, folder: Path, how: Recall) -> Pages:
    """Writes a run of the time before `how.now`. Raises Failed where the server refuses, CannotAnswer where it has no
    engine's metrics."""
    moments = _moments(history, how)
    if not moments:
        raise CannotAnswer(f"{history.at.name} has no sample of an engine in this time. Try a longer --since")
    writer = RunWriter(folder, Limits(), lambda: how.now.mono_ns)
    try:
        pages = Pages(writer.append, how.now)
        write_unseen(writer, how.unseen, how.collect)
        for time_s in sorted(moments):
            pages.take(moments[time_s], history.at.name, how.now.mono(round(time_s * S_NS)))
        first_ns = how.now.mono(round(min(moments) * S_NS))
        for process in pages.speakers:
            pages.source(process, "", first_ns)
        return pages
    finally:
        writer.close()


def _moments(history: History, how: Recall) -> dict[float, list[Sample]]:
    """UNIX s → what all replicas said at that time."""
    end_s = how.now.wall_ns / S_NS
    over = (end_s - how.since_ns / S_NS, end_s, max(LEAST_STEP_S, math.ceil(how.since_ns / S_NS / POINTS)))
    moments: dict[float, list[Sample]] = {}
    count = 0
    with fetch.client(history.at, {**history.headers, "Accept": "application/json"}, TIMEOUT_S) as http:
        for name in _names(history, http):
            for sample, time_s in _range(history, http, name, over):
                moments.setdefault(time_s, []).append(sample)
                count += 1
            if count > MOST_ROWS:
                raise Failed(f"more than {MOST_ROWS} samples: shorten --since, or choose replicas with --match")
    return moments


def _names(history: History, http: httpx.Client) -> list[str]:
    """Names of samples that the server has and the catalog knows, buckets left out."""
    known = _get(history, http, "/api/v1/label/__name__/values", {})
    if not isinstance(known, list):
        raise Failed(f"{history.at.name} is no Prometheus: its list of names is none")
    names = [n for n in known if isinstance(n, str) and not n.endswith(("_bucket", "_created")) and find(n)]
    if not any((hit := find(n)) and hit.exporter.engine for n in names):
        raise CannotAnswer(
            f"{history.at.name} has {len(known)} metrics and none of an engine we know. Does it scrape the engines?"
        )
    return names


def _range(
    history: History, http: httpx.Client, name: str, over: tuple[float, float, int]
) -> Iterator[tuple[Sample, float]]:
    start_s, end_s, step_s = over
    asked = {"query": f'{{__name__="{name}"{history.selector and "," + history.selector}}}',
             "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": str(step_s)}  # fmt: skip
    answer = _get(history, http, "/api/v1/query_range", asked)
    for series in answer["result"]:
        labels = {k: v for k, v in series["metric"].items() if k != "__name__"}
        for time_s, value in series["values"]:
            yield Sample(name, labels, float(value)), float(time_s)


def _get(history: History, http: httpx.Client, path: str, params: dict[str, str]) -> Any:
    """`data` of an answer. Raises Failed with the server's own words."""
    url = history.at.url.rstrip("/") + path
    try:
        reply = http.get(url, params=params)
    except httpx.HTTPError as error:
        raise Failed(f"no answer from {history.at.name}: {error or type(error).__name__}") from error
    try:
        said = reply.json()
    except ValueError:
        said = None
    if not isinstance(said, dict) or said.get("status") != "success":
        why = said.get("error") if isinstance(said, dict) else None
        hint = fetch.HINTS.get(reply.status_code, "")
        raise Failed(f"{history.at.name} answers {reply.status_code} to {path}{': ' + str(why) if why else hint}")
    return said["data"]



"""GuideLLM's report → requests. Its benchmarks stand one after another, as they were run.

    {"metadata": {…}, "args": {…}, "benchmarks": [
      {"config": {"strategy": {"type_": "constant"}}, "metrics": {"request_totals": {"successful": 2}, …},
       "requests": {"successful": [{"prompt_tokens": 512, "output_tokens": 128, "request_start_time": 1744728125.07,
                                    "request_end_time": 1744728127.31, "request_args": "{\\"body\\": {…}}"}, …],
                    "incomplete": […], "errored": […]}}, …]}

A sweep is a benchmark for each rate; all are in one workload, with their pauses, since their times are of one clock.
Requests that failed, or were under way when their benchmark ended, are left out and counted: the length of their answer
is not known. Of `request_args`, which holds the prompt, the limit and the sampling are looked at.

Source of the fields: GuideLLM, schemas/request_stats.py (06cef29), schemas/info.py (04fcfd8) and benchmark/schemas/
generative/benchmark.py (03820eb); before 0.4 benchmark/objects.py (414febe) and benchmark/benchmark.py (47ce292).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.core.units import S_NS
from pellucid.workload.documents.cut import REST, decoded
from pellucid.workload.documents.turns import (
    CLIENTS_ARRIVALS,
    FAILED,
    NOT_ENDED,
    Turn,
    add_turns,
    said_limit,
    said_ns,
    said_prompt,
    said_setting,
    said_tokens,
)
from pellucid.workload.fields import UNREADABLE, Unfit
from pellucid.workload.rows import Request, Rows

NAME = "guidellm"
LISTS = frozenset((b"successful", b"incomplete", b"errored"))
_WORD = re.compile(r"[a-z_]{1,30}")
_NULL = msgspec.Raw(b"null")
Number = int | float | None


class _Usage(msgspec.Struct, frozen=True):
    total_tokens: Number = None


class _Timings(msgspec.Struct, frozen=True):
    request_start: Number = None
    request_end: Number = None


class _Info(msgspec.Struct, frozen=True):
    conversation_id: str | int | None = None
    timings: _Timings = _Timings()
    request_timings: _Timings = _Timings()       # before 0.4


class _Request(msgspec.Struct, frozen=True):
    prompt_tokens: Number = None
    output_tokens: Number = None
    input_metrics: _Usage = _Usage()
    output_metrics: _Usage = _Usage()
    request_start_time: Number = None
    request_end_time: Number = None
    start_time: Number = None                    # before 0.4
    end_time: Number = None
    info: _Info = _Info()
    scheduler_info: _Info = _Info()
    request_args: msgspec.Raw = _NULL


class _Sampling(msgspec.Struct, frozen=True):
    max_tokens: Number = None
    max_completion_tokens: Number = None
    temperature: Number = None
    top_p: Number = None


class _Arguments(msgspec.Struct, frozen=True):
    body: _Sampling | None = None


class _Requests(msgspec.Struct, frozen=True):
    successful: list[msgspec.Raw] | None = None
    incomplete: list[msgspec.Raw] | None = None
    errored: list[msgspec.Raw] | None = None


class _Totals(msgspec.Struct, frozen=True):
    successful: int | None = None


class _Metrics(msgspec.Struct, frozen=True):
    request_totals: _Totals = _Totals()


class _Strategy(msgspec.Struct, frozen=True):
    type_: str


class _Config(msgspec.Struct, frozen=True):
    strategy: _Strategy


class _Benchmark(msgspec.Struct, frozen=True):
    requests: _Requests = _Requests()
    config: msgspec.Raw = _NULL
    scheduler: msgspec.Raw = _NULL               # before 0.4
    args: msgspec.Raw = _NULL                    # before 0.3
    metrics: msgspec.Raw = _NULL
    request_totals: msgspec.Raw = _NULL          # before 0.4


class _Report(msgspec.Struct, frozen=True):
    benchmarks: list[msgspec.Raw]


def read_report(path: Path, key: bytes, rows: Rows) -> None:
    """Adds the file's requests. `key`: of the hashes of session ids. Raises OSError, AskedWrongly."""
    report, complete = decoded(content(path), _Report, LISTS)
    if report is None:
        raise AskedWrongly(f"{path}: the report does not read as one of GuideLLM's. Is the file whole?")
    turns, told = [], []
    for place, benchmark in _benchmarks(report, rows):
        found = list(_turns(benchmark, rows))
        turns.extend(found)
        told.append(f"{place} {_strategy(benchmark)} ({len(found):,} requests)")
        rows.notes.extend(_sampled(benchmark, place))
    if not complete:
        rows.read_count += 1
        rows.left_out[REST] += 1
    if not turns and not rows.left_out:
        raise AskedWrongly(f"{path}: the report lists no single request. Try: a report with its requests' details")
    if len(told) > 1:
        rows.notes.append(f"benchmarks of the file, one after another as they were run: {', '.join(told)}")
    rows.notes.append(CLIENTS_ARRIVALS)
    add_turns(turns, key, rows)


def _benchmarks(report: _Report, rows: Rows) -> Iterator[tuple[int, _Benchmark]]:
    for place, raw in enumerate(report.benchmarks, start=1):
        try:
            yield place, msgspec.json.decode(raw, type=_Benchmark)
        except (msgspec.MsgspecError, RecursionError):
            rows.read_count += 1
            rows.left_out[f"{UNREADABLE} benchmark"] += 1


def _turns(benchmark: _Benchmark, rows: Rows) -> Iterator[Turn]:
    for reason, listed in ((FAILED, benchmark.requests.errored), (NOT_ENDED, benchmark.requests.incomplete)):
        rows.read_count += len(listed or ())
        if listed:
            rows.left_out[reason] += len(listed)
    for raw in benchmark.requests.successful or ():
        rows.read_count += 1
        try:
            yield _turn(raw)
        except (Unfit, msgspec.MsgspecError, RecursionError) as error:
            rows.left_out[str(error) if isinstance(error, Unfit) else UNREADABLE] += 1


def _turn(raw: msgspec.Raw) -> Turn:
    """Raises Unfit, MsgspecError."""
    said = msgspec.json.decode(raw, type=_Request)
    now, old = said.info.timings, said.scheduler_info.request_timings
    sampling = _sampling(said.request_args)
    request = Request(
        said_prompt(said.prompt_tokens, said.input_metrics.total_tokens),
        said_tokens(said.output_tokens, said.output_metrics.total_tokens),
        said_ns(S_NS, said.request_start_time, said.start_time, now.request_start, old.request_start),
        temperature=said_setting(sampling.temperature), top_p=said_setting(sampling.top_p),
        max_tokens=said_limit(sampling.max_completion_tokens, sampling.max_tokens),
    )  # fmt: skip
    end_ns = said_ns(S_NS, said.request_end_time, said.end_time, now.request_end, old.request_end)
    return Turn(request, end_ns, "" if said.info.conversation_id is None else str(said.info.conversation_id))


def _sampling(raw: msgspec.Raw) -> _Sampling:
    """Of the arguments as an object, or as text of one; nothing where they are of another shape."""
    try:
        text = msgspec.json.decode(raw, type=str).encode() if bytes(raw).startswith(b'"') else raw
        return msgspec.json.decode(text, type=_Arguments).body or _Sampling()
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return _Sampling()


def _strategy(benchmark: _Benchmark) -> str:
    for raw in (benchmark.config, benchmark.scheduler, benchmark.args):
        try:
            word = msgspec.json.decode(raw, type=_Config).strategy.type_
        except (msgspec.MsgspecError, RecursionError):
            continue
        if _WORD.fullmatch(word):
            return word
    return "of a kind it does not name"


def _sampled(benchmark: _Benchmark, place: int) -> Iterator[str]:
    """A report may list a sample of its requests only."""
    listed = len(benchmark.requests.successful or ())
    try:
        new = msgspec.json.decode(benchmark.metrics, type=_Metrics | None) or _Metrics()
        old = msgspec.json.decode(benchmark.request_totals, type=_Totals | None) or _Totals()
    except (msgspec.MsgspecError, RecursionError):
        return
    count = new.request_totals.successful or old.successful or 0
    if count > listed:
        yield f"benchmark {place} lists {listed:,} of its {count:,} successful requests: its rate is too low here"

"""Lines and tracebacks that become rows. Literal lines for what no log of ours has."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.catalog.log_lines import known
from pellucid.store.schema import LOG_EVENTS
from tests.collect.logs.reading import of_text, only, said

GIB, S = 2**30, 10**9
I, W, E = (f"(EngineCore pid=9) {level} 11-29 12:00:00 [a.py:1] " for level in ("INFO", "WARNING", "ERROR"))  # noqa: E741
STATS = ("Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 3.0 tokens/s, Running: 4 reqs, "
         "Waiting: 12 reqs, Deferred: 2 reqs, Preemptions: 3, GPU KV cache usage: 98.7%, Prefix cache hit rate: 39.7%, "
         "External prefix cache hit rate: 5.0%")  # fmt: skip


@pytest.mark.parametrize(("raw", "kind", "wanted"), [
    (I + STATS, "stats", {
        "prompt_tokens_per_s": 10.5, "output_tokens_per_s": 3.0, "running_count": 4, "waiting_count": 12,
        "deferred_count": 2, "preempted_count": 3, "kv_usage_ratio": 0.987, "prefix_hit_ratio": 0.397,
        "external_prefix_hit_ratio": 0.05}),
    (I + "GPU KV cache size: 1,024 tokens, Maximum concurrency for 512 tokens per request: 2.00x", "kv_cache_size",
     {"kv_cache_tokens": 1024, "model_length_tokens": 512, "concurrency_ratio": 2.0}),
    (I + "# GPU blocks: 2048, # CPU blocks: 512", "kv_blocks", {"kv_blocks_count": 2048}),
    (I + "SpecDecoding metrics: Mean acceptance length: 2.51, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
     "3.00 tokens/s, Accepted: 30 tokens, Drafted: 90 tokens, Per-position acceptance rate: 0.5, 0.3",
     "speculation_window", {"acceptance_length_tokens": 2.51, "accepted_tokens": 30, "drafted_tokens": 90}),
    (I + "vLLM API server version 0.6.3", "version", {"subject": "0.6.3"}),
    ("[2025-12-12 12:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gain: 5",
     "preempted", {"preempted_count": 2}),
    ("[2025-12-12 12:00:00] Prefill batch. #new-seq: 2, #new-token: 10, #cached-token: 90, cache hit rate: 90.00%, "
     "token usage: 0.50, #running-req: 1, #queue-req: 3", "prefill_stats",
     {"new_requests_count": 2, "prefill_tokens": 10, "cached_tokens": 90, "prefix_hit_ratio": 0.9,
      "kv_usage_ratio": 0.5, "running_count": 1, "waiting_count": 3}),
    (E + "No available memory for the cache blocks. Try increasing it", "kv_too_small", {}),
    (E + "NCCL error: unhandled system error", "collective_failed", {}),
    (E + "CUDA error: an illegal memory access was encountered", "device_fault", {}),
    (W + "Something nobody has listed", "other", {}),
    ('(API pid=1) INFO:     192.0.2.1:1 - "POST /v1/completions HTTP/1.1" 429 Too Many Requests', "http_error",
     {"subject": "429"}),
])  # fmt: skip
def test_a_line_becomes_a_row(raw: str, kind: str, wanted: dict[str, Any]) -> None:
    (row,) = of_text(raw)
    left = {k: v for k, v in said(row).items() if k not in ("level", "dp_rank")}
    assert (row["kind"], left) == (kind, {"kind": kind, **wanted})


@pytest.mark.parametrize("raw", [
    I + "Received request cmpl-1: prompt: 'tell me', params: SamplingParams(n=1)", "A line of no kind",
    '(API pid=1) INFO:     192.0.2.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
    "(EngineCore pid=9) DEBUG 11-29 12:00:00 [a.py:1] x",
])  # fmt: skip
def test_what_says_nothing_is_not_kept(raw: str) -> None:
    assert of_text(raw) == []


def test_a_line_cut_anywhere_gives_no_wrong_number() -> None:
    (whole,) = of_text(I + STATS)
    numbers = [c.name for c in LOG_EVENTS.columns if str(c.type) != "string"]
    for length in range(1, len(STATS)):
        cut = of_text(I + STATS[:length], whole=False)
        assert [(length, c) for row in cut for c in numbers if row[c] not in (None, whole[c])] == []


def test_a_number_at_the_end_of_a_cut_line_does_not_count() -> None:
    raw = "[2025-12-12 12:00:00] Decode batch, #running-req: 6, #token: 19"
    (cut,), (ended,) = of_text(raw, whole=False), of_text(raw)
    assert (cut["running_count"], cut["used_tokens"], ended["used_tokens"]) == (6, None, 19)


TRACE = ["Traceback (most recent call last):", '  File "/a/b.py", line 1, in f', "    g()",
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has"]  # fmt: skip


def test_a_logged_traceback_is_one_row_with_its_cause() -> None:
    other = "(Worker pid=7) INFO 11-29 12:00:00 [b.py:2] Using max model len 512"
    rows = of_text(E + "WorkerProc hit an exception.", E + TRACE[0], other, *(E + t for t in TRACE[1:]), I + "x")
    assert [(r["kind"], r["line"]) for r in rows] == [("worker_failed", 1), ("model_length", 3), ("out_of_memory", 6)]
    assert (rows[2]["subject"], rows[2]["memory_bytes"], rows[2]["lines_count"]) == ("OutOfMemoryError", 2.5 * GIB, 5)


def test_a_bare_traceback_is_one_row() -> None:
    head = "[2025-12-12 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"
    rows = of_text(head, *TRACE[1:], "", "[2025-12-12 12:00:01] x")
    assert [(r["kind"], r["process"], r["subject"]) for r in rows] == [
        ("worker_failed", "TP0", None), ("out_of_memory", "TP0", "OutOfMemoryError"),
    ]  # fmt: skip
    assert rows[1]["time_ns"] == rows[0]["time_ns"]


@pytest.mark.parametrize("name", ["Exception", "torch.AcceleratorError", "KeyboardInterrupt", "a.b.DeadError"])
def test_what_was_raised_is_named(name: str) -> None:
    (row,) = of_text(E + TRACE[0], E + "  File", E + f"{name}: it did not work")
    assert (row["kind"], row["subject"]) == ("exception", name.rsplit(".", 1)[-1])


def test_two_errors_without_a_traceback_are_two_rows() -> None:
    assert len(of_text(E + "first thing", E + "second thing")) == 2


def test_a_chain_of_exceptions_is_told_by_the_one_that_is_known() -> None:
    chain = ["Traceback (most recent call last):", "OSError: [Errno 28] No space left on device", "",
             "During handling of the above exception, another exception occurred:", "", *TRACE[:1],
             "RuntimeError: it did not work"]  # fmt: skip
    (row,) = of_text(*chain)
    assert (row["kind"], row["subject"], row["lines_count"]) == ("disk_full", "OSError", 5)


def test_an_echo_of_an_outer_process_counts_once() -> None:
    inner = "(Worker pid=7) INFO 11-29 12:00:00 [b.py:2] torch.compile takes 5.00 s in total"
    rows = of_text(inner, f"(Replica pid=1) {inner}", f"(Replica pid=1) {inner.replace('5.00', '6.00')}")
    assert [r["duration_ns"] for r in only(rows, "compiled")] == [5 * S, 6 * S]


@pytest.mark.parametrize(("day", "year"), [("11-29", 2026), ("01-02", 2026), ("12-31", 2025)])
def test_the_year_is_that_of_the_file_and_no_line_is_later_than_it(day: str, year: int) -> None:
    (row,) = of_text(f"INFO {day} 12:00:00 [a.py:1] Using max model len 512")
    assert 1970 + row["time_ns"] / S / 86_400 / 365.2425 == pytest.approx(year + (int(day[:2]) - 0.5) / 12, abs=0.06)


@pytest.mark.parametrize("day", ["02-30", "13-01", "00-00"])
def test_a_day_that_is_none_has_no_time(day: str) -> None:
    (row,) = of_text(f"INFO {day} 12:00:00 [a.py:1] Using max model len 512")
    assert (row["time_ns"], row["time_basis"]) == (None, None)


def test_the_catalogue_writes_columns_there_are() -> None:
    entries = (*known().lines.entries, *known().troubles.entries)
    numbers = {name for entry in entries for name in entry.numbers}
    assert numbers - set(LOG_EVENTS.names()) == set()
    assert all(entry.when.groups == 0 and (entry.subject is None or entry.subject.groups == 1) for entry in entries)
    assert all(n.find.groups >= 1 for entry in entries for n in entry.numbers.values())

"""Why one request took as long as it did: its latency span by span, its worst gaps, each with its cause.

    told = explain_request(folder, "cmpl-7")
    told["verdict"]          "TTFT 2.1 s, of which queue 1.9 s: waited 1.8 s for a place among the running requests."
    told["ttft"]["spans"]    they add up to told["ttft"]["total_ns"]
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from pellucid.core.run import read_info
from pellucid.core.units import duration
from pellucid.diagnose.request.gaps import Gap, by_cause, gaps_of, worst
from pellucid.diagnose.request.seen import Seen, look
from pellucid.diagnose.request.spans import SAME_TIME, Part, Timed, e2e_spans, total, ttft_spans
from pellucid.store.read import open_run
from pellucid.verbs.intake.client import Joined, join

Answer = dict[str, Any]
SHOWN = ("request_id", "internal_id", "traceparent", "task", "endpoint", "finish_reason", "aborted_by",
         "prompt_tokens", "cached_tokens", "output_tokens", "recomputed_tokens", "preemptions_count")  # fmt: skip


def explain_request(folder: Path, request_id: str, spans: Path | None = None) -> Answer:
    """By external or internal id, of several the newest. `spans` is a client's or gateway's file of when it sent what.
    Raises AskedWrongly when there is no such request."""
    run = open_run(folder)
    seen = look(run, request_id)
    client, unused = (None, "") if spans is None else join(run, seen.row, spans)
    if client is not None:
        seen = replace(seen, row=seen.row | {"sent_ns": None if client.skew_ns else client.sent_ns})
    row, gaps = seen.row, gaps_of(seen)
    ttft, e2e = (_by_client(s, client) for s in (ttft_spans(seen), e2e_spans(seen)))
    ttft_ns, e2e_ns = total(row, "first_delivered_ns"), total(row, "last_delivered_ns")
    return {
        "run": read_info(folder).run_id,
        "request": {name: row[name] for name in SHOWN} | {"state": state(row)},
        "verdict": verdict(seen, ttft, ttft_ns, gaps),
        "ttft": {"total_ns": ttft_ns, "spans": [_span(s) for s in ttft]},
        "e2e": {"total_ns": e2e_ns, "spans": [_span(s) for s in e2e]},
        "gaps": _gaps(gaps),
        "client": None if client is None else asdict(client),
        "duplicates": [{n: t[n] for n in ("internal_id", "arrival_ns", "finish_reason")} for t in seen.twins],
        "notes": notes(seen, gaps) + ([unused] if unused else []),
    }


def _by_client(spans: list[Timed], client: Joined | None) -> list[Timed]:
    """The network's part says what it rests on, or why it is blind although the client told its times."""
    if client is None:
        return spans
    return [
        s if s.name != "network" else replace(s, reason=client.says, collect=SAME_TIME) if s.duration_ns is None else
        replace(s, parts=(Part("client", s.duration_ns, f"found by its {client.matched_by}; {client.says}"),))
        for s in spans
    ]  # fmt: skip


def state(row: dict[str, Any]) -> str:
    """finished, aborted, or unfinished: waiting, in prefill or decoding when the recording ended."""
    if row["finish_reason"] is not None:
        return "aborted" if row["finish_reason"] == "abort" else "finished"
    if row["scheduled_ns"] is None:
        return "unfinished: waiting"
    return "unfinished: in prefill" if row["first_token_ns"] is None else "unfinished: decoding"


def verdict(seen: Seen, ttft: list[Timed], ttft_ns: int | None, gaps: list[Gap]) -> str:
    """One or two sentences: the largest span before the first token, and the worst gap after it."""
    words = []
    known = [s for s in ttft if s.duration_ns is not None]
    if known:
        largest = max(known, key=lambda s: s.duration_ns or 0)
        whole = f"TTFT {duration(ttft_ns)}, of which" if ttft_ns is not None else "TTFT is not known in full; the longest part seen is"  # noqa: E501
        why = max(largest.parts, key=lambda p: p.duration_ns).says if largest.parts else ""
        words.append(f"{whole} {largest.name} {duration(largest.duration_ns or 0)}{f': {why}' if why else ''}.")
    else:
        words.append("Nothing of it was seen before the first token.")
    if gaps:
        longest = worst(gaps)[0]
        usual = duration(median(g.duration_ns for g in gaps))
        words.append(f"Gaps between tokens {usual} in the median, at worst {longest.says}.")
    if seen.row["finish_reason"] is None:
        words.append(f"It was {state(seen.row)} when the recording ended.")
    elif seen.row["finish_reason"] == "abort":
        words.append(f"It was aborted by the {seen.row['aborted_by'] or 'client or the engine (not seen which)'} after {seen.row['output_tokens'] or 0} tokens.")  # noqa: E501
    return " ".join(words)


def notes(seen: Seen, gaps: list[Gap]) -> list[str]:
    lines = []
    if seen.twins:
        lines.append(f"{len(seen.twins)} more requests have this id; ask by internal id for one of them")
    if not seen.shares:
        lines.append("no step of it was recorded (raw steps expire first): prefill and gaps cannot be split")
    elif not gaps and (seen.row["output_tokens"] or 0) > 1:
        lines.append("the steps that made its tokens are not in the recording: no gap can be shown")
    return lines


def _span(span: Timed) -> Answer:
    told: Answer = {"span": span.name, "duration_ns": span.duration_ns, "parts": [asdict(p) for p in span.parts]}
    if span.duration_ns is None:
        told |= {"reason": span.reason, "collect": span.collect}
    return told


def _gaps(gaps: list[Gap]) -> Answer:
    lasted = [g.duration_ns for g in gaps]
    return {
        "gaps_count": len(gaps),
        "p50_ns": median(lasted) if lasted else None,
        "max_ns": max(lasted, default=None),
        "total_ns": sum(lasted) if lasted else None,
        "by_cause": by_cause(gaps),
        "worst": [asdict(g) for g in worst(gaps)],
    }

"""A ServeGen client, which is rates and length histograms, → requests drawn from it, the same for the same seed.

    …-trace.csv       1000200,0.975,2.6134351678916707,Gamma,0.1464,3.1319
                      window start (s), requests per s, CV of gaps, their distribution, its shape and scale
    …-dataset.json    {"993600": {"input_tokens": "{331: 0.0686, 332: 0.0124}", "output_tokens": "{2: 0.93}"}}

A window gets as many requests as its rate says, with gaps drawn by its shape and stretched to fill it; where they came
within a part of the window (a smaller scale in the file), they are spread over all of it. Lengths are drawn one by one:
what long prompts have to do with long answers is not in the source. Prompts with images are the sum of their parts.

Source of the fields: alibaba/ServeGen, README and data; Xiang et al., NSDI 26.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.core.units import S_NS
from pellucid.workload.fields import MOST_TOKENS, UNREADABLE
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Request, Rows

WINDOW_S = 600                   # ServeGen's; used where a file has one window only
SPAN_S = 3600                    # drawn where nobody asks for more: chosen, an hour is what a replay may take
MOST_REQUESTS = 10_000_000       # chosen: more is a mistake in a rate or a span
PARTS = ("input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens")
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]
_PAIR = re.compile(r"(\d+(?:\.\d+)?): (\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True, slots=True)
class Window:
    start_s: float
    end_s: float
    rate_per_s: float
    distribution: str
    shape: float


@dataclass(frozen=True, slots=True)
class Histogram:
    lengths: Integers
    shares: Floats                   # of sum 1


@dataclass(frozen=True, slots=True)
class Lengths:
    start_s: float
    parts: tuple[Histogram, ...]
    output: Histogram


@dataclass(frozen=True, slots=True)
class Draw:
    """What to draw, and with which seed."""

    seed: int = 0
    start_s: float | None = None     # of the trace; None for where most requests are
    span_s: float = SPAN_S


def is_trace(first_line: str) -> bool:
    return _window(first_line) is not None


def is_dataset(head: bytes) -> bool:
    names = any(f'"{part}"'.encode() in head for part in PARTS)
    return head.lstrip().startswith(b"{") and b'"output_tokens"' in head and names


def read_pair(trace: Path, dataset: Path, draw: Draw, rows: Rows) -> None:
    """Adds what is drawn. Raises AskedWrongly where the span has no request, OSError."""
    windows, lengths = list(_windows(trace, rows)), _lengths(dataset)
    start_s = _busiest(windows, draw.span_s) if draw.start_s is None else draw.start_s
    asked = [w for w in windows if w.end_s > start_s and w.start_s < start_s + draw.span_s and w.rate_per_s > 0]
    expected = sum(w.rate_per_s * (w.end_s - w.start_s) for w in asked)
    if not asked or not lengths or expected > MOST_REQUESTS:
        raise AskedWrongly(_refusal(trace, expected, start_s, bool(lengths)))
    rng = np.random.Generator(np.random.PCG64(draw.seed))
    starts = [x.start_s for x in lengths]
    for window in asked:
        arrivals = _arrivals_s(window, rng)
        arrivals = arrivals[(arrivals >= start_s) & (arrivals < start_s + draw.span_s)]
        found = lengths[max(0, bisect_right(starts, window.start_s) - 1)]
        prompts = np.sum([_drawn(h, len(arrivals), rng) for h in found.parts], axis=0)
        for arrival_s, prompt, output in zip(arrivals, prompts, _drawn(found.output, len(arrivals), rng), strict=True):
            rows.read_count += 1
            if prompt < 1:
                rows.left_out["no prompt"] += 1
                continue
            rows.add(Request(int(prompt), int(output), int(arrival_s * S_NS)))
    rows.notes.append(f"drawn from one client: {draw.span_s:g} s from second {start_s:g} of its trace")
    rows.notes.append("prompt and answer lengths were drawn apart: how they go together is not in the source")
    if any(len(found.parts) > 1 for found in lengths):
        rows.notes.append("prompts are the sum of one draw for text and for each medium")


def _arrivals_s(window: Window, rng: np.random.Generator) -> Floats:
    """Moments within the window: as many as its rate says, with gaps in the proportions of its distribution."""
    span_s = window.end_s - window.start_s
    count = round(window.rate_per_s * span_s)
    if window.distribution == "Weibull":
        gaps = rng.weibull(window.shape, count + 1)
    else:
        gaps = rng.gamma(window.shape, size=count + 1)
    ends = np.cumsum(gaps + np.finfo(np.float64).tiny)      # very small shapes draw gaps of zero only
    found: Floats = window.start_s + span_s * ends[:-1] / ends[-1]
    return found


def _drawn(histogram: Histogram, count: int, rng: np.random.Generator) -> Integers:
    return rng.choice(histogram.lengths, count, p=histogram.shares)


def _busiest(windows: list[Window], span_s: float) -> float:
    """Start of the window from which on most requests are expected within the span."""
    best, best_s = -1.0, 0.0
    for i, first in enumerate(windows):
        total = 0.0
        for window in windows[i:]:
            if window.start_s >= first.start_s + span_s:
                break
            total += window.rate_per_s * _overlap_s(window, first.start_s, span_s)
        if total > best:
            best, best_s = total, first.start_s
    return best_s


def _overlap_s(window: Window, start_s: float, span_s: float) -> float:
    return max(0.0, min(window.end_s, start_s + span_s) - max(window.start_s, start_s))


def _windows(trace: Path, rows: Rows) -> Iterator[Window]:
    found = []
    for text in Lines(trace):
        window = _window(text)
        if window is None:
            rows.left_out[f"{UNREADABLE} window"] += 1
        else:
            found.append(window)
    found.sort(key=lambda w: w.start_s)
    for this, following in zip(found, [*found[1:], None], strict=True):
        end_s = following.start_s if following else this.start_s + WINDOW_S
        yield Window(this.start_s, end_s, this.rate_per_s, this.distribution, this.shape)


def _window(text: str) -> Window | None:
    cells = [c.strip() for c in text.split(",")]
    try:
        start_s, rate, shape = float(cells[0]), float(cells[1]), float(cells[4])
    except (ValueError, IndexError):
        return None
    silent = rate == 0
    fits = len(cells) == 6 and 0 <= start_s < 1e10 and 0 <= rate < 1e6
    fits = fits and (silent or (cells[3] in ("Gamma", "Weibull") and 1e-3 < shape < 1e6))
    return Window(start_s, start_s, rate, cells[3], shape) if fits else None


def _lengths(dataset: Path) -> list[Lengths]:
    """Windows with histograms; those without are silent. Raises AskedWrongly."""
    try:
        said = msgspec.json.decode(content(dataset), type=dict[str, dict[str, str]])
        return sorted(filter(None, map(_window_lengths, said.items())), key=lambda found: found.start_s)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise AskedWrongly(f"{dataset}: the histograms of lengths do not read: {error}. Is the file whole?") from error


def _window_lengths(entry: tuple[str, dict[str, str]]) -> Lengths | None:
    """Raises ValueError."""
    start, texts = entry
    if not start.isdecimal():
        raise ValueError(f"{start[:20]!r} is no second at which a window starts")
    parts = tuple(h for p in PARTS if (h := _histogram(texts.get(p, "{}"))) is not None)
    output = _histogram(texts.get("output_tokens", "{}"))
    return Lengths(float(start), parts, output) if parts and output is not None else None


def _histogram(text: str) -> Histogram | None:
    """`{331: 0.0686, 332: 0.0124}`; None for an empty one. Raises ValueError."""
    if text == "{}":
        return None
    found = [_PAIR.fullmatch(pair) for pair in text.removeprefix("{").removesuffix("}").split(", ")]
    pairs = [(float(m[1]), float(m[2])) for m in found if m]
    if len(pairs) < len(found) or not all(length <= MOST_TOKENS and share <= 1 for length, share in pairs):
        raise ValueError(f"{text[:20]!r}… is no histogram")
    shares = np.array([share for _, share in pairs])
    if shares.sum() <= 0:
        return None
    return Histogram(np.array([length for length, _ in pairs]).astype(np.int64), shares / shares.sum())


def _refusal(trace: Path, expected: float, start_s: float, has_lengths: bool) -> str:
    if not has_lengths:
        return f"{trace.name}: no window of its dataset has lengths: nothing can be drawn"
    if expected > MOST_REQUESTS:
        return f"{trace.name}: {expected:,.0f} requests to draw, more than {MOST_REQUESTS:,}. Try: a shorter --span"
    return f"{trace.name}: nobody asked anything in the span from second {start_s:g} on. Try: without --start"

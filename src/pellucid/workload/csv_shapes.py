"""CSV traces of others → requests. A shape is a header we know; what a column is, is written down in SHAPES.

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:17:03.9799600,4808,10         → Request(4808, 10, arrival_ns=1700158623979960000)

A line that cannot be a request is counted in `Rows.left_out` under the reason. Columns that are not named are not read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pellucid.workload.fields import CUT, UNREADABLE, Unfit, prompt, scaled_ns, seconds_ns, tokens, wall_ns
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Request, Rows

Moment = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    prompt: str                       # columns of the file
    output: str
    arrival: str = ""                 # "" for a file of lengths
    moment: Moment = seconds_ns       # what stands under `arrival`
    task: str = ""
    session: str = ""                 # read where the header has it
    zero_is_failure: bool = False     # an answer of no tokens is a request that failed: its length is not known
    notes: tuple[str, ...] = ()

    def fits(self, header: list[str]) -> bool:
        return {self.prompt, self.output, *filter(None, (self.arrival, self.task))} <= set(header)


# Columns as the publishers describe them: Azure/AzurePublicDataset (2023 and 2024), HPMLL/BurstGPT,
# casys-kaist/LLMServingSim (lengths of ShareGPT), microsoft/vidur (with arrivals and without).
SHAPES = (
    Shape("azure", "ContextTokens", "GeneratedTokens", "TIMESTAMP", wall_ns),
    Shape("burstgpt", "Request tokens", "Response tokens", "Timestamp", task="Log Type", session="Session ID",
          zero_is_failure=True, notes=("times are whole seconds", "the model that was asked is not kept")),
    Shape("sharegpt lengths", "input_toks", "output_toks", "arrival_time_ns", partial(scaled_ns, unit_ns=1),
          notes=("arrivals were drawn by the publisher (Poisson), not observed",)),
    Shape("vidur", "num_prefill_tokens", "num_decode_tokens", "arrived_at"),
    Shape("vidur lengths", "num_prefill_tokens", "num_decode_tokens"),
)  # fmt: skip


def shape_of(first_line: str) -> Shape | None:
    try:
        header = cells(first_line)
    except Unfit:
        return None
    return next((s for s in SHAPES if s.fits(header)), None)


def read_csv(lines: Lines, shape: Shape, rows: Rows) -> None:
    """Adds the file's requests. Raises OSError."""
    rows.notes.extend(shape.notes)
    source = iter(lines)
    places = {name: i for i, name in enumerate(cells(next(source, "")))}
    failed_count = 0
    for text, last in with_last(source):
        rows.read_count += 1
        try:
            request, failed = _request(cells(text), shape, places)
        except Unfit as reason:
            rows.left_out[CUT if last and lines.open_end else str(reason)] += 1
            continue
        failed_count += failed
        rows.add(request)
    if failed_count:
        rows.notes.append(f"{failed_count:,} requests had failed: their answer's length is null")
    note_end(lines, rows)


def cells(text: str) -> list[str]:
    """Raises Unfit for a line that is no CSV."""
    try:
        return [c.strip() for c in next(csv.reader([text], strict=True), [])]
    except csv.Error as error:
        raise Unfit(UNREADABLE) from error


def with_last(texts: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """Each with whether it is the last; one is read ahead."""
    held = next(texts, None)
    for text in texts:
        assert held is not None
        yield held, False
        held = text
    if held is not None:
        yield held, True


def note_end(lines: Lines, rows: Rows) -> None:
    """What the end of a file was like, once it is read."""
    if lines.cut:
        rows.notes.append("the packed file is cut or damaged: what came after is not here")
    elif lines.open_end:
        rows.notes.append("the last line has no line end: if it was cut, its last number is too small")
    if lines.too_long_count:
        rows.left_out["too long a line"] += lines.too_long_count
        rows.read_count += lines.too_long_count


def _request(values: list[str], shape: Shape, places: dict[str, int]) -> tuple[Request, bool]:
    """And whether it had failed."""
    def cell(name: str) -> str:
        if name not in places:
            return ""
        if places[name] >= len(values):
            raise Unfit(UNREADABLE)
        return values[places[name]]

    if len(values) > len(places):
        raise Unfit(UNREADABLE)
    output = tokens(cell(shape.output))
    failed = shape.zero_is_failure and output == 0
    request = Request(
        prompt(tokens(cell(shape.prompt))), None if failed else output, shape.moment(cell(shape.arrival)),
        task=cell(shape.task) or None, session=cell(shape.session) or None,
    )  # fmt: skip
    return request, failed

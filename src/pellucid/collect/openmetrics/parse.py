"""Text of a metrics page → samples. A line that cannot be read is left out and counted; the rest still counts.

    parse('requests_running{rank="0"} 3\\n!!\\n')
        == Page([Sample("requests_running", {"rank": "0"}, 3.0)], damaged_count=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    samples: list[Sample]
    damaged_count: int = 0


def parse(text: str) -> Page:
    """Whole where it can be; line by line only for a damaged page, which takes longer."""
    try:
        return Page(list(_samples(text)))
    except (ValueError, KeyError, IndexError, TypeError):   # what the parser does with a cut line depends on where
        return _line_by_line(text)


def _line_by_line(text: str) -> Page:
    samples: list[Sample] = []
    damaged_count = 0
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            samples.extend(_samples(line + "\n"))
        except (ValueError, KeyError, IndexError, TypeError):
            damaged_count += 1
    return Page(samples, damaged_count)


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield Sample(sample.name, sample.labels, sample.value)

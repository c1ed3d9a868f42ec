"""Samples of one page → what they are in our words, by the catalog. What has no place there is kept as it is.

    Sample("<engine>:request_success_total", {"engine": "0", "finished_reason": "stop"}, 7)
        → Told(Key("127.0.0.1:8000", "finished_count", "counter", part="stop", dp_rank=0), series, 7.0)

Left out: blanks (a GPU exporter's "not measured"), NaN and infinity, ranks that repeat rank 0,
and an old name beside a new one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pellucid.catalog.load_series import Exporter, Family, Found, find, scraped
from pellucid.collect.openmetrics.parse import Sample

REPLICA_LABELS = ("pod", "instance")   # who speaks, on a page or in a store that holds several
_PARTS = {"_bucket": "bucket", "_sum": "sum", "_count": "count"}
_STATUS = re.compile(r"[1-5](xx|\d\d)")


class Key(NamedTuple):
    """What a row is about. Samples with the same key are one row: counters add up, of gauges the highest counts."""

    process: str
    metric: str
    kind: str
    part: str | None = None
    model: str | None = None
    device: str | None = None
    dp_rank: int | None = None
    le: float | None = None


class Series(NamedTuple):
    """What a sample is a value of: its name and labels as the page has them."""

    process: str
    name: str
    labels: tuple[tuple[str, str], ...]


class Told(NamedTuple):
    key: Key
    series: Series
    value: float


@dataclass(slots=True)
class Speaker:
    """Who a page speaks for, as far as it says."""

    engine: str = ""
    model: str | None = None
    version_path: str = ""
    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Translated:
    told: list[Told] = field(default_factory=list)
    unmapped: list[tuple[str, Sample]] = field(default_factory=list)      # with the process
    created: dict[Series, float] = field(default_factory=dict)            # family's name, le left out → UNIX s
    speakers: dict[str, Speaker] = field(default_factory=dict)
    blank_count: int = 0


def translate(samples: Iterable[Sample], process: str) -> Translated:
    """`process` is who speaks where a sample does not say."""
    result = Translated()
    found = [(sample, find(sample.name)) for sample in samples]
    names = {hit.name for _, hit in found if hit}
    first: dict[tuple[str, str], int] = {}                                # process, metric → place of its first family
    candidates: list[tuple[int, Told]] = []
    for sample, hit in found:
        who = next((sample.labels[label] for label in REPLICA_LABELS if label in sample.labels), process)
        if hit is None:
            result.unmapped.append((who, sample))
        elif hit.suffix == "_created":
            result.created[_series(who, hit.name, sample.labels)] = sample.value
        else:
            for told in _tell(result, who, sample, hit, names):
                candidates.append((hit.place, told))
                known = (told.key.process, told.key.metric)
                first[known] = min(hit.place, first.get(known, hit.place))
    result.told = [t for place, t in candidates if first[t.key.process, t.key.metric] == place]
    return result


def _tell(result: Translated, who: str, sample: Sample, hit: Found, names: set[str]) -> list[Told]:
    exporter, family, labels = hit.exporter, hit.family, sample.labels
    metric = family.metric or family.metrics.get(labels.get(family.by, ""), "")
    if not metric:
        result.unmapped.append((who, sample))
        return []
    model = _model(exporter, labels)
    if exporter.engine:
        _note(result.speakers.setdefault(who, Speaker()), exporter, model)
    kind = scraped()[metric].kind
    if kind == "info":
        kept = {k: v for k, v in labels.items() if k in exporter.config_labels and v != "None"}
        result.speakers.setdefault(who, Speaker()).config.update(kept)
        series = Series(who, sample.name, ())
        return [Told(Key(who, m, "gauge", model=model, dp_rank=_rank(exporter, labels)), series, float(labels[label]))
                for label, m in exporter.config_gauges.items() if labels.get(label, "").isdigit()]  # fmt: skip
    if any(labels.get(label, "0") not in ("0", "") for label in exporter.repeat_labels):
        return []
    if not math.isfinite(sample.value) or any(low <= sample.value <= high for low, high in exporter.blanks):
        result.blank_count += 1
        return []
    factor = family.factors.get(labels.get(family.by, ""), family.factor)
    if family.percent_beside in names:
        factor *= 0.01
    word = _PARTS[hit.suffix] if hit.suffix else kind
    le = _bound(labels.get("le", "")) if word == "bucket" else None
    if word == "histogram" or (word == "bucket" and le is None):     # a summary's quantile, a bucket without a bound
        result.unmapped.append((who, sample))
        return []
    le = None if le is None else le * factor
    key = Key(who, metric, word, _part(family, labels), model, _device(exporter, labels), _rank(exporter, labels), le)
    value = sample.value if word in ("bucket", "count") else sample.value * factor
    return [Told(key, Series(who, sample.name, tuple(sorted(labels.items()))), value)]


def created_key(told: Told) -> Series:
    """Under which `created` has the start of a sample's series."""
    hit = find(told.series.name)
    return _series(told.key.process, hit.name if hit else "", dict(told.series.labels))


def status_class(status: str) -> str | None:
    """`503` → `5xx`; 429 stays itself, since it says that there was no room and not that anything was wrong."""
    status = status.strip().lower()
    if not _STATUS.fullmatch(status):
        return None
    return status if status == "429" else f"{status[0]}xx"


def _series(who: str, name: str, labels: dict[str, str]) -> Series:
    return Series(who, name, tuple(sorted((k, v) for k, v in labels.items() if k != "le")))


def _note(speaker: Speaker, exporter: Exporter, model: str | None) -> None:
    speaker.engine = speaker.engine or exporter.engine
    speaker.model = speaker.model or model
    speaker.version_path = exporter.version_path


def _model(exporter: Exporter, labels: dict[str, str]) -> str | None:
    """The last part of a path: what is before it may be somebody's home."""
    name = next((labels[label] for label in exporter.model_labels if labels.get(label)), None)
    return name.rstrip("/").rsplit("/", 1)[-1] if name and name.startswith(("/", "~", ".")) else name


def _part(family: Family, labels: dict[str, str]) -> str | None:
    return status_class(labels.get(family.status, "")) if family.status else labels.get(family.part)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _device(exporter: Exporter, labels: dict[str, str]) -> str | None:
    return "/".join(labels[label] for label in exporter.device_labels if label in labels) or None


def _rank(exporter: Exporter, labels: dict[str, str]) -> int | None:
    rank = labels.get(exporter.rank_label, "")
    return int(rank) if rank.isascii() and rank.isdigit() else None

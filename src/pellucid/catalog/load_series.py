"""Metric families of engines and exporters → frozen records, and the look-up by the name of a sample.

    find("vllm:generation_tokens_total").family.metric        == "output_tokens"
    find("vllm:time_to_first_token_seconds_bucket").suffix    == "_bucket"
    find("go_gc_duration_seconds")                            is None

Strict as `load`: an unknown key, a wrong type, a metric that `scraped.toml` does not have, each with the file's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from pellucid.catalog.load import FOLDER

ScrapedKind = Literal["gauge", "counter", "histogram", "info"]
Kind = TypeVar("Kind")
ORDER = ("vllm", "sglang", "tensorrt_llm", "llamacpp", "dcgm", "python")   # where two tell the same, the first counts


class Scraped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: ScrapedKind
    meaning: str


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One family of an exporter. Either `metric`, or `by` and `metrics` where a label tells several metrics apart."""

    metric: str = ""
    factor: float = 1.0            # ours per theirs
    part: str = ""                 # label that becomes the column `part`
    status: str = ""               # label with an HTTP status, which becomes `part` as its class
    by: str = ""
    metrics: dict[str, str] = {}   # value of the label `by` → metric
    factors: dict[str, float] = {}
    percent_beside: str = ""       # family that, where it is on the page, says that this one counts to 100
    since: str = ""                # first engine version that has it; "" where not known
    until: str = ""                # first engine version that has it no more

    def names(self) -> tuple[str, ...]:
        return (self.metric,) if self.metric else tuple(self.metrics.values())


class Exporter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    families: dict[str, Family]
    engine: str = ""               # "" where it is no engine
    model_labels: list[str] = []   # labels with the model's name, the first one there counts
    rank_label: str = ""           # label with the data-parallel rank
    repeat_labels: list[str] = []  # ranks that say the same as their rank 0
    device_labels: list[str] = []  # labels that name a device
    config_labels: list[str] = []  # labels of an info family that are kept
    config_gauges: dict[str, str] = {}   # labels of an info family that are gauges → metric
    version_path: str = ""         # page of the engine's server with its version
    blanks: list[tuple[float, float]] = []   # values from … to that mean "not measured"


@dataclass(frozen=True, slots=True)
class Found:
    exporter: Exporter
    name: str                      # the family's, as in the file
    family: Family
    suffix: str                    # "", _bucket, _sum, _count or _created
    place: int                     # in the files' order


@cache
def scraped() -> dict[str, Scraped]:
    return _decode(FOLDER / "scraped.toml", dict[str, Scraped])


@cache
def exporters() -> dict[str, Exporter]:
    return {name: read_exporter(FOLDER / "series" / f"{name}.toml") for name in ORDER}


def read_exporter(path: Path) -> Exporter:
    """Raises ValueError that names the file and the family."""
    exporter = _decode(path, Exporter)
    told = [("config_gauges", metric) for metric in exporter.config_gauges.values()]
    for name, family in exporter.families.items():
        if bool(family.metric) == bool(family.by and family.metrics):
            raise ValueError(f"{path.name}: {name} takes either metric, or by and metrics")
        told += [(name, metric) for metric in family.names()]
    for name, metric in told:
        if metric not in scraped():
            raise ValueError(f"{path.name}: {name} becomes {metric}, which scraped.toml does not have")
    return exporter


def find(sample: str) -> Found | None:
    """The family a sample belongs to, by the sample's name alone: stored series carry no type."""
    index = _index()
    for suffix in ("", "_total"):
        if sample.endswith(suffix) and (hit := index.get(sample.removesuffix(suffix))):
            return hit
    for suffix in ("_bucket", "_sum", "_count", "_created"):
        if sample.endswith(suffix):
            family = sample.removesuffix(suffix)
            hit = index.get(family) or index.get(family.removesuffix("_total"))
            if hit and (suffix == "_created" or _is_histogram(hit.family)):
                return Found(hit.exporter, hit.name, hit.family, suffix, hit.place)
    return None


@cache
def _index() -> dict[str, Found]:
    pairs = [(e, name, family) for e in exporters().values() for name, family in e.families.items()]
    return {name: Found(e, name, family, "", place) for place, (e, name, family) in enumerate(pairs)}


def _is_histogram(family: Family) -> bool:
    return any(scraped()[m].kind == "histogram" for m in family.names())


def _decode(path: Path, kind: type[Kind]) -> Kind:
    try:
        return msgspec.toml.decode(path.read_text(), type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from error

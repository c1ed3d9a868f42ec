"""One scrape → rows of `metrics`, `samples`, `sources`.

    pages = Pages(append, anchor)
    pages.take(samples, "127.0.0.1:8000", now_ns)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.collect.facts import blind, fact_row
from pellucid.collect.openmetrics.parse import Sample
from pellucid.collect.openmetrics.private import public
from pellucid.collect.openmetrics.track import Tracker
from pellucid.collect.openmetrics.translate import Key, Speaker, Translated, translate
from pellucid.core.clock import Anchor
from pellucid.store.schema import METRICS, SAMPLES, SOURCES
from pellucid.store.write import Row, RunWriter

Append = Callable[[str, Row], None]
DEPLOYMENT = "default"
WHO = {"process": "attach", "role": "recorder", "engine_version": None}


@dataclass(slots=True)
class Pages:
    append: Append
    anchor: Anchor
    tracker: Tracker = field(default_factory=Tracker)
    speakers: dict[str, Speaker] = field(default_factory=dict)
    unmapped_names: set[str] = field(default_factory=set)
    mapped_count: int = 0                                             # samples in our words, of all pages
    _before_ns: dict[str, int | None] = field(default_factory=dict)   # last page of a process

    def take(self, samples: Iterable[Sample], process: str, now_ns: int | None) -> Translated:
        """A page, or the samples of one moment of several processes. `now_ns`: None where nobody noted it."""
        page = translate(samples, process)
        self.mapped_count += len(page.told)
        for who, speaker in page.speakers.items():
            self._merge(who, speaker)
        values = self.tracker.take(page.told, page.created)
        for key, value in values.items():
            if value or key.kind != "bucket":
                self.write(key, value, now_ns)
        for who, sample in page.unmapped:
            self.unmapped_names.add(sample.name)
            self._sample(who, sample, now_ns)
        for who in {key.process for key in values}:
            self._before_ns[who] = now_ns
        return page

    def write(self, key: Key, value: float, now_ns: int | None) -> None:
        """One row; its interval begins at the process's page before this one."""
        known = {
            **self._who(key.process), "dp_rank": key.dp_rank, "metric": key.metric, "kind": key.kind, "part": key.part,
            "model": key.model, "device": key.device, "start_ns": self._before_ns.get(key.process, now_ns),
            "end_ns": now_ns, "le": key.le, "value": value,
        }  # fmt: skip
        self.append("metrics", tuple(known.get(name) for name in METRICS.names()))

    def source(self, process: str, version: str, start_ns: int) -> None:
        """A row of `sources` for a process, as far as its pages told."""
        speaker = self.speakers.get(process, Speaker())
        known = {
            **self._who(process), "role": "endpoint", "engine_version": version or None, "model": speaker.model,
            "config_json": json.dumps({k: _number(v) for k, v in speaker.config.items()}), "start_ns": start_ns,
            "anchor_mono_ns": self.anchor.mono_ns, "anchor_wall_ns": self.anchor.wall_ns,
        }  # fmt: skip
        self.append("sources", tuple(known.get(name) for name in SOURCES.names()))

    def _sample(self, who: str, sample: Sample, now_ns: int | None) -> None:
        known: Mapping[str, Any] = {
            **self._who(who), "name": sample.name, "labels_json": json.dumps(public(sample.labels), sort_keys=True),
            "time_ns": now_ns, "value": sample.value,
        }  # fmt: skip
        self.append("samples", tuple(known.get(name) for name in SAMPLES.names()))

    def _who(self, process: str) -> dict[str, Any]:
        speaker = self.speakers.get(process)
        return {"deployment": DEPLOYMENT, "engine": speaker.engine or None if speaker else None, "process": process}

    def _merge(self, who: str, speaker: Speaker) -> None:
        known = self.speakers.setdefault(who, speaker)
        known.config.update(speaker.config)
        known.model = known.model or speaker.model


def write_unseen(writer: RunWriter, unseen: Mapping[str, str], collect: str) -> None:
    """Facts that no metrics page has, as blind."""
    for fact, meaning in unseen.items():
        writer.append("facts", fact_row(WHO, fact, blind(f"no metrics page has it: {meaning}", collect)))


def _number(text: str) -> int | float | bool | str:
    """Label values are text; a number among them is one again."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text

"""Settings that the engine's scheduler goes by: ours ↔ the engine's names, and those of a recorded engine.

    Settings(8, 2048, 4096, 900, 16, sequence_cap=4).told()
    → {"max_num_seqs": 8, "max_num_batched_tokens": 2048, …, "max_num_active_seqs": 4}

    settings_of({"max_num_seqs": 16, "speculative_method": "ngram", …})   of sources.config_json → Settings(16, …)
    not_driven(the same)                                                  → ("drafts by ngram",)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from pellucid.catalog.load import knobs
from pellucid.core.errors import CannotAnswer

ENGINE = "vllm"
# The engine's names of what is no knob.
WORDS = {"max_context_tokens": "max_model_len", "kv_blocks_count": "num_gpu_blocks", "model": "model"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Names are the catalog's knobs, where it has them. None is as the engine decides for such a model."""

    max_running_requests: int
    step_token_budget: int
    max_context_tokens: int
    kv_blocks_count: int                 # one of them is never used
    kv_block_tokens: int
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    long_prefill_threshold: int | None = None
    long_prefill_adaptive: bool | None = None
    sequence_cap: int | None = None
    scheduled_token_budget: int | None = None
    admission_watermark: float | None = None
    reserve_full_prompt: bool | None = None
    scheduling_policy: str | None = None
    model: str | None = None             # a folder with its config.json; a small one is made
    others: Mapping[str, bool | int | float | str] = field(default_factory=dict)      # in the engine's names

    def told(self) -> dict[str, bool | int | float | str]:
        """In the engine's names."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "others"}
        return {word(name): value for name, value in given.items() if value is not None} | dict(self.others)


def settings_of(config: Mapping[str, Any], model: str | None = None) -> Settings:
    """Of a recorded engine, from its configuration as the probe wrote it. `model`: a folder with its config.json, where
    there is one here; the recorded name may be of another machine. Raises CannotAnswer where something is missing."""
    known = [f for f in fields(Settings) if f.name not in ("model", "others")]
    given: dict[str, Any] = {f.name: config.get(word(f.name)) for f in known}
    missing = [word(f.name) for f in known if f.default is MISSING and given[f.name] is None]
    if missing:
        raise CannotAnswer(f"the recorded configuration has no {', '.join(missing)}. Try: record with the probe")
    return Settings(**given, model=model)


def not_driven(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a recorded engine does beside what is driven here, so that its steps are other ones."""
    found = []
    if config.get("async_scheduling"):
        found.append("asynchronous scheduling: the end of a request is noticed a step later")
    if config.get("speculative_method"):
        found.append(f"drafts by {config['speculative_method']}")
    found += [f"{config[name]} {what}" for name, what in RANKS.items() if (config.get(name) or 1) > 1]
    return tuple(found)


RANKS = {"pipeline_parallel_size": "pipeline stages", "data_parallel_size": "data-parallel engines"}


def word(name: str) -> str:
    """The engine's name of a setting."""
    if name in WORDS:
        return WORDS[name]
    return next(spelling.config for spelling in knobs()[name].spellings if spelling.engine == ENGINE)

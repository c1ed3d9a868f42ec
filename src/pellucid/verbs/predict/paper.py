"""A config.json, a GPU and a load → every placement of the model, with fit, bounds of speed, and cost.

    predict_on_paper(Question(Path("a.json"), gpu="H200", gpus_count=8)).json()
    → {"head": {"gpu": "NVIDIA H200 SXM", "models": [{"model": "a", "kv_token_bytes": 131072, …}], …},
       "rows": [{"model": "a", "placement": "DP8", "fits": "yes", "output_most_per_s": 61000.0, …}, …],
       "refused": [{"model": "a", "placement": "TP8", "reason": "…"}], "notes": ["…"], "units": {…}}

_least and _most are bounds: no engine does better. _in_turn is the roofs one after another, by which placements are
ordered. _low and _high are from engines that were seen, null where too few were like it; docs/predict_on_paper.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.catalog.devices.gpus import Device
from pellucid.catalog.devices.seen import seen
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import unit_of
from pellucid.physics.cache import kv_bytes_per_token
from pellucid.physics.formats import FP32
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import count, token_flop, weight_bytes
from pellucid.sim.paper.choose import Ranked, ranked
from pellucid.sim.paper.cost import Api
from pellucid.sim.paper.fit import Room, Span, room
from pellucid.sim.paper.outlook import Setting, outlook
from pellucid.sim.paper.placement import Placement, Placements, Refused, placement_of, placements
from pellucid.sim.paper.precision import emulated, in_precision, kv_format
from pellucid.sim.paper.speed import Traffic
from pellucid.verbs.predict.given import Given, device_named, model_of
from pellucid.verbs.predict.rows import row

# Above what anybody serves; beyond it an answer would only take long.
MOST_REQUESTS, MOST_GPUS, MOST_TOKENS, MOST_DRAFTS = 100_000, 1024, 10_000_000, 16


@dataclass(frozen=True, slots=True)
class Question:
    model: Path
    gpu: str
    gpus_count: int | None = None      # None for those of the placement, or 1
    placement: str | None = None       # TP4 DP2; None for all there are
    against: Path | None = None
    precision: str | None = None       # of weights; None for the checkpoint's
    kv: str | None = None              # None for bf16
    prompt_tokens: int = 1024
    output_tokens: int = 256
    concurrency: int = 64
    drafts: int = 0
    target_ns: float | None = None     # for TPOT
    share_ratio: float = 0.9
    reserve_bytes: float | None = None # None for what engines were seen to hold
    page_tokens: int = 16
    step_tokens: int = 8192
    gpu_hour: float | None = None
    api: Api | None = None

    @property
    def chosen(self) -> Placement | None:
        return None if self.placement is None else placement_of(self.placement)

    @property
    def gpus(self) -> int:
        if self.gpus_count is not None:
            return self.gpus_count
        return 1 if self.chosen is None else self.chosen.gpus_count


@dataclass(frozen=True, slots=True)
class Side:
    """One of the models."""

    name: str
    given: Given
    setting: Setting
    order: tuple[Ranked, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    question: Question
    device: Device
    room: Room
    reserve: Span
    sides: tuple[Side, ...]

    def json(self) -> dict[str, Any]:
        rows = [row(side.name, found, side.setting, self.question.gpu_hour, self.question.api)
                for side in self.sides for found in side.order]  # fmt: skip
        return {
            "head": self._head(), "rows": rows, "notes": list(self._notes()),
            "refused": [{"model": side.name, "placement": r.placement.name, "reason": r.reason}
                        for side in self.sides for r in side.refused],
            "units": {key: unit_of(key) for key in (rows[0] if rows else {}) if unit_of(key)},
        }  # fmt: skip

    def _head(self) -> dict[str, Any]:
        q = self.question
        return {
            "gpu": self.device.entry.name, "gpus_count": q.gpus,
            "domain_gpus_count": self.sides[0].setting.domain,
            "memory_bytes": self.room.total_bytes, "share_ratio": q.share_ratio,
            "reserve_low_bytes": self.reserve.low, "reserve_high_bytes": self.reserve.high,
            "precision": q.precision, "kv": q.kv or "bf16", "prompt_tokens": q.prompt_tokens,
            "output_tokens": q.output_tokens, "requests_count": q.concurrency, "drafts_count": q.drafts,
            "tpot_target_ns": q.target_ns, "step_tokens": q.step_tokens, "page_tokens": q.page_tokens,
            "gpu_hour_price": q.gpu_hour, "api_prompt_price": q.api.prompt if q.api else None,
            "api_output_price": q.api.output if q.api else None,
            "models": [_facts(side) for side in self.sides],
        }  # fmt: skip

    def _notes(self) -> Iterator[str]:
        if not self.room.reported:
            yield f"memory of {self.device.entry.name} is the data sheet's: what its driver reports is not established"
        for side in self.sides:
            yield from _remarks(side, self.device)
        if self.question.drafts:
            yield "drafts cost their check and their weights here; making them is not counted, and all are kept at most"
        ordered = [found.outlook for side in self.sides for found in side.order]
        doubts = {d: None for o in ordered if o.speed for d in (*o.speed.steady.disputed, *o.speed.steady.assumes)}
        yield from (f"assumed, or in doubt: {doubt}" for doubt in doubts)
        if not any(o.speed and o.speed.steady_seen_ns for o in ordered):
            yield "no range: too few engines were seen on this GPU with such weights, so speeds are bounds alone"


def predict_on_paper(question: Question) -> Answer:
    """Raises AskedWrongly for what makes no sense, CannotAnswer for what is not known or cannot be placed."""
    _check(question)
    device = device_named(question.gpu)
    space = room(device, question.share_ratio)
    if space is None:
        raise CannotAnswer(f"--gpu {question.gpu}: nobody states how much memory {device.entry.name} has")
    reserve = _reserve(question, space)
    paths = [p for p in (question.model, question.against) if p is not None]
    names = _names(paths)
    sides = tuple(_side(question, name, model_of(path), device, space, reserve)
                  for name, path in zip(names, paths, strict=True))  # fmt: skip
    return Answer(question, device, space, reserve, sides)


def _check(q: Question) -> None:
    if q.gpus < 1:
        raise AskedWrongly(f"--gpus {q.gpus}: 1 at least")
    if q.chosen is not None and q.chosen.gpus_count != q.gpus:
        raise AskedWrongly(f"--placement {q.chosen.name} is of {q.chosen.gpus_count} GPUs, and --gpus says {q.gpus}")
    if not 0 < q.share_ratio <= 1:
        raise AskedWrongly(f"--share {q.share_ratio}: above 0 and 1 at most")
    if q.page_tokens < 1 or q.step_tokens < 1:
        raise AskedWrongly("--page and --step-tokens are 1 at least")
    for name, value, most in (("--concurrency", q.concurrency, MOST_REQUESTS), ("--gpus", q.gpus, MOST_GPUS),
                              ("--prompt", q.prompt_tokens, MOST_TOKENS), ("--output", q.output_tokens, MOST_TOKENS),
                              ("--mtp", q.drafts, MOST_DRAFTS)):  # fmt: skip
        if value > most:
            raise AskedWrongly(f"{name} {value}: {most:,} at most")
    prices = [("--gpu-hour", q.gpu_hour), *((("--api-in", q.api.prompt), ("--api-out", q.api.output)) if q.api else ())]
    for name, price in prices:
        if price is not None and price < 0:
            raise AskedWrongly(f"{name} {price}: a price is not below 0")
    if q.gpu_hour == 0 or (q.api and not q.api.of(q.prompt_tokens, q.output_tokens)):
        raise AskedWrongly("a price of 0 compares with nothing; leave it out")


def _reserve(q: Question, space: Room) -> Span:
    """As given, or the least and most share of a device that engines were seen to hold."""
    if q.reserve_bytes is not None:
        return Span(q.reserve_bytes, q.reserve_bytes)
    shares = [found.of_device_ratio for found in seen().reserves]
    return Span(min(shares) * space.total_bytes, max(shares) * space.total_bytes)


def _names(paths: list[Path]) -> list[str]:
    """The folder of a config.json, else the file; a and b where that does not tell them apart."""
    names = [p.parent.name if p.name == "config.json" and p.parent.name else p.stem for p in paths]
    return names if len(set(names)) == len(names) else ["a", "b"]


def _side(q: Question, name: str, given: Given, device: Device, space: Room, reserve: Span) -> Side:
    geometry = in_precision(given.geometry, q.precision, device)
    if q.drafts and not geometry.mtp_layers:
        raise AskedWrongly(f"--mtp {q.drafts}: {given.path} names no MTP heads that are known here. Leave --mtp out")
    domain = int(device.cells["domain_gpus_count"].value or 1)
    try:
        traffic = Traffic(q.prompt_tokens, q.output_tokens, q.concurrency, q.drafts)
    except ValueError as error:
        raise AskedWrongly(f"--prompt, --output, --concurrency: {error}") from error
    setting = Setting(geometry, kv_format(geometry, q.kv), device, domain, space, reserve, q.page_tokens,
                      q.step_tokens, traffic, seen())  # fmt: skip
    found = placements(geometry, q.gpus, domain)
    wanted = found.possible if q.chosen is None else (_possible(q.chosen, given, found),)
    order = ranked([outlook(setting, p, q.target_ns) for p in wanted], q.target_ns is not None)
    return Side(name, given, setting, order, found.refused if q.chosen is None else ())


def _possible(chosen: Placement, given: Given, found: Placements) -> Placement:
    if chosen in found.possible:
        return chosen
    why = next((r.reason for r in found.refused if r.placement == chosen), "it has no experts to share out")
    possible = ", ".join(p.name for p in found.possible)
    raise CannotAnswer(f"--placement {chosen.name} of {given.path}: {why}. Possible with so many GPUs: {possible}")


def _facts(side: Side) -> dict[str, Any]:
    geometry, setting = side.setting.geometry, side.setting
    found = count(geometry)
    return {
        "model": side.name, "path": side.given.path, "model_type": geometry.model_type,
        "parameters_count": found.total, "active_parameters_count": found.active,
        "weights_bytes": weight_bytes(geometry, mtp=setting.traffic.drafts > 0),
        "formats": sorted({fmt.name for _, fmt in geometry.quantization.groups} or {geometry.dtype.name}),
        "kv_token_bytes": kv_bytes_per_token(geometry, setting.cache), "kinds": _kinds(geometry),
        "token_flop": token_flop(geometry, setting.traffic.context_tokens).flop,
        "unread": list(side.given.unread), "left_out": list(geometry.left_out),
    }  # fmt: skip


def _kinds(geometry: Geometry) -> dict[str, int]:
    """Layers by what mixes their tokens."""
    kinds = [layer.kind for layer in geometry.layers]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _remarks(side: Side, device: Device) -> Iterator[str]:
    if side.given.unread:
        yield f"{side.name}: not read, and taken not to matter: {', '.join(side.given.unread)}"
    if side.setting.geometry.left_out:
        yield f"{side.name}: not counted: {', '.join(side.setting.geometry.left_out)}"
    if side.setting.geometry.dtype is FP32:
        yield f"{side.name}: its weights are in fp32; engines load such a checkpoint in 16 bits. Try: --precision bf16"
    for fmt in emulated(side.setting.geometry, device):
        yield f"{side.name}: {device.entry.name} does not multiply in {fmt}: stored so, and multiplied in 16 bits"

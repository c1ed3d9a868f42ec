"""Which format each matrix of a checkpoint is in: the `quantization_config` of a config.json.

    read_quantization({"quant_method": "fp8", "weight_block_size": [128, 128]}).format_of("layers.0.self_attn.q_proj")

Embeddings, norms and routers stay as they are whatever a method says, since no engine loads them otherwise. So does
the output matrix, unless it is named. Modules that the method leaves out are matched by name, as the method does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pellucid.core.errors import CannotAnswer
from pellucid.physics.formats import (
    FP8,
    FP8_CHANNEL,
    INT8_CHANNEL,
    MXFP4,
    MXFP8,
    NVFP4,
    NVFP4_WEIGHTS,
    Format,
    fp8_blocks,
    grouped,
)

ROOTS = ("model.", "language_model.", "text_model.")      # wrappers around the layers; multimodal models add some


@dataclass(frozen=True, slots=True)
class Quantization:
    """Formats by module. The first group whose pattern fits counts; `only` limits the whole to modules it names."""

    method: str = ""
    groups: tuple[tuple[str, Format], ...] = ()    # pattern of module names, "" for all → format
    ignored: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    head: bool = False                             # the output matrix too

    def format_of(self, module: str) -> Format | None:
        """None where the module stays in the model's own type."""
        name = bare(module)
        if (name == "lm_head" and not self.head) or any(matches(p, name) for p in self.ignored):
            return None
        if self.only and not any(word in name for word in self.only):
            return None
        return next((fmt for pattern, fmt in self.groups if not pattern or matches(pattern, name)), None)


PLAIN = Quantization()


def bare(module: str) -> str:
    """A module's name without the wrappers in front."""
    while root := next((r for r in ROOTS if module.startswith(r)), None):
        module = module.removeprefix(root)
    return module


def matches(pattern: str, name: str) -> bool:
    """`re:` is a regular expression from the start, `*` stands for anything, else the module itself, one that holds
    it, or a part of its name."""
    if pattern.startswith("re:"):
        expression = re.compile(pattern.removeprefix("re:"))
        return any(expression.match(full) for full in (name, f"model.{name}", f"model.language_model.{name}"))
    pattern = bare(pattern)
    if "*" in pattern:
        return fnmatchcase(name, pattern) or fnmatchcase(f"model.{name}", pattern)
    return f".{pattern}." in f".{name}."


def read_quantization(config: Mapping[str, Any] | None) -> Quantization:
    """Raises CannotAnswer that names the method, or the key, that is not known."""
    if not config:
        return PLAIN
    method = str(config.get("quant_method", ""))
    readers = {
        "fp8": _fp8, "awq": _integers, "gptq": _integers, "mxfp4": _mxfp4, "modelopt": _modelopt,
        "modelopt_fp4": _modelopt, "compressed-tensors": _compressed,
    }  # fmt: skip
    if method not in readers:
        known = ", ".join(sorted(readers))
        raise CannotAnswer(f"quantization_config: quant_method {method!r} is not known; known are {known}")
    return readers[method](method, config)


def _names(config: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple(str(name) for key in keys for name in config.get(key) or ())


def _fp8(method: str, config: Mapping[str, Any]) -> Quantization:
    block = config.get("weight_block_size")
    fmt = fp8_blocks(int(block[0]), int(block[1])) if block else FP8
    return Quantization(method, (("", fmt),), _names(config, "modules_to_not_convert", "ignored_layers"))


def _integers(method: str, config: Mapping[str, Any]) -> Quantization:
    if "bits" not in config or "group_size" not in config:
        raise CannotAnswer(f"quantization_config: {method} without bits or group_size: bytes cannot be told")
    zeros = bool(config.get("zero_point", True)) if method == "awq" else True      # GPTQ files keep them when symmetric
    fmt = grouped(int(config["bits"]), int(config["group_size"]), zeros)
    ignored = _names(config, "modules_to_not_convert")
    return Quantization(method, (("", fmt),), ignored, head=bool(config.get("lm_head", False)))


def _mxfp4(method: str, config: Mapping[str, Any]) -> Quantization:
    """gpt-oss: the experts alone; attention, router, embeddings and output stay (its model card, §2.1)."""
    return Quantization(method, (("", MXFP4),), _names(config, "modules_to_not_convert"), only=("experts",))


def _modelopt(method: str, config: Mapping[str, Any]) -> Quantization:
    inner = config.get("quantization", config)
    formats = {"NVFP4": NVFP4, "FP8": FP8, "W4A16_NVFP4": NVFP4_WEIGHTS, "NVFP4_AWQ": NVFP4, "MXFP8": MXFP8}
    name = str(inner.get("quant_algo", ""))
    if name not in formats:
        raise CannotAnswer(f"quantization_config: quant_algo {name!r} is not known; known are {', '.join(formats)}")
    ignored = _names(inner, "exclude_modules", "ignore")
    return Quantization(method, (("", formats[name]),), ignored)


def _compressed(method: str, config: Mapping[str, Any]) -> Quantization:
    groups = []
    for group in (config.get("config_groups") or {}).values():
        fmt = _scheme(group)
        targets: Sequence[str] = group.get("targets") or ["Linear"]
        groups += [("" if target == "Linear" else target, fmt) for target in targets]
    if not groups:
        raise CannotAnswer("quantization_config: compressed-tensors without config_groups: formats cannot be told")
    return Quantization(method, tuple(groups), _names(config, "ignore"), head=True)


def _scheme(group: Mapping[str, Any]) -> Format:
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    kind, bits = weights.get("type"), weights.get("num_bits")
    strategy, size = weights.get("strategy"), weights.get("group_size")
    if kind == "float" and bits == 4:
        return MXFP4 if size == 32 else (NVFP4 if inputs else NVFP4_WEIGHTS)
    if kind == "float" and bits == 8:
        if strategy == "block":
            rows, columns = weights["block_structure"]
            return fp8_blocks(int(rows), int(columns))
        return FP8 if strategy == "tensor" else FP8_CHANNEL
    if kind == "int" and bits == 8 and inputs:
        return INT8_CHANNEL
    if kind == "int" and bits in (2, 3, 4, 8):
        return grouped(int(bits), int(size or -1), zero_points=not weights.get("symmetric", True))
    raise CannotAnswer(f"quantization_config: weights of type {kind!r} with {bits!r} bits are not known")

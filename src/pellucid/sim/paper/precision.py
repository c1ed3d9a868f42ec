"""Another precision of weights or KV than the checkpoint's: a name → a geometry in it, or a refusal.

    in_precision(geometry, "fp8", device)       the geometry with every matrix in fp8 and its scales
    in_precision(geometry, "nvfp4", h200)       AskedWrongly: … does not multiply in fp4. Try: --precision nvfp4_weights

A name with _weights is stored so and multiplied in 16 bits: bytes are saved, operations are not. Embeddings, norms,
routers and the output matrix stay as they are, as with the methods that engines have for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pellucid.catalog.devices.gpus import Device
from pellucid.core.errors import AskedWrongly
from pellucid.physics.cache import FP8_LATENT, CacheFormat
from pellucid.physics.formats import (
    BF16,
    FP8,
    FP8_BLOCK,
    FP16,
    INT8_CHANNEL,
    MXFP4,
    NVFP4,
    NVFP4_WEIGHTS,
    Format,
    grouped,
)
from pellucid.physics.geometry import Geometry, Mla
from pellucid.physics.quantization import PLAIN, Quantization

FP8_WEIGHTS = Format("fp8_weights", 8, "bf16", tensor_bits=32)
WEIGHTS: Mapping[str, Format] = {
    "bf16": BF16, "fp16": FP16, "fp8": FP8, "fp8_block": FP8_BLOCK, "fp8_weights": FP8_WEIGHTS, "int8": INT8_CHANNEL,
    "int4": grouped(4, 128, zero_points=True), "mxfp4": MXFP4, "nvfp4": NVFP4, "nvfp4_weights": NVFP4_WEIGHTS,
}  # fmt: skip
KV: Mapping[str, Format] = {"bf16": BF16, "fp16": FP16, "fp8": FP8, "nvfp4": NVFP4}
STORED_ONLY: Mapping[str, str] = {"fp8": "fp8_weights", "fp8_block": "fp8_weights", "nvfp4": "nvfp4_weights",
                                  "int8": "fp8_weights"}  # fmt: skip


def in_precision(geometry: Geometry, name: str | None, device: Device) -> Geometry:
    """The geometry as it is for None. Raises AskedWrongly for a name that is none, and what the device cannot do."""
    if name is None:
        return geometry
    if name not in WEIGHTS:
        raise AskedWrongly(f"--precision {name!r} is not known. Known are {', '.join(WEIGHTS)}")
    fmt = WEIGHTS[name]
    cell = device.peak_flop_per_s[fmt.compute]
    if cell.value is None:
        why = "does not multiply in" if cell.absent == "no hardware" else "has no known speed in"
        instead = f"{STORED_ONLY[name]}: the bytes without the operations" if name in STORED_ONLY else "bf16"
        raise AskedWrongly(f"--precision {name}: {device.entry.name} {why} {fmt.compute}. Try: --precision {instead}")
    if name in ("bf16", "fp16"):
        return replace(geometry, dtype=fmt, quantization=PLAIN)
    return replace(geometry, quantization=Quantization(name, (("", fmt),)))


def kv_format(geometry: Geometry, name: str | None) -> CacheFormat:
    """bf16 for None, which is what engines keep KV in unless they are told. Raises AskedWrongly."""
    if name is not None and name not in KV:
        raise AskedWrongly(f"--kv {name!r} is not known. Known are {', '.join(KV)}")
    fmt = KV[name or "bf16"]
    sparse = any(isinstance(layer.mixer, Mla) and layer.mixer.indexer for layer in geometry.layers)
    return CacheFormat(fmt, latent_bytes=FP8_LATENT if sparse and fmt is FP8 else None)


def emulated(geometry: Geometry, device: Device) -> tuple[str, ...]:
    """Formats of the checkpoint that the device stores and multiplies as something wider."""
    formats = {fmt.name: fmt.compute for _, fmt in geometry.quantization.groups}
    return tuple(name for name, compute in formats.items() if device.peak_flop_per_s[compute].value is None)

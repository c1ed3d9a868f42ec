"""A model folder with noise in every matrix: a candidate of which it is known that it is another model.

    .venv-engine/bin/python tools/models/noisy.py .models/gemma-3-270m /tmp/noisy 0.1

Each matrix gets normal noise of 0.1 of its own standard deviation. Norms stay; files other than weights are linked.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def main(source: Path, target: Path, ratio: float) -> None:
    target.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    weights = load_file(source / "model.safetensors")
    for tensor in (t for t in weights.values() if t.dim() == 2):
        tensor += torch.randn_like(tensor) * tensor.float().std() * ratio
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    for file in source.iterdir():
        if file.name != "model.safetensors" and not (target / file.name).exists():
            (target / file.name).symlink_to(file.resolve())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))

"""How this repository starts vLLM: the interpreter, the environment and the command of `make engine`'s install.

    python -m vllm.entrypoints.openai.api_server --model .models/tiny-dense --host 127.0.0.1 --port 40123 …

The CPU build is distributed under another name, so `vllm serve` fails on its own version look-up; the module works.
It starts one API server, though: several take the command line, and `name_engine` for its look-up.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
OLDER = ROOT / ".venv-engine-0.28" / "bin" / "python"       # the oldest minor that runs on a CPU here
MODELS = ROOT / ".models"
SERVER = ("vllm.entrypoints.openai.api_server", "--model")
COMMAND_LINE = ("vllm.entrypoints.cli.main", "serve")      # with `name_engine`; for --api-server-count

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",      # GiB
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# Gemma was seen ready in 46–69 s, also with a second server starting beside it.
READY_TIMEOUT_S = 240.0


def environment() -> dict[str, str]:
    """Of this process, and what the engine wants."""
    return {**os.environ, **ENVIRONMENT}


BF16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}


def dtype() -> str:
    """bfloat16 where the CPU computes in it; elsewhere it is emulated: 512-row products take 8 times as long (AVX2)."""
    words = set(Path("/proc/cpuinfo").read_text().replace("\n", " ").split(" "))
    return "bfloat16" if words & BF16_INSTRUCTIONS else "float32"


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def name_engine(folder: Path) -> dict[str, str]:
    """Metadata under the name the engine's command line looks for; returns the environment in which it is found."""
    version = subprocess.run(
        [str(PYTHON), "-c", "import importlib.metadata as m; print(m.version('vllm-cpu'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    # "+cpu" tells the engine which platform it was built for; without it, it loads code for another one and dies.
    info = folder / f"vllm-{version}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    return {"PYTHONPATH": str(folder)}


def command(
    model: str, port: int, *flags: str, entry: tuple[str, str] = SERVER, python: Path = PYTHON
) -> tuple[str, ...]:
    """The API server's command line, to be run in ROOT; the model is served under its short name.

    Paths are relative, so that a recording made here says the same on every machine.
    """
    missing = [str(p) for p in (python, MODELS / model) if not p.exists()]
    if missing:
        raise FileNotFoundError(f"{' and '.join(missing)} missing. Try: make engine")
    return (
        str(python.relative_to(ROOT)), "-m", *entry, str((MODELS / model).relative_to(ROOT)),
        "--served-model-name", model, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager",
        "--dtype", dtype(), *flags,
    )  # fmt: skip

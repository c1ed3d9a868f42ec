"""`make demo-tune`: a real engine tunes itself on traffic that was recorded from it, twice. No outcome is scripted.

    make demo-tune                  two workloads, half an hour each at most
    make demo-tune BUDGET=15m

Each workload is recorded from an engine that is set up badly for it. Then `pellucid tune` starts from that very set-up,
with the rules' own moves and two candidates that sound good beside them: steps so small that no decode waits for a
prompt, and room for ever more requests at once. What is kept, and what its own evidence refuses, is printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pellucid.core.settings import home
from pellucid.core.units import S_NS, parse_span_ns
from tools import real_engine
from tools.real_engine import ROOT
from tools.recording import pellucid, record
from tools.scenarios import SCENARIOS

FOLDER = ROOT / ".demo"
CASES = ("sequence-cap", "long-prompts")      # badly set up for many users; decodes that wait for long prompts
TEMPTING = """
[[propose]]
set = { max_num_batched_tokens = 64 }
why = "no decode waits for a long prompt"
claim = { metric = "itl_p99_ns", low_ratio = 0.2, high_ratio = 0.8 }

[[propose]]
set = { max_num_seqs = 256 }
why = "as many at once as there can be"
claim = { metric = "output_tokens_per_s", low_ratio = 0.1, high_ratio = 1.0 }
"""


def say(text: str) -> None:
    print(text, flush=True)


def workload(name: str, seed: int) -> Path:
    """Traffic of one case, recorded from a real engine."""
    say(f"== {name}: {SCENARIOS[name].says}")
    served, _ = record(SCENARIOS[name], seed, home(), FOLDER / f"{name}.log", say)
    path = FOLDER / f"{name}.parquet"
    subprocess.run(pellucid("workload", "record", str(path), "--run", str(served.folder()), "--force"), check=True)
    return path


def tune(name: str, path: Path, budget: str) -> int:
    """One session. Its exit code."""
    scenario = SCENARIOS[name]
    listed = FOLDER / "tempting.toml"
    listed.write_text(TEMPTING)
    engine = real_engine.command(scenario.model, 8000, *scenario.flags)
    trial = f"{parse_span_ns(budget) // (2 * S_NS)}s"
    words = pellucid("tune", "--workload", str(path), "--budget", budget, "--trial", trial, "--observe", "30s",
                     "--candidates", str(listed), "--fidelity", "2m", "--", *engine)  # fmt: skip
    say(f"$ {' '.join(words)}")
    return subprocess.run(words, cwd=ROOT, env=real_engine.environment(), check=False).returncode


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--seed", type=int, default=7)
    ask.add_argument("--budget", default="30m")
    options = ask.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    codes = [tune(name, workload(name, options.seed), options.budget) for name in CASES]
    subprocess.run(pellucid("trials"), check=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

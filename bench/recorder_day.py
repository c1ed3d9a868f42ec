"""The recorder over a simulated day: shares per second, memory, disk.

    .venv/bin/python bench/recorder_day.py [--steps 4320000] [--running 256]

A writer process puts a day's records (50 steps/s, 256 running, requests of 500 + 250 tokens that come and go) into a
real ring as fast as the recorder takes them; the recorder is the real one, in a process of its own, with its usual
settings but a clock that runs with the records. KV block lives are among the records. Shares are step-request pairs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

from pellucid_probe import kv_records, records
from pellucid_probe.ring import SEGMENT_BYTES, RingWriter
from pellucid_probe.vllm.kv.lives import SAMPLED

STEP_NS = 20_000_000
PROMPT, OUTPUT = 500, 250
BLOCK_TOKENS, POOL_BLOCKS = 16, 40_000
SHARES_PER_S, RSS_BYTES, DISK_BYTES = 200_000, 300 << 20, 3 << 30


def write_day(ring: RingWriter, seen: Path, steps: int, running: int) -> None:
    """A request ends and another comes about once a step at 256 running: the worst case for the frames' deltas."""
    live = {n: (n * OUTPUT) // running for n in range(1, running + 1)}   # number → tokens still to come, staggered
    now, made, blocks = 1_000_000_000, running, Blocks()
    for n in live:
        _add(ring, n, now)
        blocks.admit(ring, n, 1, now)
        ring.write(records.ADMIT, records.pack_admit(records.Admit(n, 0, 1, PROMPT)))
    for step in range(1, steps + 1):
        now += STEP_NS
        ended = [n for n, left in live.items() if left <= 0]
        fresh = []
        for n in ended:
            del live[n]
            made += 1
            _add(ring, made, now)
            blocks.admit(ring, made, step, now)
            ring.write(records.ADMIT, records.pack_admit(records.Admit(made, 0, step, 0)))
            live[made] = OUTPUT
            fresh.append(made)
        counts = [PROMPT if n in fresh else 1 for n in live]
        for n in live:
            live[n] -= 1
        blocks.decode(ring, [n for n in live if n % BLOCK_TOKENS == step % BLOCK_TOKENS], now)
        for n, left in live.items():
            if left <= 0:
                blocks.let_go(ring, n, now)
                _finish(ring, n, now, step)
        if step % records.FULL_EVERY == 1:
            mode, frame = records.full_frame(list(live), counts)
        elif ended or fresh:
            mode = records.MOVED + records.WORDS
            frame = records.moved_head(ended, fresh) + array("I", counts).tobytes()
        else:
            mode, frame = records.SAME + records.ONES, b""
        ring.write(records.STEP, records.pack_step_head(
            step, now - STEP_NS + 3000, now - STEP_NS + 600_000, now - 400_000, now - 3000, 16 * step, 0, 16 * step,
            8000, 0, len(live), sum(counts), len(live), 3, 0, 8192, running, 40_000, 20_000, 30_000, 0, 0,
            records.SEQUENCE_CAP, True, records.SEEN_KV_BLOCKS + records.SEEN_KV_FLOW, len(live), 0, 0, mode,
        ) + frame)  # fmt: skip
        work = (step, now - STEP_NS + 700_000, now - 500_000, 0, 0, *3 * (records.UNSEEN_NS,), 0, 0, len(live))
        ring.write(records.WORK, records.pack_work(*work))
        if step % 200 == 0:
            _keep_pace(ring, seen)


class Blocks:
    """KV blocks taken in turn from a pool, and what the probe says of them."""

    def __init__(self) -> None:
        self._next = 0
        self._held: dict[int, list[int]] = {}

    def _take(self, count: int) -> list[int]:
        taken = [1 + (self._next + n) % POOL_BLOCKS for n in range(count)]
        self._next += count
        return taken

    def admit(self, ring: RingWriter, number: int, step: int, now: int) -> None:
        whole = PROMPT // BLOCK_TOKENS
        hashes = [hashlib.blake2b(b"%d-%d" % (number, n), digest_size=8).digest() for n in range(whole)]
        prints = [(at, hashes[at]) for at in SAMPLED if at < whole]
        prompt = (number, BLOCK_TOKENS, PROMPT, 0, 0, 0)
        ring.write(kv_records.KV_PROMPT, kv_records.pack_prompt(prompt, hashes, prints))
        self._held[number] = self._take(whole + 1)
        ring.write(kv_records.KV_TAKEN, kv_records.pack_blocks(now, self._held[number]))
        table = kv_records.pack_table(number, step, kv_records.ADMITTED, 0, self._held[number])
        ring.write(kv_records.KV_TABLE, table)

    def decode(self, ring: RingWriter, numbers: list[int], now: int) -> None:
        taken = self._take(len(numbers))
        for number, block in zip(numbers, taken, strict=True):
            self._held[number].append(block)
        if taken:
            ring.write(kv_records.KV_TAKEN, kv_records.pack_blocks(now, taken))

    def let_go(self, ring: RingWriter, number: int, now: int) -> None:
        held = self._held.pop(number)
        own = (PROMPT + OUTPUT) // BLOCK_TOKENS - PROMPT // BLOCK_TOKENS
        hashes = [hashlib.blake2b(b"%d+%d" % (number, n), digest_size=8).digest() for n in range(own)]
        ring.write(kv_records.KV_MORE, kv_records.pack_more(number, PROMPT // BLOCK_TOKENS, hashes))
        ring.write(kv_records.KV_TABLE, kv_records.pack_table(number, 0, kv_records.WHOLE, 0, held))
        ring.write(kv_records.KV_FREED, kv_records.pack_blocks(now, held))


def _add(ring: RingWriter, number: int, now: int) -> None:
    ring.write(records.ADD, records.pack_json({
        "r": number, "t": now, "i": f"cmpl-{number:08x}-0-0badcafe", "e": f"cmpl-{number:08x}-0", "c": 0, "n": PROMPT,
        "m": OUTPUT, "k": None, "h": f"{number % 40:016x}",
    }))  # fmt: skip


def _finish(ring: RingWriter, number: int, now: int, step: int) -> None:
    ring.write(records.FINISH, records.pack_finish((number, now, step, OUTPUT, PROMPT + OUTPUT - 1, 0, "length")))


def _keep_pace(ring: RingWriter, seen: Path) -> None:
    """Waits while the recorder is more than half a ring behind."""
    while ring._head - _read(seen) > ring.data_bytes // 2:
        time.sleep(0.0005)


def _read(seen: Path) -> int:
    try:
        return int(seen.read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0


RECORDER = """
import json, os, sys, time
from pathlib import Path
from pellucid.collect.gpu.nvml import Gpus
from pellucid.collect.loop import Recorder
from pellucid.store.write import Limits, RunWriter
rings, folder, seen = map(Path, sys.argv[1:4])
done = rings / "done"
clock_ns = [1_000_000_000]
r = Recorder(rings, RunWriter(folder, Limits(), lambda: clock_ns[0]), lambda: clock_ns[0], Gpus("bench"))
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
marks, cpu = [], None
while True:
    last = done.exists()
    r.cycle()
    source = r.sources.get("engine_core-1")
    core = r.cores.get("engine_core-1")
    if source is not None and source.ring is not None:
        seen.with_suffix(".new").write_text(str(source.ring._offset)); os.replace(seen.with_suffix(".new"), seen)
    if core is not None and core._before is not None:
        if cpu is None: cpu = time.process_time()
        clock_ns[0] = core._before.update_end_ns
    marks.append(rss())
    if last: break
    time.sleep(0.001)
used = time.process_time() - cpu
r.end()
print(json.dumps({"rss_max": max(marks), "rss_half": max(marks[: len(marks) // 2]), "cpu_s": used,
                  "lost": r.sources["engine_core-1"].ring.lost_count, "lost_rows": r.writer.lost_rows}))
"""


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--steps", type=int, default=24 * 3600 * 50)
    ask.add_argument("--running", type=int, default=256)
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shm, tempfile.TemporaryDirectory() as disk:
        rings, folder, seen = Path(shm), Path(disk) / "run", Path(shm) / "seen"
        ring = RingWriter(str(rings / "engine_core-1.ring"), 128 * SEGMENT_BYTES)
        recorder = subprocess.Popen([sys.executable, "-c", RECORDER, str(rings), str(folder), str(seen)],
                                    stdout=subprocess.PIPE, text=True)  # fmt: skip
        start = time.perf_counter()
        write_day(ring, seen, asked.steps, asked.running)
        (rings / "done").touch()
        out, _ = recorder.communicate()
        wall_s = time.perf_counter() - start
        bytes_on_disk = sum(p.stat().st_size for p in folder.iterdir())
        files = len(list(folder.iterdir()))
    found = json.loads(out)
    shares = asked.steps * asked.running
    rate = shares / found["cpu_s"]
    day = 24 * 3600 * 50 / asked.steps
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"{asked.steps:,} steps at {asked.running} running, about one request ends and one comes every step, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"recorder CPU     {found['cpu_s']:.0f} s for {shares:,} shares = {rate:,.0f} shares/s "
          f"(goal {SHARES_PER_S:,}); wall {wall_s:.0f} s")  # fmt: skip
    print(f"recorder memory  {found['rss_max'] / 2**20:.0f} MiB at most, {found['rss_half'] / 2**20:.0f} MiB in the "
          f"first half (goal {RSS_BYTES >> 20})")  # fmt: skip
    print(f"disk             {bytes_on_disk / 2**20:.0f} MiB in {files} files; a day "
          f"{bytes_on_disk * day / 2**30:.2f} GiB (goal {DISK_BYTES >> 30})")  # fmt: skip
    print(f"lost             {found['lost']} records, {found['lost_rows']} rows")
    fits = found["rss_max"] <= RSS_BYTES and bytes_on_disk * day <= DISK_BYTES
    ok = rate >= SHARES_PER_S and fits and not found["lost"]
    print("within goals" if ok else "OUTSIDE GOALS")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

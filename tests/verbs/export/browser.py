"""Opens exports in a real browser, with the viewer of chrome://tracing, and compares what that shows with the file.

    python -m tests.verbs.export.browser EXPORT.json… --viewer trace_viewer_full.html --polyfill webcomponents.min.js

--viewer    Catapult's trace viewer in one file: torch_tb_profiler/static/ of the wheel torch-tb-profiler 0.4.3 has it
--polyfill  what it needs of browsers that are no longer: webcomponents.js 0.7.24 of npm
--browser   a Chromium (default: chromium)

No test: neither file is ours to keep. Entry 13 of docs/log has what came of it.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("browser.html")
LIMIT_S = 120.0
KINDS = {".html": "text/html", ".js": "text/javascript", ".json": "application/json"}


class Handler(BaseHTTPRequestHandler):
    def __init__(self, files: dict[str, Path], found: queue.Queue[dict[str, Any]], *args: Any) -> None:
        self.files, self.found = files, found
        super().__init__(*args)

    def do_GET(self) -> None:
        path = self.files.get(self.path)
        self.send_response(200 if path else 404)
        if path:
            self.send_header("Content-Type", KINDS[Path(self.path).suffix])
        self.end_headers()
        if path:
            self.wfile.write(path.read_bytes())

    def do_POST(self) -> None:
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def shown(export: Path, viewer: Path, polyfill: Path, browser: str) -> dict[str, Any]:
    """What the viewer has made of it. Raises queue.Empty where it does not come to an end."""
    found: queue.Queue[dict[str, Any]] = queue.Queue()
    files = {"/page.html": PAGE, "/viewer.html": viewer, "/polyfill.js": polyfill, "/export.json": export}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, files, found))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
             f"http://127.0.0.1:{server.server_port}/page.html"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return found.get(timeout=LIMIT_S)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()


def written(export: Path) -> dict[str, Any]:
    """The same of the file itself."""
    events = json.loads(export.read_text())["traceEvents"]
    kinds = Counter(e["ph"] for e in events)
    timed = [e for e in events if "ts" in e]
    return {
        "slices": kinds["X"], "arrows": kinds["s"], "samples": kinds["C"],
        "processes": len({e["pid"] for e in timed}), "faults": [],
        "took_ms": (max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed)) / 1000,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", nargs="+", type=Path)
    parser.add_argument("--viewer", type=Path, required=True)
    parser.add_argument("--polyfill", type=Path, required=True)
    parser.add_argument("--browser", default="chromium")
    asked = parser.parse_args()
    alike = True
    for export in asked.exports:
        found, wanted = shown(export, asked.viewer, asked.polyfill, asked.browser), written(export)
        near = abs(found.get("took_ms", -1.0) - wanted["took_ms"]) < 1e-6
        same = {name for name in wanted if found.get(name) == wanted[name] or (name == "took_ms" and near)}
        alike = alike and same == wanted.keys()
        print(f"{export.name}: {found}" + "".join(f"\n    {n} of the file: {wanted[n]}" for n in wanted.keys() - same))
    print("shown as written" if alike else "NOT SHOWN AS WRITTEN")
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())

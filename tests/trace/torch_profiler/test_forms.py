"""The same trace in the forms that tools write it in."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.trace.timeline import OP, OVERHEAD, RUNTIME
from pellucid.trace.torch_profiler.events import WHOLE
from pellucid.trace.torch_profiler.unpack import PIECE_BYTES
from tests.trace.torch_profiler.written import HEAD, TAIL, Event, call, kernel, loaded, op, ran, text

EVENTS: list[Event | str] = [op(), call(), kernel()]
LONG = [kernel(f"k{i}", ts=i, correlation=i) for i in range(6000)]        # several blocks


def archive(*members: tuple[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            tar.addfile(entry, io.BytesIO(content.encode()))
    return made.getvalue()


FORMS: dict[str, str | bytes] = {
    "plain": text(EVENTS),
    "gzip": gzip.compress(text(EVENTS).encode()),
    "two gzip members": gzip.compress(text(EVENTS).encode()[:200]) + gzip.compress(text(EVENTS).encode()[200:]),
    "gzip, then zeros": gzip.compress(text(EVENTS).encode()) + bytes(512),
    "archive": archive(("notes.txt", "x" * 700), ("a/t.json", text(EVENTS))),
    "metadata before": text(EVENTS, {**HEAD, **TAIL}, {}),
    "metadata after": text(EVENTS, {}, {**HEAD, **TAIL}),
    "one line": text(EVENTS).replace("\n", ""),
    "indented": json.dumps({**HEAD, "traceEvents": EVENTS, **TAIL}, indent=4),
    "sorted keys": json.dumps({**HEAD, "traceEvents": EVENTS, **TAIL}, sort_keys=True),
    "name first": text([{"name": e["name"], **e} for e in EVENTS if isinstance(e, dict)]),
    "args first": text([{"args": e["args"], **e} for e in EVENTS if isinstance(e, dict)]),
    "unit in front": text(EVENTS, {"displayTimeUnit": "ns", **HEAD}, {"baseTimeNanoseconds": 1790857026000000000}),
    "unit behind": text(EVENTS, HEAD, {"baseTimeNanoseconds": 1790857026000000000, "displayTimeUnit": "ns"}),
    "objects in args": text([op(), call(), kernel(more=[{"a": 1}, {"name": "x"}, {"ts": [1]}])]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(tmp_path: Path, form: str) -> None:
    found = loaded(tmp_path, FORMS[form])
    k, host = found.kernels, found.host
    assert ran(found) == ["k"]
    assert (int(k.start_ns[0]), int(k.duration_ns[0]), found.extents[k.grid[0]]) == (10_000, 2_000, (4, 2, 1))
    assert [found.names[n] for n in host.name] == ["aten::mm", "cudaLaunchKernel"]
    assert (int(k.op[0]), int(k.launch[0])) == (0, 1)
    about = found.about
    assert (about.rank, about.wall_zero_ns, about.devices[0].name) == (3, 1790857026000000000, "NVIDIA H200")
    assert about.damage == ()


@pytest.mark.parametrize("content", [json.dumps(EVENTS), json.dumps(EVENTS)[:-1], json.dumps(EVENTS)[:-1] + ",\n"])
def test_a_bare_list_of_events_needs_no_end(tmp_path: Path, content: str) -> None:
    """The format allows a list without its closing bracket."""
    found = loaded(tmp_path, content)
    assert ran(found) == ["k"] and found.about.damage == ()
    assert (found.about.rank, found.about.wall_zero_ns, found.about.devices) == (None, None, ())


def test_what_is_unpacked_ahead_is_read_in_order(tmp_path: Path) -> None:
    content = text([kernel(f"k{i % 7}", ts=i, note="x" * 500) for i in range(9000)]).encode()
    assert len(content) > 2 * PIECE_BYTES
    found = loaded(tmp_path, gzip.compress(content, 1))
    assert found.kernels.start_ns.tolist() == [1000 * i for i in range(9000)] and found.about.damage == ()
    cut = loaded(tmp_path, gzip.compress(content, 1)[:-2000])
    assert 0 < cut.count() < 9000 and cut.kernels.start_ns.tolist() == [1000 * i for i in range(cut.count())]


def test_a_copy_may_tell_its_bytes_as_a_text(tmp_path: Path) -> None:
    """As ROCm's profiler does. The block is read at once nevertheless."""
    event = {**kernel(ts=2, bytes="4096"), "cat": "gpu_memcpy"}
    found = loaded(tmp_path, text([event, {**event, "args": {"bytes": 12}}, {**event, "args": {"bytes": "many"}}]))
    assert found.kernels.copied_bytes.tolist() == [4096, 12, -1]
    args = WHOLE.decode(f"[{json.dumps(event)}]")[0].args
    assert args is not None and args.bytes == "4096"


@pytest.mark.parametrize("seam", [",", ", ", ",\n", "\n  ,\n  "])
def test_blocks_are_cut_at_any_spelling_of_a_seam(tmp_path: Path, seam: str) -> None:
    listed = seam.join(json.dumps(e) for e in LONG)
    found = loaded(tmp_path, f'{{"traceEvents": [{listed}], "baseTimeNanoseconds": 5}}')
    assert (found.count(), found.about.wall_zero_ns, found.about.damage) == (6000, 5, ())


@pytest.mark.parametrize(("ts", "start_ns"), [
    ("1712195495520883.123", 1712195495520883123), ("1712195495520883", 1712195495520883000),
    ("1712195495520883.5", 1712195495520883500), ("5110987703826.016", 5110987703826016), ("0.001", 1), ("-3", -3000),
    ("1e3", 1_000_000), ('"12.5"', 12_500), ("1712195495520883.0004", 1712195495520883000),
])  # fmt: skip
def test_times_keep_every_digit(tmp_path: Path, ts: str, start_ns: int) -> None:
    event = json.dumps(kernel()).replace('"ts": 10', f'"ts": {ts}')
    found = loaded(tmp_path, text([event]))
    assert found.kernels.start_ns.tolist() == [start_ns]


def test_floats_and_long_times_may_stand_in_one_block(tmp_path: Path) -> None:
    times = ["12.5", "1712195495520883.123", "7", "1712195495520884"]
    found = loaded(tmp_path, text([json.dumps(kernel()).replace('"ts": 10', f'"ts": {t}') for t in times]))
    assert found.kernels.start_ns.tolist() == [7000, 12_500, 1712195495520883123, 1712195495520884000]


def test_arrows_tell_the_launch_where_events_do_not(tmp_path: Path) -> None:
    arrows: list[Event | str] = [
        {"ph": "s", "id": 9, "pid": 90, "tid": 91, "ts": 5, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 9, "pid": 0, "tid": 7, "ts": 10, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]
    found = loaded(tmp_path, text([op(), call(correlation=-1), kernel(correlation=-1), *arrows]))
    assert (found.kernels.correlation.tolist(), found.kernels.launch.tolist()) == ([9], [1])
    near: Any = loaded(tmp_path, text([op(), call(correlation=-1), kernel(ts=11, correlation=-1), *arrows]))
    assert (near.kernels.correlation.tolist(), near.kernels.launch.tolist()) == ([-1], [-1])


def test_kinds_of_host_events_and_what_is_dropped(tmp_path: Path) -> None:
    others = [{**op("f.py(1): g"), "cat": "python_function"}, {**op("[memory]"), "cat": "cpu_instant_event", "ph": "i"},
              {**op("Command Buffer Full"), "cat": "overhead"}]  # fmt: skip
    found = loaded(tmp_path, text([op(), call(), *others]))
    assert sorted(found.host.kind.tolist()) == [OP, RUNTIME, OVERHEAD]


def test_an_archive_with_several_traces_says_which_it_read(tmp_path: Path) -> None:
    found = loaded(tmp_path, archive(("r0.json", text([kernel("a")])), ("r1.json", text([kernel("b")]))), "t.tar.gz")
    assert ran(found) == ["a"]
    assert found.about.damage == ("the archive holds 2 JSON files: only r0.json was read",)


def test_a_trace_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="a trace of something else: none of its 2 events"):
        loaded(tmp_path, json.dumps([{"ph": "X", "cat": "v8", "name": "gc", "ts": 1, "dur": 2}] * 2))


def test_numbers_of_graphs_are_kept_where_told(tmp_path: Path) -> None:
    in_graph: dict[str, Any] = {"graph id": 4, "graph node id": 77}
    found = loaded(tmp_path, text([kernel(**in_graph), kernel(ts=20)]))
    assert (found.kernels.graph.tolist(), found.kernels.graph_node.tolist()) == ([4, -1], [77, -1])

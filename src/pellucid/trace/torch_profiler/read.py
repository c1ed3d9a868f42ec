"""A trace of the torch profiler → a Timeline.

    read(Path("rank0.pt.trace.json.gz")).count()  → 14455

The file is read once, a few megabytes at a time, and only columns are kept. What is damaged is left out and counted in
`about`; a file that was cut gives what is whole. A second pass is made where launches are told by arrows only.
"""

from __future__ import annotations

from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import About, Damage, Timeline
from pellucid.trace.torch_profiler.blocks import Blocks
from pellucid.trace.torch_profiler.clock import NotExact, many_digits
from pellucid.trace.torch_profiler.columns import Columns
from pellucid.trace.torch_profiler.events import decode
from pellucid.trace.torch_profiler.flows import Flows
from pellucid.trace.torch_profiler.head import read_head
from pellucid.trace.torch_profiler.unpack import pieces

FORMAT = "torch_profiler"


def read(path: Path) -> Timeline:
    """Raises AskedWrongly where the file cannot be opened, or is a trace of something else."""
    try:
        columns, blocks = _read(path, None)
        if columns.wants_flows():
            columns, blocks = _read(path, Flows())
        size_bytes = path.stat().st_size
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror or error}") from error
    if columns.events_count and not columns.kept_count():
        raise AskedWrongly(f"{path} is a trace of something else: none of its {columns.events_count} events is of a "
                           f"kind that a torch profiler writes")  # fmt: skip
    starts = (*columns.kernels.get("start_ns", []), *columns.host.get("start_ns", []))
    first_ns = next((int(part[0]) for part in starts if len(part)), None)
    damage, redactor = columns.damage, columns.redactor
    head = read_head(blocks.before, blocks.after, damage, redactor)

    def about() -> About:
        return About(
            format=FORMAT, file=path.name, trace_bytes=size_bytes, devices=head.devices, rank=head.rank,
            ranks_count=head.ranks_count, wall_zero_ns=head.wall_zero_ns(first_ns),
            damaged_count=damage.count, damage=damage.sentences(), redacted_count=redactor.count,
        )  # fmt: skip

    return columns.timeline(about)


def _read(path: Path, flows: Flows | None) -> tuple[Columns, Blocks]:
    damage = Damage()
    columns = Columns(damage, Redactor(), flows=flows)
    blocks = Blocks(pieces(path, damage), damage)
    if not blocks.start():
        damage.odd("the file ends before its list of events")
        return columns, blocks
    exact = False
    for block in blocks:
        exact = exact or many_digits(block)
        exact = _add(block, blocks, columns, exact)
    if not blocks.ended and not blocks.bare:
        damage.odd("the file ends before its list of events does")
    return columns, blocks


def _add(block: bytes, blocks: Blocks, columns: Columns, exact: bool) -> bool:
    """One block. True from the first on whose times are no floats."""
    decoded = decode(block, columns.damage, exact, blocks.final)
    try:
        columns.add(decoded.events)
    except NotExact:
        exact = True
        decoded = decode(block, Damage(), exact, blocks.final)
        columns.add(decoded.events)
    if decoded.after is not None:
        blocks.end(decoded.after)
    else:
        blocks.put_back(decoded.rest)
    return exact

"""Ways to spread a model over GPUs: geometry, count, size of a scale-up domain → those that are possible, and why not.

    placements(geometry, gpus_count=8, domain=8).possible[0]     == Placement(tp=8, pp=1, dp=1, ep=False)
    placements(geometry, 8, 8).refused                           (Refused(Placement(tp=8, …), "40 heads cannot …"), …)

tp cuts each layer, pp shares out the layers, dp copies the model; with ep the experts are shared out over all ranks of
tp and dp instead. All GPUs are used. What wants a wire out of a domain is refused: its speed is not in the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.physics.cache import PLAIN, CacheFormat
from pellucid.physics.formats import Precision
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Batch, Plan
from pellucid.physics.step.matrices import cut
from pellucid.physics.step.model import step_work
from pellucid.physics.tensors import Tensor, tensors


@dataclass(frozen=True, slots=True)
class Placement:
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def gpus_count(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def name(self) -> str:
        """TP4 PP2 DP1 is `TP4 PP2`; one GPU alone is `1 GPU`."""
        named = [f"{word}{n}" for word, n in (("TP", self.tp), ("PP", self.pp), ("DP", self.dp)) if n > 1]
        named += [f"EP{self.tp * self.dp}"] if self.ep else []
        return " ".join(named) or "1 GPU"


def placement_of(text: str) -> Placement:
    """`TP4 DP2 EP8`, in any order, with spaces or commas. Raises AskedWrongly."""
    sizes: dict[str, int] = {}
    for word in text.replace(",", " ").upper().split():
        found = re.fullmatch(r"(TP|PP|DP|EP)([1-9]\d{0,3})", word)
        if found is None or found.group(1) in sizes:
            raise AskedWrongly(f"--placement {text!r}: {word!r} is not understood. Write it as TP4, or TP4 DP2 EP8")
        sizes[found.group(1)] = int(found.group(2))
    ep = sizes.pop("EP", 1)
    made = Placement(sizes.get("TP", 1), sizes.get("PP", 1), sizes.get("DP", 1), ep > 1)
    if not text.strip():
        raise AskedWrongly("--placement '' is none. Write it as TP4, or TP4 DP2 EP8")
    if made.ep and ep != made.tp * made.dp:
        raise AskedWrongly(f"--placement {text!r}: experts are shared out over all ranks of TP and DP, which are "
                           f"{made.tp * made.dp}. Try: {made.name}")  # fmt: skip
    return made


@dataclass(frozen=True, slots=True)
class Way:
    """How a step runs on each GPU of a placement: what the formulae of a step want to know beside the batch."""

    placement: Placement
    domain: int
    cache: CacheFormat = PLAIN
    precisions: frozenset[Precision] | None = None
    busy_ratio: float = 1.0        # mean batch of the replicas ÷ the fullest one's

    @property
    def plan(self) -> Plan:
        p = self.placement
        return Plan(tp=p.tp, ep=p.tp * p.dp if p.ep else 1, domain=self.domain, cache=self.cache,
                    precisions=self.precisions, busy_ratio=self.busy_ratio)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refused:
    placement: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class Placements:
    possible: tuple[Placement, ...]
    refused: tuple[Refused, ...]


def placements(geometry: Geometry, gpus_count: int, domain: int) -> Placements:
    """All there are for so many GPUs. Raises ValueError for less than one GPU."""
    if gpus_count < 1:
        raise ValueError(f"{gpus_count} GPUs are none")
    judged = [(p, _refusal(geometry, p, domain)) for p in _all(geometry, gpus_count)]
    return Placements(
        tuple(p for p, reason in judged if not reason),
        tuple(Refused(p, reason) for p, reason in judged if reason),
    )


def _all(geometry: Geometry, gpus_count: int) -> Iterator[Placement]:
    """Fewer, larger parts first."""
    for tp in _divisors(gpus_count):
        for pp in reversed(_divisors(gpus_count // tp)):
            dp = gpus_count // tp // pp
            yield Placement(tp, pp, dp)
            if geometry.moe is not None and tp * dp > 1:
                yield Placement(tp, pp, dp, ep=True)


def _divisors(n: int) -> list[int]:
    return [d for d in range(n, 0, -1) if n % d == 0]


def _refusal(geometry: Geometry, p: Placement, domain: int) -> str:
    """Why a placement cannot be; "" where nothing says so."""
    if p.pp > len(geometry.layers):
        return f"{len(geometry.layers)} layers are fewer than {p.pp} stages"
    across = p.tp * p.pp * (p.dp if p.ep else 1)
    if across > domain:
        return f"spans more than the {domain} GPUs of one scale-up domain, and the speed of the network is not known"
    try:
        plan = Way(p, domain).plan
        step_work(geometry, Batch(decodes=(1,)), plan)
    except (CannotAnswer, ValueError) as error:
        return str(error)
    return next((odd for t in tensors(geometry) if t.product and (odd := _split_block(geometry, t, plan))), "")


def _split_block(geometry: Geometry, tensor: Tensor, plan: Plan) -> str:
    """A square of weights with one scale is not cut in two: engines refuse to. Blocks in one row are filled up."""
    fmt = stored_format(geometry, tensor)
    if fmt.block_rows <= 1 or fmt.block_columns <= 1:
        return ""
    rows, columns = expert_cut(tensor, plan) if tensor.split == "copies" else cut(tensor, plan)
    for side, whole, block in ((rows, tensor.rows, fmt.block_rows), (columns, tensor.columns, fmt.block_columns)):
        if side != whole and side % block:
            return f"{side} of the {whole} in {tensor.module} would cut a block of {block} that has one scale"
    return ""


def expert_cut(tensor: Tensor, plan: Plan) -> tuple[int, int]:
    """Rows and columns of a rank's part of one expert: its width is cut, unless experts are shared out whole."""
    if plan.ep > 1 or not tensor.product:
        return tensor.rows, tensor.columns
    if tensor.module.endswith("down_proj"):
        return tensor.rows, plan.share(tensor.columns, f"columns of {tensor.module}")
    return plan.share(tensor.rows, f"rows of {tensor.module}"), tensor.columns


def stages(geometry: Geometry, pp: int) -> tuple[Geometry, ...]:
    """The model in `pp` parts of whole layers, as equal as can be; the first ones have one more. What comes before and
    after the layers is in all of them here; `held` gives it to the ends."""
    each, more = divmod(len(geometry.layers), pp)
    sizes = [each + (1 if index < more else 0) for index in range(pp)]
    begins = [sum(sizes[:index]) for index in range(pp)]
    return tuple(replace(geometry, layers=geometry.layers[b : b + n]) for b, n in zip(begins, sizes, strict=True))

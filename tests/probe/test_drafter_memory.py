"""What a drafter holds, on models and KV layouts of our own, whose sizes add up to each sum in one way only."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pellucid_probe.process import Process
from pellucid_probe.ring import SEGMENT_BYTES
from pellucid_probe.vllm.parts import memory

from pellucid.collect.source import Source
from pellucid.store.schema import SOURCES

BF16 = SimpleNamespace(itemsize=2)


class Tensor:
    """As many bytes at an address of their own, or at that of another."""

    device = "cpu"

    def __init__(self, size: int, of: Tensor | None = None) -> None:
        self.storage: Any = of.storage if of else SimpleNamespace(nbytes=lambda: size, data_ptr=lambda: id(self))

    def untyped_storage(self) -> Any:
        return self.storage


class Module:
    """Parameters, buffers, modules within, and attributes."""

    def __init__(
        self, *inside: Module, weight: Tensor | None = None, buffer: Tensor | None = None, **more: Any
    ) -> None:
        self.inside, self.weight, self.buffer = inside, weight, buffer
        self.__dict__.update(more)

    def modules(self) -> Iterator[Module]:
        yield self
        for module in self.inside:
            yield from module.modules()

    def parameters(self, recurse: bool) -> list[Tensor]:
        assert not recurse
        return [self.weight] if self.weight else []

    def buffers(self, recurse: bool) -> list[Tensor]:
        assert not recurse
        return [self.buffer] if self.buffer else []


def packed(rows: int, columns: int) -> Module:
    return Module(weight=Tensor(0), cpu_linear=len, output_size_per_partition=rows, input_size_per_partition=columns,
                  params_dtype=BF16)  # fmt: skip


def group(page_bytes: int, *names: str) -> Any:
    return SimpleNamespace(layer_names=list(names), kv_cache_spec=SimpleNamespace(page_size_bytes=page_bytes))


def unlike(**pages: int) -> Any:
    """A group whose layers differ in size."""
    each = {name: SimpleNamespace(page_size_bytes=size) for name, size in pages.items()}
    return SimpleNamespace(layer_names=list(pages), kv_cache_spec=SimpleNamespace(kv_cache_specs=each))


def runner(method: str = "draft_model", model: Any = None, groups: tuple[Any, ...] = (), sharing: tuple[str, ...] = (),
           **more: Any) -> Any:  # fmt: skip
    layers = {name: SimpleNamespace(kv_sharing_target_layer_name="t0" if name in sharing else None)
              for one in groups for name in one.layer_names}  # fmt: skip
    return SimpleNamespace(
        speculative_config=SimpleNamespace(method=method), model=model or Module(weight=Tensor(1000)),
        kv_cache_config=SimpleNamespace(num_blocks=10, kv_cache_groups=list(groups)),
        vllm_config=SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=layers)), **more,
    )  # fmt: skip


def drafter(*names: str, model: Module | None = None) -> Any:
    return SimpleNamespace(model=model or Module(weight=Tensor(30)), _draft_attn_layer_names=set(names))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setenv("PELLUCID_RING_BYTES", str(4 * SEGMENT_BYTES))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Process(folder, "worker", "vllm", "9.9.0")


def test_what_the_drafter_shares_with_the_model_is_the_models() -> None:
    """A module of the model itself, and a weight of its own over the same storage, as tied embeddings have."""
    embedding = Module(weight=Tensor(400))
    model = Module(embedding, Module(weight=Tensor(100), buffer=Tensor(8)))
    tied = Module(weight=Tensor(0, of=embedding.weight))
    small = Module(embedding, tied, Module(weight=Tensor(30), buffer=Tensor(2)))
    assert memory.weights(runner(model=model, drafter=drafter(model=small))) == {
        "model_weight_bytes": 508, "draft_weight_bytes": 32,
    }  # fmt: skip


def test_parts_of_one_storage_count_once() -> None:
    whole = Tensor(64)
    model = Module(Module(weight=whole), Module(weight=Tensor(32, of=whole)))
    assert memory.weights(runner(model=model, drafter=drafter()))["model_weight_bytes"] == 64


def test_a_weight_that_was_packed_away_counts_as_it_was_loaded() -> None:
    """Shared, it is the model's. Other things that are empty are nothing."""
    shared = packed(6, 5)
    model, small = Module(shared, Module(weight=Tensor(0))), Module(shared, packed(3, 4), Module(weight=Tensor(7)))
    assert memory.weights(runner(model=model, drafter=drafter(model=small))) == {
        "model_weight_bytes": 60, "draft_weight_bytes": 24 + 7,
    }  # fmt: skip


def test_a_linear_layer_that_is_not_split_has_its_whole_size() -> None:
    layer = Module(weight=Tensor(0), cpu_linear=len, output_size=3, input_size=5, params_dtype=BF16)
    assert memory.weights(runner(model=layer, drafter=drafter()))["model_weight_bytes"] == 30


@pytest.mark.parametrize("method", memory.LOOK_UP)
def test_a_drafter_that_looks_tokens_up_holds_nothing_and_that_is_zero(method: str) -> None:
    """Whatever the object that looks them up is like; several groups of layers do not matter then."""
    engine = runner(method, groups=(group(4, "t0", "t1"), group(4, "t2")), drafter=object())
    assert memory.weights(engine) == {"model_weight_bytes": 1000, "draft_weight_bytes": 0}
    assert memory.kv(engine) == {"worker_kv_bytes": 80, "draft_kv_bytes": 0}


@pytest.mark.parametrize(("one", "every", "own"), [
    (group(4, "t0", "t1", "d0"), 120, 40), (unlike(t0=4, t1=4, d0=1, d1=1), 100, 20),
])  # fmt: skip
def test_the_cache_of_the_drafters_layers_is_part_of_all(one: Any, every: int, own: int) -> None:
    found = memory.kv(runner(groups=(one,), drafter=drafter("d0", "d1")))
    assert found == {"worker_kv_bytes": every, "draft_kv_bytes": own}


def test_a_layer_that_reads_the_models_cache_has_none_of_its_own() -> None:
    engine = runner(groups=(group(4, "t0", "d0"),), sharing=("d0",), drafter=drafter("d0"))
    assert memory.kv(engine) == {"worker_kv_bytes": 40, "draft_kv_bytes": 0}


def test_the_newer_runner_calls_it_otherwise() -> None:
    speculator = SimpleNamespace(model=Module(weight=Tensor(30)), draft_attn_layer_names={"d0"})
    engine = runner(groups=(group(4, "t0", "d0"),), speculator=speculator)
    assert memory.weights(engine)["draft_weight_bytes"] == 30
    assert memory.kv(engine)["draft_kv_bytes"] == 40


def seen(process: Process, engine: Any) -> dict[str, tuple[str, str]]:
    memory.note(process, engine)
    return {name: (fact.state, fact.reason) for name, fact in process.facts.items()}


def test_groups_that_take_turns_in_memory_make_the_cache_blind_and_not_the_weights(process: Process) -> None:
    facts = seen(process, runner(groups=(group(4, "t0"), group(4, "d0")), drafter=drafter("d0")))
    assert facts["worker.draft_memory"] == ("visible", "")
    assert facts["worker.draft_kv"][0] == "blind"
    assert "take turns" in facts["worker.draft_kv"][1]
    assert process.config == {"model_weight_bytes": 1000, "draft_weight_bytes": 30}


@pytest.mark.parametrize(("engine", "weights", "cache"), [
    (runner(), "no drafter", "no drafter"),
    (runner(drafter=SimpleNamespace(attn_layer_names=[])), "no attribute 'model'", ""),
    (runner(drafter=SimpleNamespace(model=Module())), "", "does not name its attention layers"),
    (SimpleNamespace(speculative_config=None), "AttributeError", "AttributeError"),
    (runner(model=Module(weight=Tensor(0), cpu_linear=len), drafter=drafter()), "output_size", ""),
])  # fmt: skip
def test_what_is_not_there_is_blind_with_what_was_missing(
    process: Process, engine: Any, weights: str, cache: str
) -> None:
    facts = seen(process, engine)
    for fact, reason in (("worker.draft_memory", weights), ("worker.draft_kv", cache)):
        assert facts[fact][0] == ("blind" if reason else "visible")
        assert reason in facts[fact][1]


def test_an_object_that_raises_something_else_is_blind_too(process: Process) -> None:
    def refuse() -> Any:
        raise RuntimeError("no storage")

    broken = Module(weight=Tensor(5))
    assert broken.weight
    broken.weight.untyped_storage = refuse  # type: ignore[method-assign]
    facts = seen(process, runner(model=broken, drafter=drafter()))
    assert facts["worker.draft_memory"] == ("blind", "RuntimeError: no storage")
    assert "model_weight_bytes" not in process.config


def test_it_reaches_the_columns_of_the_workers_row(process: Process) -> None:
    """Beside what an engine core in the same process wrote there."""
    process.config = {"model": "m"}
    memory.note(process, runner(groups=(group(4, "t0", "d0"),), drafter=drafter("d0")))
    process.describe()
    source = Source(process.name, Path(process.where))
    assert source.refresh()
    row = dict(zip(SOURCES.names(), source.row(), strict=True))
    names = ("model", "model_weight_bytes", "draft_weight_bytes", "worker_kv_bytes", "draft_kv_bytes")
    assert [row[name] for name in names] == ["m", 1000, 30, 80, 40]
    assert json.loads(row["config_json"])["draft_kv_bytes"] == 40

"""Which boards are sampled: those that the engine's own processes compute on, where the driver shows that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pellucid.collect.gpu.nvml import SETTLE_NS, Gpus
from pellucid.store.schema import GPU

S = 1_000_000_000


class Driver:
    """Boards 0, 1, … with the processes that compute on each. It tells power and nothing else."""

    NVMLError = RuntimeError
    NVML_CLOCK_SM = NVML_CLOCK_MEM = NVML_TEMPERATURE_GPU = 0

    def __init__(self, *running: set[int]) -> None:
        self.running = list(running)
        self.looked_count = 0

    def nvmlDeviceGetComputeRunningProcesses(self, board: int) -> list[Any]:
        self.looked_count += 1
        return [SimpleNamespace(pid=pid) for pid in self.running[board]]

    def nvmlDeviceGetPowerUsage(self, board: int) -> int:
        return 1000 * (board + 100)

    def __getattr__(self, _name: str) -> Any:
        def refuse(*_: Any) -> None:
            raise RuntimeError

        return refuse


def sampled(gpus: Gpus, now_ns: int, pids: frozenset[int] | None) -> list[str]:
    rows: list[tuple[Any, ...]] = []
    gpus.sample(now_ns, lambda _, row: rows.append(row), pids)
    return [row[GPU.names().index("device")] for row in rows]


def of(driver: Driver) -> Gpus:
    return Gpus("", driver, [(f"{i} board", i) for i in range(len(driver.running))])


def test_a_board_that_somebody_else_computes_on_is_not_the_engines() -> None:
    driver = Driver({7}, {41}, set())
    gpus = of(driver)
    assert sampled(gpus, 0, frozenset({40, 41})) == ["1 board"]
    looked = driver.looked_count
    assert sampled(gpus, S, frozenset({40, 41})) == ["1 board"] and driver.looked_count == looked


def test_nothing_is_written_before_there_is_an_engine_or_it_computes() -> None:
    driver = Driver({7}, set())
    gpus = of(driver)
    assert sampled(gpus, 0, frozenset()) == []
    assert sampled(gpus, S, frozenset({41})) == []
    driver.running[1] = {41}
    assert sampled(gpus, 2 * S, frozenset({41})) == ["1 board"]


def test_several_ranks_have_a_board_each() -> None:
    driver = Driver({41}, {42}, {7})
    gpus = of(driver)
    assert sampled(gpus, 0, frozenset({41})) == ["0 board"]
    assert sampled(gpus, S, frozenset({41, 42})) == ["0 board", "1 board"]


def test_where_the_driver_shows_no_processes_all_boards_are_sampled_after_a_while() -> None:
    gpus = of(Driver(set(), set()))
    assert sampled(gpus, 0, frozenset({41})) == []
    assert sampled(gpus, SETTLE_NS + 1, frozenset({41})) == ["0 board", "1 board"]


def test_without_processes_to_look_for_all_are_sampled() -> None:
    assert sampled(of(Driver({7}, set())), 0, None) == ["0 board", "1 board"]

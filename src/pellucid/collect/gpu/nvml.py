"""NVML: a sample of each device a second. No driver or no device: nothing is written, and `reason` says why.

What a board does not report is null. Watts and joules are the board's; energy counts since the driver was loaded. A
host may have boards that others compute on: where the driver shows processes, only those of the engine are sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.store.schema import GPU
from pellucid.store.write import Row

# NVML's clocks-event-reason bits (nvml.h, nvmlClocksEventReasons) that hold a clock down; idle is not one.
THROTTLE = {
    0x2: "applications_clocks", 0x4: "power_cap", 0x8: "hardware_slowdown", 0x10: "sync_boost",
    0x20: "thermal_software", 0x40: "thermal_hardware", 0x80: "power_brake",
}  # fmt: skip
MHZ_HZ, MW_W, MJ_J = 1_000_000, 1e-3, 1e-3
SETTLE_NS = 60_000_000_000     # chosen: workers compute within seconds; a container may hide whose processes are whose


@dataclass(slots=True)
class Gpus:
    reason: str                              # why there is nothing to sample, "" when there is
    _nvml: Any = None
    _devices: list[tuple[str, Any]] = field(default_factory=list)
    _sampled_ns: int | None = None
    _xids: dict[int, int] | None = None      # device index → XID errors since open; None: the driver does not tell
    _xid_events: Any = None
    _ours: set[int] = field(default_factory=set)             # device indices on which the engine was seen to compute
    _asked: tuple[frozenset[int], int] | None = None         # the processes looked for last, and since when

    @classmethod
    def open(cls) -> Gpus:
        try:
            import pynvml

            pynvml.nvmlInit()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            devices = [(f"{i} {_text(pynvml.nvmlDeviceGetName(h))}", h) for i, h in enumerate(handles)]
        except Exception as error:   # the library, the driver or the permission is missing: all the same to us
            return cls(f"NVML: {error}")
        gpus = cls("" if devices else "NVML sees no device", pynvml, devices)
        gpus._watch_xids()
        return gpus

    @property
    def names(self) -> list[str]:
        """Of the devices the driver knows: "0 NVIDIA H200"."""
        return [name for name, _ in self._devices]

    def sample(self, now_ns: int, append: Callable[[str, Row], None], pids: frozenset[int] | None = None) -> None:
        """`pids`: the engine's processes, whose devices alone are wanted; None wants all devices."""
        wanted = range(len(self._devices)) if pids is None else self._of(pids, now_ns)
        if not wanted:
            return
        interval = None if self._sampled_ns is None else now_ns - self._sampled_ns
        self._count_xids()
        for index in wanted:
            name, handle = self._devices[index]
            known = {"deployment": "default", "device": name, "time_ns": now_ns, "interval_ns": interval,
                     "xid_count": None if self._xids is None else self._xids[index], **self._read(handle)}  # fmt: skip
            append("gpu", tuple(known.get(column) for column in GPU.names()))
        self._sampled_ns = now_ns

    def _of(self, pids: frozenset[int], now_ns: int) -> Sequence[int]:
        """Devices of these processes. None until one is seen; all, where none was after a while."""
        if not pids or not self._devices:
            return ()
        since_ns = now_ns if self._asked is None else self._asked[1]
        if self._asked is None or self._asked[0] != pids or not self._ours:
            self._look(pids)
        self._asked = (pids, since_ns)
        settled = now_ns - since_ns > SETTLE_NS
        return sorted(self._ours) if self._ours else range(len(self._devices)) if settled else ()

    def _look(self, pids: frozenset[int]) -> None:
        for index, (_, handle) in enumerate(self._devices):
            running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
            if any(process.pid in pids for process in running):
                self._ours.add(index)

    def _read(self, handle: Any) -> dict[str, Any]:
        n = self._nvml
        rates = self._ask(n.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(n.nvmlDeviceGetMemoryInfo, handle)
        reasons = self._ask(n.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        power = self._ask(n.nvmlDeviceGetPowerUsage, handle)
        energy = self._ask(n.nvmlDeviceGetTotalEnergyConsumption, handle)
        throttled = None if reasons is None else "+".join(name for bit, name in THROTTLE.items() if reasons & bit)
        sm, mem = (self._ask(n.nvmlDeviceGetClockInfo, handle, kind) for kind in (n.NVML_CLOCK_SM, n.NVML_CLOCK_MEM))
        celsius = self._ask(n.nvmlDeviceGetTemperature, handle, n.NVML_TEMPERATURE_GPU)
        return {
            "utilisation_ratio": None if rates is None else rates.gpu / 100,
            "memory_utilisation_ratio": None if rates is None else rates.memory / 100,
            "memory_used_bytes": None if memory is None else memory.used,
            "memory_total_bytes": None if memory is None else memory.total,
            "throttle_reasons": throttled,
            "power_watts": None if power is None else power * MW_W,
            "energy_joules": None if energy is None else energy * MJ_J,
            "sm_clock_hz": None if sm is None else sm * MHZ_HZ,
            "memory_clock_hz": None if mem is None else mem * MHZ_HZ,
            "temperature_celsius": None if celsius is None else float(celsius),
        }  # fmt: skip

    def _watch_xids(self) -> None:
        n = self._nvml
        try:
            self._xid_events = n.nvmlEventSetCreate()
            for _, handle in self._devices:
                n.nvmlDeviceRegisterEvents(handle, n.nvmlEventTypeXidCriticalError, self._xid_events)
        except n.NVMLError:
            return
        self._xids = dict.fromkeys(range(len(self._devices)), 0)

    def _count_xids(self) -> None:
        n = self._nvml
        while self._xids is not None:
            try:
                event = n.nvmlEventSetWait_v2(self._xid_events, 0)
                self._xids[n.nvmlDeviceGetIndex(event.device)] += 1
            except n.NVMLError:      # a time-out: nothing more has happened
                return

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except self._nvml.NVMLError:
            return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name

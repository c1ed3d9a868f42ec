"""Engine core: KV blocks in an outer tier, as the manager of the engine's own offloading tells of them.

    prepare_store    blocks are to be written for a request; those that are thrown out to make room
    complete_store   they are there, or could not be written
    prepare_load     a request gets blocks back
    reset_cache      all are gone

Hooked only where the scheduler has such a manager. Its methods are called a few times a step at most. A key is a
block's hash with four bytes of its KV cache group behind it; it may stand for several of the device's blocks.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, List, Optional, Tuple

from pellucid_probe import kv_records as kv
from pellucid_probe.guard import Hook, Target, argument, now_ns
from pellucid_probe.process import Process
from pellucid_probe.ring import Record

FACT = "kv.tiers"
_MANAGER = "vllm.v1.kv_offload.cpu.manager"
_OF_REQUEST = ("self", "keys", "req_context")
STORE = Target(_MANAGER, "CPUOffloadingManager.prepare_store", _OF_REQUEST)
STORED = Target(_MANAGER, "CPUOffloadingManager.complete_store", (*_OF_REQUEST, "success"))
LOAD = Target(_MANAGER, "CPUOffloadingManager.prepare_load", _OF_REQUEST)
RESET = Target(_MANAGER, "CPUOffloadingManager.reset_cache", ("self",))
TARGETS = (STORE, STORED, LOAD, RESET)
GROUP_BYTES = 4

Keys = Collection[bytes]
Seen = Tuple[int, int, Optional[str], Keys]     # what, time, request, keys


class Tiers:
    def __init__(self, process: Process, known: Callable[[str], int]) -> None:
        self.process, self._known = process, known

    def attach(self, scheduler: Any) -> None:
        """Sees to the fact: visible where there is a manager that we know, blind with the reason where there is not."""
        connector = getattr(scheduler, "connector", None)
        if connector is None:
            return      # nothing is offloaded, and nothing is to be seen
        if getattr(getattr(connector, "connector_scheduler", None), "manager", None) is None:
            self.process.blind(FACT, f"{type(connector).__name__} has no manager of blocks that we know",
                               "the engine's own KV events, where it publishes them")  # fmt: skip
            return
        self.process.see(FACT, [
            Hook(STORE, after=self._storing), Hook(STORED, after=self._stored), Hook(LOAD, after=self._loading),
            Hook(RESET, after=self._reset),
        ])  # fmt: skip

    def _storing(self, _state: Any, result: Any, args: Tuple[Any, ...], kwargs: "dict[str, Any]") -> None:
        if result is None:
            return      # there is no room
        request = argument(args, kwargs, 2, "req_context").req_id
        if result.evicted_keys:
            self._put(kv.TIER_EVICTED, request, result.evicted_keys)
        if result.keys_to_store:
            self._put(kv.TIER_STORING, request, result.keys_to_store)

    def _stored(self, _state: Any, _result: Any, args: Tuple[Any, ...], kwargs: "dict[str, Any]") -> None:
        keys = argument(args, kwargs, 1, "keys")
        good = args[3] if len(args) > 3 else kwargs.get("success", True)
        self._put(kv.TIER_STORED if good else kv.TIER_FAILED, None, keys)

    def _loading(self, _state: Any, _result: Any, args: Tuple[Any, ...], kwargs: "dict[str, Any]") -> None:
        request = argument(args, kwargs, 2, "req_context").req_id
        self._put(kv.TIER_LOADED, request, argument(args, kwargs, 1, "keys"))

    def _reset(self, _state: Any, _result: Any, _args: Tuple[Any, ...], _kwargs: "dict[str, Any]") -> None:
        self._put(kv.TIER_CLEARED, None, ())

    def _put(self, what: int, request: Optional[str], keys: Keys) -> None:
        self.process.outbox.put(self.pack, (what, now_ns(), request, tuple(keys)))

    def pack(self, seen: Seen) -> List[Record]:
        what, time_ns, request_id, keys = seen
        request = self._known(request_id) if request_id is not None else 0
        blocks = [(int.from_bytes(key[-GROUP_BYTES:], "big"), bytes(key[:8])) for key in keys]
        return [(kv.KV_TIER, kv.pack_tier(what, time_ns, request, blocks))]

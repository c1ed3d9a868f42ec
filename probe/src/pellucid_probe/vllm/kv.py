"""KV blocks of the engine core: what is held, cached and free, and the flow between them.

    allocated  taken from the free queue for new contents
    revived    free but still cached, taken by a prefix hit
    freed      fell to zero references
    allocated + revived − freed = held, at every moment
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from pellucid_probe.guard import Hook, TallyHook, Target

_POOL = "vllm.v1.core.block_pool"
NEW = Target(_POOL, "BlockPool.get_new_blocks", ("self", "num_blocks"))
TOUCH = Target(_POOL, "BlockPool.touch", ("self", "blocks"))
FREE = Target(_POOL, "BlockPool.free_blocks", ("self", "ordered_blocks"))


CACHED_EVERY = 8    # steps between readings of the number of cached blocks, which moves slowly
# allocated, revived, freed, total, free, cached, seen
KvState = Tuple[int, int, int, int, int, int, int]


class KvFlow:
    TARGETS = (NEW, TOUCH, FREE)

    def __init__(self) -> None:
        self.allocated = self.revived = self.freed = 0
        self.total = self.cached = 0
        self._pool: Any = None
        self._queue: Any = None

    def hooks(self) -> List[Hook]:
        return [
            TallyHook(NEW, self._took),
            Hook(TOUCH, before=_free_now, after=self._touched),
            Hook(FREE, before=_free_now, after=self._returned),
        ]

    def attach(self, scheduler: Any) -> None:
        """Remembers the pool. Raises AttributeError if it is not what we know."""
        pool = scheduler.kv_cache_manager.block_pool
        self.total = pool.num_gpu_blocks - 1     # the null block is not for use
        self._queue, self.cached = pool.free_block_queue, len(pool.cached_block_hash_to_block)
        self._queue.num_free_blocks  # noqa: B018
        self._pool = pool

    def state(self, step: int) -> KvState:
        if self._pool is None:
            return 0, 0, 0, 0, 0, 0, 0
        if step % CACHED_EVERY == 1:
            self.cached = len(self._pool.cached_block_hash_to_block)
        return (self.allocated, self.revived, self.freed, self.total, self._queue.num_free_blocks, self.cached, 1)

    def _took(self, blocks: Any) -> None:
        self.allocated += len(blocks)

    def _touched(self, before: Any, _result: Any, args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
        self.revived += before - args[0].free_block_queue.num_free_blocks

    def _returned(self, before: Any, _result: Any, args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
        self.freed += args[0].free_block_queue.num_free_blocks - before


def _free_now(args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> int:
    return int(args[0].free_block_queue.num_free_blocks)

"""KV blocks of the engine core: what is held, cached and free, and the flow between them.

    allocated  taken from the free queue for new contents
    revived    free but still cached, taken by a prefix hit
    freed      fell to zero references
    allocated + revived − freed = held, at every moment
"""

from __future__ import annotations

from typing import Any, Callable, List

from pellucid_probe.guard import Hook, TallyHook, Target

_POOL = "vllm.v1.core.block_pool"
NEW = Target(_POOL, "BlockPool.get_new_blocks", ("self", "num_blocks"))
TOUCH = Target(_POOL, "BlockPool.touch", ("self", "blocks"))
FREE = Target(_POOL, "BlockPool.free_blocks", ("self", "ordered_blocks"))


class FreeQueueHook(Hook):
    """Sums by how much a method of the pool changes the number of free blocks. As a TallyHook, it reads no clock."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.total = 0

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            queue, before = None, 0
            try:
                queue = args[0].free_block_queue
                before = queue.num_free_blocks
            except Exception as error:
                self.fail(error)
            result = original(*args, **kwargs)
            if queue is not None:
                self.total += abs(queue.num_free_blocks - before)
            return result

        return wrapper


class _NoQueue:
    num_free_blocks = 0


class KvFlow:
    TARGETS = (NEW, TOUCH, FREE)

    def __init__(self) -> None:
        self.new, self.touch, self.free = TallyHook(NEW), FreeQueueHook(TOUCH), FreeQueueHook(FREE)
        self.hooks: List[Hook] = [self.new, self.touch, self.free]
        self.cached = 0
        self.pool: Any = None
        self.queue: Any = _NoQueue

    def attach(self, scheduler: Any) -> int:
        """Remembers the pool; returns how many blocks can be held. Raises AttributeError if it is not what we know."""
        pool = scheduler.kv_cache_manager.block_pool
        queue, self.cached = pool.free_block_queue, len(pool.cached_block_hash_to_block)
        queue.num_free_blocks  # noqa: B018
        self.pool, self.queue = pool, queue
        return int(pool.num_gpu_blocks) - 1     # the null block is not for use

"""KV blocks of the engine core: what is held, cached and free, and the flow between them.

    allocated  taken from the free queue for new contents
    revived    free but still cached, taken by a prefix hit
    freed      fell to zero references
    allocated + revived − freed = held, at every moment

With `lives` set, the same hooks leave the blocks themselves for lives.py. They read no clock of their own cost.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from pellucid_probe.guard import Hook, Target, now_ns
from pellucid_probe.outbox import Outbox
from pellucid_probe.vllm.kv.lives import Lives

_POOL = "vllm.v1.core.block_pool"
NEW = Target(_POOL, "BlockPool.get_new_blocks", ("self", "num_blocks"))
TOUCH = Target(_POOL, "BlockPool.touch", ("self", "blocks"))
FREE = Target(_POOL, "BlockPool.free_blocks", ("self", "ordered_blocks"))
CLEAR = Target(_POOL, "BlockPool.reset_prefix_cache", ("self",))


class KvFlow:
    TARGETS = (NEW, TOUCH, FREE)
    __slots__ = ("allocated", "cached", "clear", "freed", "hooks", "lives", "outbox", "pool", "queue", "revived",
                 "taken")  # fmt: skip

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.allocated = self.revived = self.freed = 0      # since the start
        self.hooks: List[Hook] = [NewHook(self), TouchHook(self), FreeHook(self)]
        self.clear = Hook(CLEAR, after=self._cleared)
        self.lives: Optional[Lives] = None     # None: nobody asks
        self.taken: List[Any] = []             # lists of blocks handed out since the last schedule() ended
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

    def _cleared(self, _state: Any, result: Any, _args: Any, _kwargs: Any) -> None:
        if self.lives is not None and result:
            self.outbox.put(self.lives.cleared, now_ns())


class NewHook(Hook):
    """Called many times a step."""

    __slots__ = ("flow",)

    def __init__(self, flow: KvFlow) -> None:
        super().__init__(NEW)
        self.flow = flow

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flow = self.flow

        def get_new_blocks(pool: Any, num_blocks: Any, *args: Any, **kwargs: Any) -> Any:
            # Two calls, since the second passes on its arguments at a third of the first one's price.
            result = original(pool, num_blocks, *args, **kwargs) if args or kwargs else original(pool, num_blocks)
            if self.on:
                try:
                    flow.allocated += len(result)
                    if flow.lives is not None:
                        flow.taken.append(result)
                except Exception as error:
                    self.fail(error)
            return result

        return get_new_blocks


class TouchHook(Hook):
    """Sums by how much hits shorten the free queue."""

    __slots__ = ("flow",)

    def __init__(self, flow: KvFlow) -> None:
        super().__init__(TOUCH)
        self.flow = flow

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flow = self.flow

        def touch(*args: Any, **kwargs: Any) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            before = _free_count(self, args)
            result = original(*args, **kwargs)
            flow.revived += before - _free_count(self, args)
            return result

        return touch


class FreeHook(Hook):
    """Sums by how much the free queue grows. An iterator of blocks is made a list first: it can be read once only."""

    __slots__ = ("flow",)

    def __init__(self, flow: KvFlow) -> None:
        super().__init__(FREE)
        self.flow = flow

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flow = self.flow

        def free_blocks(*args: Any, **kwargs: Any) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            blocks: Optional[List[Any]] = None
            if flow.lives is not None:
                if len(args) == 2 and not kwargs:
                    blocks = list(args[1])
                    args = (args[0], blocks)
                elif len(args) == 1 and set(kwargs) == {"ordered_blocks"}:
                    blocks = kwargs["ordered_blocks"] = list(kwargs["ordered_blocks"])
            before = _free_count(self, args)
            result = original(*args, **kwargs)
            flow.freed += _free_count(self, args) - before
            try:
                if blocks and flow.lives is not None:
                    flow.outbox.put(flow.lives.freed, (now_ns(), blocks))
            except Exception as error:
                self.fail(error)
            return result

        return free_blocks


class _NoQueue:
    num_free_blocks = 0


def _free_count(hook: Hook, args: Any) -> int:
    try:
        return int(args[0].free_block_queue.num_free_blocks)
    except Exception as error:
        hook.fail(error)
        return 0

"""Hooks that cannot hurt the engine.

A hook watches one method: `before(args, kwargs) -> state`, then the original, once, then
`after(state, result, args, kwargs)`. A step hook is the same with the clock read for it, as few times as can be:
`after(start_ns, end_ns, result, args, kwargs)`. Whatever goes wrong in our part is caught and counted; after MAX_ERRORS
the hook is silent. A target that is missing or has lost a parameter we read is not touched at all: its facts are blind.

The wrappers are flat on purpose: between two steps the engine takes the caches, and each call of ours that it finds
cold costs several times what it costs in a loop.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import time
from typing import Any, Callable, Optional, Tuple

MAX_ERRORS = 5
now_ns = time.monotonic_ns

Before = Callable[[Tuple[Any, ...], "dict[str, Any]"], Any]
StepAfter = Callable[[int, int, Any, Tuple[Any, ...], "dict[str, Any]"], None]
After = Callable[[Any, Any, Tuple[Any, ...], "dict[str, Any]"], None]


class Cost:
    """Time spent in hooks of this process, on all threads; a lost update is a rounding error.

    An object and not an attribute of Hook: storing one of those drops what the interpreter remembers of the class.
    """

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


COST = Cost()


class Target:
    """Where a hook goes: `module`, dotted `name` in it, and the parameters it must have, in this order at the front."""

    def __init__(self, module: str, name: str, parameters: Tuple[str, ...]) -> None:
        self.module, self.name, self.parameters = module, name, parameters

    def fault(self) -> str:
        """Why the target cannot be hooked, or "". Imports its module."""
        try:
            owner, attribute = self.resolve()
        except Exception as error:
            return f"{self.module}.{self.name}: {type(error).__name__}: {error}"
        try:
            have = tuple(inspect.signature(getattr(owner, attribute)).parameters)
        except (TypeError, ValueError) as error:
            return f"{self.module}.{self.name} has no readable signature: {error}"
        if have[: len(self.parameters)] != self.parameters:
            return f"{self.module}.{self.name} takes {have}, expected {self.parameters} first"
        return ""

    def resolve(self) -> Tuple[Any, str]:
        """(owner, attribute). Raises ImportError or AttributeError."""
        owner: Any = importlib.import_module(self.module)
        *path, attribute = self.name.split(".")
        for part in path:
            owner = getattr(owner, part)
        getattr(owner, attribute)
        return owner, attribute


class Hook:
    """One installed hook: its errors, its cost, and whether it still looks. Slots: `on` is read in every call."""

    __slots__ = ("after", "before", "errors_count", "in_place", "last_error", "on", "on_silence", "target")

    def __init__(self, target: Target, before: Optional[Before] = None, after: Optional[After] = None) -> None:
        self.target, self.before, self.after = target, before, after
        self.on = True
        self.in_place = False      # several facts may need it, and it looks once
        self.errors_count = 0
        self.last_error = ""
        self.on_silence: Optional[Callable[[], None]] = None

    def install(self) -> str:
        """Puts the hook in place, once; returns why it could not, or ""."""
        if self.in_place:
            return ""
        fault = self.target.fault()
        if fault:
            return fault
        owner, attribute = self.target.resolve()
        original = getattr(owner, attribute)
        try:
            wrapper = self._async(original) if inspect.iscoroutinefunction(original) else self.wrap(original)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        setattr(owner, attribute, functools.wraps(original)(wrapper))
        self.in_place = True
        return ""

    @property
    def failed(self) -> bool:
        return self.errors_count >= MAX_ERRORS

    def fail(self, error: BaseException) -> None:
        self.errors_count += 1
        self.last_error = f"{type(error).__name__}: {error}"[:200]
        if self.failed:
            self.on = False
            if self.on_silence is not None:
                self.on_silence()

    def run_before(self, args: Tuple[Any, ...], kwargs: "dict[str, Any]") -> Any:
        if self.before is None or not self.on:
            return None
        start = now_ns()
        try:
            return self.before(args, kwargs)
        except Exception as error:
            self.fail(error)
            return None
        finally:
            COST.ns += now_ns() - start

    def run_after(self, state: Any, result: Any, args: Tuple[Any, ...], kwargs: "dict[str, Any]") -> None:
        if self.after is None or not self.on:
            return
        start = now_ns()
        try:
            self.after(state, result, args, kwargs)
        except Exception as error:
            self.fail(error)
        finally:
            COST.ns += now_ns() - start

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        before, cost = self.before, COST
        if before is not None and self.after is None:
            look = before

            def only_before(*args: Any, **kwargs: Any) -> Any:
                if self.on:
                    start = now_ns()
                    try:
                        look(args, kwargs)
                    except Exception as error:
                        self.fail(error)
                    cost.ns += now_ns() - start
                return original(*args, **kwargs)

            return only_before
        if before is None and self.after is not None:
            see = self.after

            def only_after(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if self.on:
                    start = now_ns()
                    try:
                        see(None, result, args, kwargs)
                    except Exception as error:
                        self.fail(error)
                    cost.ns += now_ns() - start
                return result

            return only_after

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            state = self.run_before(args, kwargs)
            result = original(*args, **kwargs)
            self.run_after(state, result, args, kwargs)
            return result

        return wrapper

    def _async(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function with the original's own parameters; our parts see them all by name.

        A coroutine function that takes anything raises on a wrong call only when it is awaited, and servers tell an
        application from an application factory by calling it without arguments.
        """

        async def run(kwargs: "dict[str, Any]") -> Any:
            state = self.run_before((), kwargs)
            result = await original(**kwargs)
            self.run_after(state, result, (), kwargs)
            return result

        return _same_call(original, run)


class StepHook(Hook):
    """For a method called once a step. `before` must be trivial: it is not clocked."""

    __slots__ = ("step_after",)

    def __init__(self, target: Target, after: StepAfter, before: Optional[Before] = None) -> None:
        super().__init__(target, before)
        self.step_after = after

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        before, after, cost = self.before, self.step_after, COST

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if before is not None and self.on:
                try:
                    before(args, kwargs)
                except Exception as error:
                    self.fail(error)
            start = now_ns()
            result = original(*args, **kwargs)
            if self.on:
                end = now_ns()
                try:
                    after(start, end, result, args, kwargs)
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end
            return result

        return wrapper


def _same_call(original: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """An `async def` with the parameters and defaults of `original` that awaits `run({name: value})`."""
    parameters = inspect.signature(original).parameters.values()
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise TypeError(f"{original!r} has parameters without a name")
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    spelled = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in spelled:
            spelled.append("*")
        spelled.append(f"{p.name}=_defaults[{p.name!r}]" if p.name in defaults else p.name)
    named = ", ".join(f"{p.name!r}: {p.name}" for p in parameters)
    source = f"async def wrapper({', '.join(spelled)}):\n    return await _run({{{named}}})\n"
    scope: "dict[str, Any]" = {"_run": run, "_defaults": defaults}
    exec(source, scope)
    return scope["wrapper"]  # type: ignore[no-any-return]


def argument(args: Tuple[Any, ...], kwargs: "dict[str, Any]", index: int, name: str) -> Any:
    """A call's argument, given by position (self is 0) or by name. Raises KeyError when it was left out."""
    return args[index] if len(args) > index else kwargs[name]


class Governor:
    """Keeps our cost in a process below its budget: samples optional records first, then drops them.

    It looks once in WINDOW units of work (a step, a batch of outputs), on the thread that packs them: the hooks read
    `level` and no more, while it is 0. The budget of a window is the larger of
    BUDGET_NS a unit, scaled up with batches above 256 requests, and one percent of the time the window took.
    """

    BUDGET_NS = 10_000
    WINDOW = 512
    SAMPLE_EVERY = 8
    __slots__ = ("_asked", "_cost_ns", "_from", "_left", "level")

    def __init__(self, cost_ns: Callable[[], int]) -> None:
        self.level = 0          # 0 everything · 1 optional records one in SAMPLE_EVERY · 2 none
        self._asked = 0         # how often, above level 0
        self._left = 1          # units until the next look
        self._cost_ns = cost_ns
        self._from: Optional[Tuple[int, int]] = None     # cost and time when the window began

    def wants_optional(self) -> bool:
        """Whether to note an optional record of this unit. Need not be asked while `level` is 0."""
        self._asked += 1
        return self.level == 0 or (self.level == 1 and self._asked % self.SAMPLE_EVERY == 0)

    def packed(self, time_ns: int, requests: int) -> None:
        """An optional record of a unit that ended then; while sampling it stands for those left out before it."""
        self._left -= self.SAMPLE_EVERY if self.level else 1
        if self._left <= 0:
            self._left = self.WINDOW
            self._look(time_ns, requests)

    def _look(self, time_ns: int, requests: int) -> None:
        cost_ns = self._cost_ns()
        before, self._from = self._from, (cost_ns, time_ns)
        if before is None:
            return
        budget_ns = max(self.BUDGET_NS * max(1.0, requests / 256) * self.WINDOW, 0.01 * (time_ns - before[1]))
        if cost_ns - before[0] > budget_ns and self.level < 2:
            self.level += 1

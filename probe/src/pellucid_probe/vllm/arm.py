"""Which roles this process has, and installing their hooks, each once.

A role is armed by the object that makes the role: AsyncLLM the frontend, EngineCore the engine core, WorkerWrapperBase
the worker. The frontend's module is not loaded when the plugin is called for `--help`, and loading it would cost half a
second, so its trigger waits for the import.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from types import FrameType, ModuleType
from typing import Any, Dict, Optional, Sequence

from pellucid_probe.guard import Hook, Target
from pellucid_probe.process import Process, folder, say_off
from pellucid_probe.ring import RingError

ASYNC_LLM = "vllm.v1.engine.async_llm"
TRIGGERS = {
    "frontend": Target(ASYNC_LLM, "AsyncLLM.__init__", ("self",)),
    "engine_core": Target("vllm.v1.engine.core", "EngineCore.__init__", ("self",)),
    "worker": Target("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_worker", ("self",)),
}

_armed: Dict[str, Any] = {}
_process: Optional[Process] = None
_refused = False


def begin() -> None:
    """Called by the engine's plugin loader. Inert without PELLUCID_DIR."""
    if folder() is None:
        return
    os.register_at_fork(after_in_child=_forget)
    role = _role_of(sys._getframe())
    if role:
        arm(role)
    for other, target in TRIGGERS.items():
        if other == role:
            continue
        if target.module in sys.modules:
            _lay(other, target)
        elif target.module == ASYNC_LLM:
            sys.meta_path.insert(0, _ImportTrigger(target.module, other, target))


def arm(role: str) -> None:
    """Allocates the ring if this process has none, then the role's hooks. Why it could not is left in the folder."""
    global _refused
    where = folder()
    if where is None or role in _armed or _refused:
        return
    try:
        _arm(where, role)
    except Exception as error:     # ours: the engine goes on, and somebody has to learn of it
        _refused = True
        say_off(where, role, f"{type(error).__name__}: {error}")
        print(f"pellucid: the probe stays off in {role}: {type(error).__name__}: {error}", file=sys.stderr)


def _arm(where: str, role: str) -> None:
    global _process, _refused
    from pellucid_probe.vllm import engine_core, frontend, worker
    from pellucid_probe.vllm.config import engine_version

    recorders = {"frontend": frontend.Frontend, "engine_core": engine_core.EngineCore, "worker": worker.Worker}
    try:
        if _process is None:
            _process = Process(where, role, "vllm", engine_version())
        else:
            _process.roles.append(role)
    except (RingError, OSError) as error:
        _refused = True
        say_off(where, role, str(error))
        print(f"pellucid: the probe stays off in {role}: {error}", file=sys.stderr)
        return
    first = not _armed
    _armed[role] = recorders[role](_process)
    if first:
        _process.start_thread()
    _process.describe()


def _lay(role: str, target: Target) -> None:
    Hook(target, before=lambda _args, _kwargs: arm(role)).install()


def _role_of(frame: Optional[FrameType]) -> str:
    """The role of whoever is loading plugins, from the call stack; "" while arguments are parsed."""
    while frame is not None:
        name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__", ""))
        if name == "__init__" and module == "vllm.v1.engine.core":
            return "engine_core"
        if name == "init_worker" and module == "vllm.v1.worker.worker_base":
            return "worker"
        if name == "__init__" and module == ASYNC_LLM:
            return "frontend"
        frame = frame.f_back
    return ""


def _forget() -> None:
    """A forked child is another process: it must not write into its parent's ring."""
    global _refused
    for recorder in _armed.values():
        recorder.process.outbox.silence()
    _refused = True


class _ImportTrigger(importlib.abc.MetaPathFinder):
    """Lays a trigger right after one module was loaded, then steps aside."""

    def __init__(self, module: str, role: str, target: Target) -> None:
        self.module, self.role, self.target = module, role, target

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _LayAfter(spec.loader, self)  # type: ignore[assignment]
        return spec


class _LayAfter:
    """The module's own loader, with the trigger laid after it ran."""

    def __init__(self, loader: Any, trigger: _ImportTrigger) -> None:
        self._loader, self._trigger = loader, trigger

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        try:
            _lay(self._trigger.role, self._trigger.target)
        except Exception as error:
            print(f"pellucid: the probe stays off in {self._trigger.role}: {error}", file=sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

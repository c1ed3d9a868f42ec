"""An engine that is nothing but the names the probe knows: source made from its targets and from what its hooks read.

    source(gone=SCHEDULE)     → {"vllm.v1.core.sched.scheduler": "class Scheduler:\\n    def …", …}, without `schedule`
"""

from __future__ import annotations

import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pellucid_probe.guard import Target
from pellucid_probe.vllm.arm import TRIGGERS
from pellucid_probe.vllm.offline.plan import ROLES

from tools.wheel.reads import READS, Read

TARGETS = list({t.name: t for role in ROLES.values() for targets in role.values() for t in targets}.values())
ALL_READS = [read for reads in READS.values() for read in reads]
# Whatever is read from it, there is something; it is on, and empty.
ANYTHING = """
class Anything:
    def __getattr__(self, name): return Anything()
    def __call__(self, *args, **kwargs): return Anything()
    def __bool__(self): return True
    def __len__(self): return 0
    def __index__(self): return 1
"""


def source(gone: Target | None = None, renamed: Target | None = None, unread: tuple[Read, str] | None = None
           ) -> dict[str, str]:  # fmt: skip
    """Module → text. One target may be gone or have other parameters; one attribute may be missing."""
    classes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for read in ALL_READS:
        body = classes[read.module][read.name]
        for wanted in read.attributes:
            body += [f"    {name} = Anything()" for name in wanted.split("|") if not missing(unread, read, name)]
    for target in [*TARGETS, *TRIGGERS.values()]:
        owner, _, method = target.name.rpartition(".")
        body = classes[target.module][owner]
        if target is not gone:
            parameters = ("other",) if target is renamed else target.parameters
            body.append(f"{'    ' if owner else ''}def {method}({', '.join(parameters)}, *args, **kwargs): pass")
    return {module: ANYTHING + "".join(_class(*c) for c in inside.items()) for module, inside in classes.items()}


def missing(unread: tuple[Read, str] | None, read: Read, name: str) -> bool:
    """Whether the attribute is the missing one, or one of two that are missing together."""
    return unread is not None and unread[0][:2] == read[:2] and name in unread[1].split("|")


def _class(name: str, body: list[str]) -> str:
    head = f"class {name}:\n" if name else ""
    return head + "\n".join(body or ["    pass"]) + "\n"


@contextmanager
def imported(texts: Mapping[str, str]) -> Iterator[None]:
    """The modules can be imported within the block."""
    names = {".".join(module.split(".")[: n + 1]) for module in texts for n in range(module.count(".") + 1)}
    before = {name: sys.modules.get(name) for name in names}
    try:
        for name in sorted(names):
            made = sys.modules[name] = types.ModuleType(name)
            made.__path__ = []
            exec(texts.get(name, ""), made.__dict__)
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def write(texts: Mapping[str, str], folder: Path) -> Path:
    """The same as files."""
    for module, text in texts.items():
        path = folder / module.replace(".", "/") / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder

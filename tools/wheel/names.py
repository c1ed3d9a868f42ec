"""Dotted names in source: where a function or class is defined, what it takes, what its objects have.

    names = Names([wheel])
    names.parameters("vllm.v1.core.block_pool", "BlockPool.touch")   → ("self", "blocks")
    names.attributes("vllm.v1.request", "Request")                   → {"request_id", "status", …}

Imports and base classes are followed as far as the sources go. A decorator is taken to keep the parameters of what it
wraps, as `functools.wraps` does; what is set on an object from outside its class is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tools.wheel.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
Defined = Function | ast.ClassDef


class Missing(LookupError):
    """A module or name that is not in the sources."""


@dataclass(slots=True)
class Names:
    sources: Sequence[Source]
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)

    def parameters(self, module: str, name: str) -> tuple[str, ...]:
        """Names in the order of `inspect.signature`. Raises Missing."""
        found, _ = self.find(module, name)
        if isinstance(found, ast.ClassDef):
            raise Missing(f"{module}.{name} is a class")
        a = found.args
        plain = [p.arg for p in (*a.posonlyargs, *a.args)]
        if any(isinstance(d, ast.Name) and d.id == "classmethod" for d in found.decorator_list):
            del plain[0]
        return (*plain, *([a.vararg.arg] if a.vararg else ()), *(p.arg for p in a.kwonlyargs),
                *([a.kwarg.arg] if a.kwarg else ()))  # fmt: skip

    def attributes(self, module: str, name: str) -> set[str]:
        """What a class and its bases define, declare or assign to `self`. Raises Missing if the class is not there."""
        found, home = self.find(module, name)
        if not isinstance(found, ast.ClassDef):
            raise Missing(f"{module}.{name} is not a class")
        return {a for node, _ in self._lineage(found, home) for a in _declared(node)}

    def find(self, module: str, name: str) -> tuple[Defined, str]:
        """A definition and the module it is in."""
        first, *rest = name.split(".")
        found, home = self._global(module, first)
        for part in rest:
            if not isinstance(found, ast.ClassDef):
                raise Missing(f"{first} in {home} is no class")
            found, home = self._member(found, home, part)
        return found, home

    def _member(self, owner: ast.ClassDef, home: str, name: str) -> tuple[Defined, str]:
        for node, where in self._lineage(owner, home):
            found = _last(node.body, name)
            if isinstance(found, Function | ast.ClassDef):
                return found, where
        raise Missing(f"class {owner.name} in {home} has no {name}")

    def _lineage(self, node: ast.ClassDef, home: str) -> Iterator[tuple[ast.ClassDef, str]]:
        """A class and its bases, nearest first; bases that are not in the sources are left out."""
        yield node, home
        for base in node.bases:
            while isinstance(base, ast.Subscript):
                base = base.value
            if not isinstance(base, ast.Name):
                continue
            try:
                found, where = self._global(home, base.id)
            except Missing:
                continue
            if isinstance(found, ast.ClassDef) and found is not node:
                yield from self._lineage(found, where)

    def _global(self, module: str, name: str) -> tuple[Defined, str]:
        tree = self._tree(module)
        if tree is None:
            raise Missing(f"no module {module}")
        found = _last(tree.body, name)
        if isinstance(found, Function | ast.ClassDef):
            return found, module
        if isinstance(found, ast.ImportFrom):
            original = next(a.name for a in found.names if (a.asname or a.name) == name)
            return self._global(self._origin(module, found), original)
        raise Missing(f"module {module} has no {name}")

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = module.split(".")
        if not any(source.is_package(module) for source in self.sources):
            package.pop()
        package = package[: len(package) - node.level + 1]
        return ".".join([*package, *([node.module] if node.module else [])])

    def _tree(self, module: str) -> ast.Module | None:
        if module not in self._trees:
            text = next((t for source in self.sources if (t := source.text(module)) is not None), None)
            self._trees[module] = None if text is None else ast.parse(text)
        return self._trees[module]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs when a body runs, the branches of its conditions included; not what only a type checker sees."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _statements(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)
        else:
            yield node


def _last(body: Sequence[ast.stmt], name: str) -> ast.stmt | None:
    """The statement that binds a name last."""
    found = None
    for node in _statements(body):
        if isinstance(node, Function | ast.ClassDef):
            bound = {node.name}
        elif isinstance(node, ast.ImportFrom):
            bound = {a.asname or a.name for a in node.names}
        else:
            bound = set(_targets(node))
        found = node if name in bound else found
    return found


def _targets(node: ast.AST) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _declared(owner: ast.ClassDef) -> Iterator[str]:
    for node in _statements(owner.body):
        yield from _targets(node)
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
    for inner in ast.walk(owner):
        if (isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                and isinstance(inner.value, ast.Name) and inner.value.id == "self"):  # fmt: skip
            yield inner.attr

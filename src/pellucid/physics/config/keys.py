"""The keys of a config.json, read with their types. What is missing is refused by name.

    Keys({"hidden_size": 4096}, "llama").count("hidden_size")        == 4096
    Keys({}, "llama").count("num_key_value_heads")                   CannotAnswer: … has no num_key_value_heads
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.core.errors import CannotAnswer


class Noted(dict[str, Any]):
    """Values that remember which of them were asked for."""

    def __init__(self, values: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(values)
        self.asked = asked

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


@dataclass(frozen=True, slots=True)
class Keys:
    values: Mapping[str, Any]
    model_type: str

    def with_default(self, name: str, value: Any) -> Keys:
        """The same, where the name may be missing."""
        if self.has(name):
            return self
        values = {**self.values, name: value}
        return Keys(Noted(values, self.values.asked) if isinstance(self.values, Noted) else values, self.model_type)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def count(self, *names: str) -> int:
        """The first of the names that is there. Raises CannotAnswer where none is, or its value is no whole number."""
        found = self.optional(*names)
        if found is None:
            raise CannotAnswer(
                f"config.json of model_type {self.model_type!r} has no {' or '.join(names)}: "
                "the geometry cannot be told. Give the config.json of the checkpoint itself"
            )
        return found

    def optional(self, *names: str) -> int | None:
        """None where no name is there, or it is null."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise CannotAnswer(f"config.json: {name} is {value!r}, where a whole number was expected")
            return value
        return None

    def flag(self, name: str, absent: bool = False) -> bool:
        value = self.values.get(name)
        return absent if value is None else bool(value)

    def text(self, name: str) -> str:
        return str(self.values.get(name) or "")

    def entries(self, name: str) -> list[Any]:
        """The list under the name; [] where it is missing or null."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise CannotAnswer(f"config.json: {name} is {value!r}, where a list was expected")
        return value

    def under(self, name: str) -> Keys:
        """The mapping under the name, which has to be there."""
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            raise CannotAnswer(f"config.json of model_type {self.model_type!r} has no {name}")
        return Keys(value, self.model_type)

    @property
    def layers_count(self) -> int:
        return self.count("num_hidden_layers", "n_layer")

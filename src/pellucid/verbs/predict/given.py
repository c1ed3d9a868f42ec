"""What a user names on paper → a device of the catalogue, a geometry; refusals that say what to do.

    device_named("H200").key          == "h200"
    device_named("H100")              AskedWrongly: … could be h100_sxm or h100_pcie …
    model_of(Path("a.json"))          Given(geometry, unread=("some_new_key",))
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.catalog.devices.gpus import Device, device_of, devices
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.physics.config.read import read, unread
from pellucid.physics.geometry import Geometry


@dataclass(frozen=True, slots=True)
class Given:
    """A model as its file says it."""

    path: str
    geometry: Geometry
    unread: tuple[str, ...]        # keys that nobody here knows; they are taken not to matter


def device_named(text: str) -> Device:
    """By the driver's name, by its key, or by the start of the key where only one has it."""
    if (found := device_of(text)) is not None:
        return found
    key = "_".join(text.lower().replace("-", " ").replace("_", " ").removeprefix("nvidia ").split())
    if key in devices():
        return devices()[key]
    fitting = [name for name in devices() if name.startswith(f"{key}_")]
    if len(fitting) == 1:
        return devices()[fitting[0]]
    if fitting:
        raise AskedWrongly(f"--gpu {text!r} could be {' or '.join(fitting)}: other chips. Try: --gpu {fitting[0]}")
    raise AskedWrongly(
        f"--gpu {text!r} is not in the catalogue, so nothing is known of its memory and its speed. Known are "
        f"{', '.join(devices())}. Another one is an entry in the catalogue's gpus.toml"
    )


def model_of(path: Path) -> Given:
    """A config.json, or a folder that has one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config: Any = json.loads(file.read_text())
    except FileNotFoundError:
        raise AskedWrongly(
            f"{file}: no such file. Nothing is downloaded: save the checkpoint's config.json and give its path"
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise AskedWrongly(f"{file}: not the JSON of a config.json: {error}") from error
    if not isinstance(config, dict):
        raise AskedWrongly(f"{file}: not a config.json: a JSON object was expected")
    try:
        return Given(str(path), read(config), unread(config))
    except CannotAnswer as error:
        raise CannotAnswer(f"{file}: {error}") from error

"""What engines take beyond the OpenAI API → frozen records, by the name under which they own their models.

    dialects()["…"].exact_length         {"ignore_eos": True}
    PLAIN                                of anybody else: the API's own fields, and nothing more can be asked for
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from pellucid.catalog.load import FOLDER


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    owned_by: str = ""
    context: str = ""                          # "" where the engine does not say
    root: str = ""
    exact_length: dict[str, Any] = {}          # empty: lengths cannot be asked for, only limited
    stream_options: dict[str, Any] = {}        # empty: tokens are counted at the end only
    top_k: str = ""                            # "" where it cannot be asked for
    task: tuple[str, ...] = ()                 # empty: labels cannot be sent


PLAIN = Dialect()


@cache
def dialects() -> dict[str, Dialect]:
    """By engine. Raises ValueError with the file's name where it is odd."""
    path = FOLDER / "servers" / "dialects.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Dialect])
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path.name}: {error}") from error

"""What vLLM needs in its environment so that it loads the probe. Nothing when the user set nothing.

    extend_environment({"VLLM_PLUGINS": "lora_filesystem_resolver"})
    → {"VLLM_PLUGINS": "lora_filesystem_resolver,pellucid"}

`VLLM_PLUGINS` is one allowlist for all plugin groups: unset loads every plugin, the probe among them; set (also to
nothing) loads only those it names. So an unset one stays unset, and a set one keeps what it named.
"""

from __future__ import annotations

from collections.abc import Mapping

PLUGINS = "VLLM_PLUGINS"
ENTRY_POINT = "pellucid"


def extend_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """A copy of the environment in which the probe's entry point is allowed."""
    extended = dict(environ)
    if PLUGINS in extended:
        named = [n for n in extended[PLUGINS].split(",") if n]
        if ENTRY_POINT not in (n.strip() for n in named):
            extended[PLUGINS] = ",".join([*named, ENTRY_POINT])
    return extended

"""Labels of samples that are kept as they are: without secrets, user names and addresses.

    public({"user": "ada", "path": "/home/ada/x", "url": "http://192.0.2.7:80", "tier": "disk"})
        == {"path": "/home/-/x", "tier": "disk"}
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(
    r"secret|passw|credential|cookie|session|auth|(^|_)(api_?)?key$|(^|_)(access|bearer|api|hf|auth)?_?token$"
    r"|(^|_)user|e?mail|owner|client|remote|peer|(^|_)(ip|addr|address|host|hostname)$",
    re.IGNORECASE,
)
_VALUES = re.compile(
    r"(?<!\d)\d{1,3}(\.\d{1,3}){3}(?!\d)|([0-9a-f]{1,4}:){3,}|::[0-9a-f]|[\w.+-]+@[\w-]+\.\w"
    r"|\b(sk|hf|ghp|Bearer)[-_ ]\w{8}",
    re.IGNORECASE,
)
_HOME = re.compile(r"(/(?:home|Users)/)[^/]+")


def public(labels: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _HOME.sub(r"\1-", value)
        for name, value in labels.items()
        if not _NAMES.search(name) and not _VALUES.search(value)
    }

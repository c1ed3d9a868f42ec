"""Standard output as it may be found: closed, full, gone, or in a locale without our letters.

    take_anything()      once, before anything is printed
    drop()               after an error of writing
"""

from __future__ import annotations

import contextlib
import io
import os
import sys


def take_anything() -> None:
    """Closed (`>&-`) it is nowhere; where the locale lacks a letter, a question mark stands for it."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def drop() -> None:
    """What is in its buffer has nowhere to go; without this the interpreter complains when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

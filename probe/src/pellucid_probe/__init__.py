"""The part of pellucid that lives in an inference engine. Standard library only, Python 3.9 and later.

Inert unless PELLUCID_DIR is set; PELLUCID_OFF=1 keeps it inert whatever else is set.

    ring.py     one memory-mapped ring per process, written without blocking
    records.py  what is written into it, and how it is read back
    guard.py    hooks that cannot hurt the engine
    control.py  settings of the running engine, changed on request
    process.py  a process's ring, its description file, its host samples
    vllm/       hooks by process: frontend, engine core, worker
"""

__version__ = "0.1.0"

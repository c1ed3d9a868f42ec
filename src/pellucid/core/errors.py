"""The error tree.

    PellucidError          one printed line; carries an exit code
    ├── Failed             exit 1: it was tried and did not work (engine died, disk full)
    ├── AskedWrongly       exit 2: bad argument, unknown run, unknown knob
    └── CannotAnswer       exit 3: the data to answer was not recorded

Messages say what, where, what we saw, and what to do. `main` prints them on stderr; no trace.
"""


class PellucidError(Exception):
    exit_code = 1


class Failed(PellucidError):
    exit_code = 1


class AskedWrongly(PellucidError):
    exit_code = 2


class CannotAnswer(PellucidError):
    exit_code = 3

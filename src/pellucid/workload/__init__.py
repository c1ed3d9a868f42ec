"""A workload: requests as lengths, arrivals and prefixes. Read from others' traces or a run, kept in one small file.

    read_any   files of others   ─┐                       ┌─▶ statistics   what it is like, and what is blind
    recorded   a run of ours     ─┴─▶ Rows ─▶ file ───────┴─▶ prompts      token ids with the same prefix tree

`read_any` tells formats apart by their contents; those of telemetry and of benchmarks are in documents/.

No text and no token id of anybody is in it. What a source does not have is null, and the file says so.
"""

"""A workload: requests as lengths, arrivals and prefixes. Read from others' traces or a run, kept in one small file.

    read_any   files of others   ─┐                       ┌─▶ statistics   what it is like, and what is blind
    recorded   a run of ours     ─┴─▶ Rows ─▶ file ───────┴─▶ prompts      token ids with the same prefix tree

No text and no token id of anybody is in it. What a source does not have is null, and the file says so.
"""

"""What the probe writes and how it is read back. Both sides live here, so they cannot drift apart.

Frequent records are packed structs, rare ones JSON. Times are CLOCK_MONOTONIC ns.

    SPEC       engine core   drafted and produced tokens by request, before the STEP they belong to
    STEP       engine core   one per step: times, queues, KV, and the batch as a frame (below)
    ADD        engine core   a request entered the scheduler: number, ids, lengths, first-block hash, sampling
    ADMIT      engine core   scheduled for the first time or again: positions found computed
    PREEMPT    engine core   computed positions lost
    FINISH     engine core   freed: status, the engine's own counts
    ARRIVE     frontend      HTTP arrival, identity, label
    DELIVER    frontend      a step's outputs were processed
    FRONT_END  frontend      finish reason as the client sees it
    ABORT      frontend      client went away or cancelled
    WORK       worker        forward pass and sampling of one step, and parts of it
    EXPERTS    worker        a window of one MoE layer and task: how often each expert was chosen
    HOST       every         one second of this process

Frame of a STEP: who is in the batch, then with how many tokens each. Its mode is a sum of two:

    SAME    the members of the step before    MOVED   some left, some joined at the end    FULL   all are listed
    ONES    one token each                    BYTES   8 bits each                          WORDS  32 bits each

A FULL frame comes at least every FULL_EVERY steps, so a reader that lost records is whole again soon.
"""

from __future__ import annotations

import json
import struct
from array import array
from typing import Any, List, NamedTuple, Optional, Tuple

STEP, ADD, ADMIT, PREEMPT, FINISH, SPEC = 1, 2, 3, 4, 5, 6
ARRIVE, DELIVER, FRONT_END, ABORT = 10, 11, 12, 13
WORK, EXPERTS = 20, 21
HOST = 30

ONES, BYTES, WORDS = 0, 1, 2
SAME, MOVED, FULL = 0, 4, 8
FULL_EVERY = 256

# Fields of a STEP that a process may be blind to: they are 0 then.
SEEN_KV_BLOCKS, SEEN_KV_FLOW, SEEN_GRAMMAR, SEEN_LIMITS, SEEN_WAITING = 1, 2, 4, 8, 16

NOT_WAITING, BUDGET, SEQUENCE_CAP, KV, DEFERRED_ONLY = 0, 1, 2, 3, 4

_STEP = struct.Struct("<10Q18IB")
_MOVED = struct.Struct("<II")
_ADMIT = struct.Struct("<IIQQ")
_DELIVER = struct.Struct("<QQdI")
_WORK = struct.Struct("<Q7QiII")
_HOST = struct.Struct("<15Q")


class Step(NamedTuple):
    step: int
    schedule_start_ns: int
    schedule_end_ns: int
    update_start_ns: int
    update_end_ns: int
    kv_allocated: int        # cumulative since the engine started
    kv_revived: int          # cumulative
    kv_freed: int            # cumulative
    probe_ns: int            # our hooks in this process since the previous STEP
    grammar_ns: int          # filling masks of structured outputs since the previous STEP
    requests: int
    tokens: int
    running: int
    waiting: int
    deferred: int
    token_budget: int
    sequence_cap: int
    kv_total: int
    kv_free: int
    kv_cached: int
    preempted: int
    preempted_tokens: int
    waiting_reason: int
    had_work_after: int      # requests were left when the step ended
    seen: int                # what could be read, a sum of the SEEN_ constants
    outputs: int             # tokens sampled and kept
    drafts: int
    accepted: int
    mode: int
    frame: bytes


pack_step_head = _STEP.pack    # the fields of a Step but its frame, which follows


def unpack_step(payload: bytes) -> Step:
    return Step(*_STEP.unpack_from(payload), payload[_STEP.size :])  # type: ignore[call-arg]


def full_frame(members: "List[int]", counts: "List[int]") -> Tuple[int, bytes]:
    """Mode and frame that list everything."""
    return FULL + WORDS, array("I", members).tobytes() + array("I", counts).tobytes()


def moved_head(left: "List[int]", joined: "List[int]") -> bytes:
    """What goes before the counts of a MOVED frame."""
    return _MOVED.pack(len(left), len(joined)) + array("I", left + joined).tobytes()


class Members(NamedTuple):
    """Who is in a batch, as numbers: of the members before without `left`, then `joined`; `whole` if none stay."""

    left: List[int]
    joined: List[int]
    whole: bool


def read_members(step: Step) -> Members:
    if step.mode & FULL:
        return Members([], array("I", step.frame[: 4 * step.requests]).tolist(), True)
    if not step.mode & MOVED:
        return Members([], [], False)
    left, joined = _MOVED.unpack_from(step.frame)
    both = array("I", step.frame[_MOVED.size : _MOVED.size + 4 * (left + joined)]).tolist()
    return Members(both[:left], both[left:], False)


def read_counts(step: Step) -> Optional[List[int]]:
    """Tokens by member; None when each has one. The counts are the end of the frame."""
    kind = step.mode & 3
    if kind == ONES:
        return None
    if kind == BYTES:
        return list(step.frame[-step.requests :])
    return array("I", step.frame[-4 * step.requests :]).tolist()


class Admit(NamedTuple):
    request: int
    again: int        # 0 first time, 1 after a preemption
    step: int
    computed: int     # positions found computed (prefix cache)


class Preempt(NamedTuple):
    request: int
    step: int
    time_ns: int
    lost: int


def pack_admit(record: "tuple[int, ...]") -> bytes:
    return _ADMIT.pack(*record)


def unpack_admit(payload: bytes) -> Admit:
    return Admit(*_ADMIT.unpack(payload))


_PREEMPT = struct.Struct("<IIQQQ")


def pack_preempt(record: "tuple[int, ...]") -> bytes:
    """The fields of a Preempt."""
    request, step, time_ns, lost = record
    return _PREEMPT.pack(request, 0, step, time_ns, lost)


def unpack_preempt(payload: bytes) -> Preempt:
    request, _, step, time_ns, lost = _PREEMPT.unpack(payload)
    return Preempt(request, step, time_ns, lost)


class Finish(NamedTuple):
    request: int
    time_ns: int
    step: int           # the step in whose update it ended, 0 between steps
    output_tokens: int
    computed_tokens: int
    preemptions: int
    reason: str


_FINISH = struct.Struct("<I4QI")


def pack_finish(record: "tuple[Any, ...]") -> bytes:
    """The fields of a Finish."""
    request, time_ns, step, outputs, computed, preemptions, reason = record
    return _FINISH.pack(request, time_ns, step, outputs, computed, preemptions) + str(reason).encode()


def unpack_finish(payload: bytes) -> Finish:
    return Finish(*_FINISH.unpack_from(payload), payload[_FINISH.size :].decode())  # type: ignore[call-arg]


def pack_spec(triples: "List[int]") -> bytes:
    """request, drafted, produced; repeated."""
    return array("I", triples).tobytes()


def unpack_spec(payload: bytes) -> "List[tuple[int, int, int]]":
    flat = array("I", payload).tolist()
    return list(zip(flat[0::3], flat[1::3], flat[2::3]))


class Deliver(NamedTuple):
    start_ns: int
    end_ns: int
    engine_s: float    # the engine core's monotonic stamp of these outputs
    outputs: int


pack_deliver = _DELIVER.pack    # the fields of a Deliver


def unpack_deliver(payload: bytes) -> Deliver:
    return Deliver(*_DELIVER.unpack(payload))


class Work(NamedTuple):
    step: int
    execute_start_ns: int
    execute_end_ns: int
    sample_start_ns: int   # 0: sampling was not a call of its own
    sample_end_ns: int
    draft_ns: int          # proposing drafts for the next step; UNSEEN_NS when it could not be read, as the next two
    encoder_ns: int        # encoding images and sounds
    lora_ns: int           # putting the batch's adapters in place
    rank: int
    graph_mode: int        # GRAPH_MODES index; UNSEEN when it could not be read
    padded_tokens: int     # UNSEEN when it could not be read


UNSEEN = 0xFFFFFFFF
UNSEEN_NS = 0xFFFFFFFFFFFFFFFF
GRAPH_MODES = ("none", "piecewise", "full")


pack_work = _WORK.pack    # the fields of a Work


def unpack_work(payload: bytes) -> Work:
    return Work(*_WORK.unpack(payload))


class Host(NamedTuple):
    time_ns: int
    interval_ns: int
    cpu_user_ns: int
    cpu_system_ns: int
    rss_bytes: int
    threads: int
    voluntary_switches: int
    involuntary_switches: int
    gc_count: int
    gc_pause_ns: int
    gc_pause_max_ns: int
    probe_ns: int
    probe_errors: int
    ring_dropped: int
    shed_level: int    # 0 everything · 1 optional facts sampled · 2 optional facts off


def pack_host(record: "tuple[int, ...]") -> bytes:
    return _HOST.pack(*record)


def unpack_host(payload: bytes) -> Host:
    return Host(*_HOST.unpack(payload))


def pack_json(fields: "dict[str, Any]") -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def unpack_json(payload: bytes) -> "dict[str, Any]":
    fields = json.loads(payload)
    if not isinstance(fields, dict):
        raise ValueError("a JSON record must be an object")
    return fields

"""Frontend: who asks for what, when it arrived, when outputs left, and who went away.

    HTTP request ──▶ AsyncLLM.add_request ──▶ OutputProcessor.add_request ──▶ engine core
                                              ARRIVE is written here: both ids are known
    engine core ──▶ OutputProcessor.process_outputs (DELIVER) ──▶ response stream

The HTTP facts travel to ARRIVE in a context variable, which the request's own task inherits.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from pellucid_probe import records
from pellucid_probe.guard import COST, Governor, Hook, Target, argument, now_ns
from pellucid_probe.outbox import FULL, Outbox, one
from pellucid_probe.process import Process
from pellucid_probe.ring import Record
from pellucid_probe.vllm.labels import HEADER, HEADER_TASK, MAX_LENGTH, SENT, sent_ns, task_of
from pellucid_probe.vllm.live import FrontLive

_OUTPUT = "vllm.v1.engine.output_processor"
HTTP = Target("fastapi", "FastAPI.__call__", ("self", "scope", "receive", "send"))
SUBMIT = Target("vllm.v1.engine.async_llm", "AsyncLLM.add_request", ("self", "request_id", "prompt", "params"))
IDENTIFY = Target(_OUTPUT, "OutputProcessor.add_request", ("self", "request"))
DELIVER = Target(_OUTPUT, "OutputProcessor.process_outputs", ("self", "engine_core_outputs", "engine_core_timestamp"))
END = Target(_OUTPUT, "OutputProcessor._update_stats_from_finished", ("self", "req_state", "finish_reason"))
ABORT = Target(_OUTPUT, "OutputProcessor.abort_requests", ("self", "request_ids", "internal"))

TARGETS: Dict[str, Tuple[Target, ...]] = {
    "request.http_arrival": (HTTP,),
    "request.identity": (SUBMIT, IDENTIFY),
    "request.delivered": (DELIVER,),
    "request.finish_reason": (END,),
    "request.client_abort": (ABORT,),
}
_ARRIVE = one(records.ARRIVE, records.pack_json)
_FRONT_END = one(records.FRONT_END, records.pack_json)
_ABORT = one(records.ABORT, records.pack_json)
FORMATS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


class Arrival(NamedTuple):
    time_ns: int
    path: str
    traceparent: Optional[str]
    task: Optional[str]
    sent_ns: Optional[int]


_arrival: ContextVar[Optional[Arrival]] = ContextVar("pellucid_arrival", default=None)
_submission: ContextVar[Optional[Dict[str, Any]]] = ContextVar("pellucid_submission", default=None)


class Frontend:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.governor = process.governed()
        process.optional_facts.append("request.delivered")
        self.live = FrontLive(process)
        hooks = {
            HTTP: Hook(HTTP, before=_arrived),
            SUBMIT: Hook(SUBMIT, before=_submitted if self.live.control is None else _submitted_with_task),
            IDENTIFY: Hook(IDENTIFY, before=self._identified),
            DELIVER: DeliverHook(process.outbox, self.governor),
            END: Hook(END, before=self._ended),
            ABORT: Hook(ABORT, before=self._aborting),
        }
        for fact, targets in TARGETS.items():
            process.see(fact, [hooks[t] for t in targets])

    def _identified(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        arrival, submission = _arrival.get(), _submission.get() or {}
        tokens = getattr(request, "prompt_token_ids", None)
        self.process.outbox.put(_ARRIVE, {
            "i": request.request_id, "e": getattr(request, "external_req_id", None),
            "t": arrival.time_ns if arrival else None, "s": submission.get("s"), "p": arrival.path if arrival else None,
            "g": (arrival.traceparent if arrival else None) or submission.get("g"),
            "y": arrival.sent_ns if arrival else None, "k": submission.get("k"),
            "h": arrival.task if arrival else None, "f": submission.get("f"),
            "n": len(tokens) if tokens is not None else None,
        })  # fmt: skip

    def _ended(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        state, reason = argument(args, kwargs, 1, "req_state"), argument(args, kwargs, 2, "finish_reason")
        self.process.outbox.put(_FRONT_END, {
            "i": state.request_id, "t": now_ns(), "f": str(reason) if reason is not None else None,
        })  # fmt: skip

    def _aborting(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        ids, internal = argument(args, kwargs, 1, "request_ids"), argument(args, kwargs, 2, "internal")
        if not isinstance(ids, (list, tuple, set)):
            return    # a one-shot iterator belongs to the engine
        known = args[0].request_states
        names: List[str] = []
        for name in ids:
            names += [name] if internal else args[0].external_req_ids.get(name, [])
        live = [name for name in names if name in known]
        if live:
            self.process.outbox.put(_ABORT, {"i": live, "t": now_ns()})


class DeliverHook(Hook):
    """Once a step; flat, as the engine core's hooks are."""

    __slots__ = ("governor", "outbox")

    def __init__(self, outbox: Outbox, governor: Governor) -> None:
        super().__init__(DELIVER)
        self.outbox, self.governor = outbox, governor

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        outbox, governor, pack, cost = self.outbox, self.governor, self._packed, COST
        waiting, append = outbox.waiting, outbox.append

        def process_outputs(*args: Any, **kwargs: Any) -> Any:
            start_ns = now_ns()
            result = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    outputs = args[1] if len(args) > 1 else kwargs["engine_core_outputs"]
                    if outputs:
                        if not governor.level or governor.wants_optional():
                            stamp = args[2] if len(args) > 2 else kwargs["engine_core_timestamp"]
                            append((pack, (start_ns, end_ns, stamp or 0.0, len(outputs))))
                            if len(waiting) > FULL:
                                outbox.flush()
                        if not getattr(args[0], "request_states", True):
                            outbox.wake()
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return result

        return process_outputs

    def _packed(self, fields: Tuple[int, int, float, int]) -> Iterable[Record]:
        self.governor.packed(fields[1], fields[3])
        return ((records.DELIVER, records.pack_deliver(*fields)),)


def _arrived(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    scope = argument(args, kwargs, 1, "scope")
    if scope["type"] != "http" or scope["method"] != "POST":
        return
    headers = dict(scope["headers"])
    trace, task = headers.get(b"traceparent"), headers.get(HEADER)
    arrived_ns = now_ns()
    _arrival.set(Arrival(
        arrived_ns, scope["path"], trace.decode("latin-1") if trace else None,
        task.decode("latin-1")[:MAX_LENGTH] if task else None, sent_ns(headers.get(SENT, b""), arrived_ns),
    ))  # fmt: skip


def _submitted(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    params = argument(args, kwargs, 3, "params")
    trace = kwargs.get("trace_headers") or {}
    structured = getattr(params, "structured_outputs", None)
    _submission.set({
        "s": now_ns(), "g": trace.get("traceparent"), "k": task_of(getattr(params, "extra_args", None)),
        "f": next((f for f in FORMATS if getattr(structured, f, None) is not None), "text"),
    })  # fmt: skip


def _submitted_with_task(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """Under live control the engine core has to know the header's task too: it goes with the sampling parameters."""
    _submitted(args, kwargs)
    arrival, params = _arrival.get(), argument(args, kwargs, 3, "params")
    if arrival is not None and arrival.task and hasattr(params, "extra_args"):
        params.extra_args = {**(params.extra_args or {}), HEADER_TASK: arrival.task}

"""The engine's own scheduler on virtual time: requests and how long each step takes → what was computed in which step.

    python -m pellucid_probe.vllm.offline.schedule
    > {"max_model_len": 4096, "max_num_seqs": 1, "max_num_batched_tokens": 256, "num_gpu_blocks": 900, "block_size": 16}
    < {"kind": "ready", "engine": "vllm", "engine_version": "0.32.0", "settings": {…}, "notes": []}
    > {"arrival_ns": 0, "prompt_tokens": 300, "output_tokens": 2}
    >                                                                      an empty line: these are all
    < {"kind": "step", "step": 0, "start_ns": 0, "prefills": [[256, 256, false]], "decode_count": 0, …}
    > {"ns": 9000000}                                                      so long it took
    < {"kind": "step", "step": 1, "start_ns": 9000000, "prefills": [[44, 300, true]], …}
    > {"ns": 4000000}
    …
    < {"kind": "request", "request": 0, "first_step": 0, "token_steps": [[1, 2]], "finish_reason": "length", …}
    < {"kind": "end", "steps_count": 3, …}

Then the next settings may come: the engine is imported once.

Of a prefill: tokens computed, context up to the last of them, and whether a token comes of it. A decode is a request
with an answer begun and one position to compute; recomputing after a preemption is a prefill. Each step's state is the
one after planning. Also {"kind": "refused", "request", "reason"} for what can never be served: the engine's server
would say so, or the engine wait for ever, and everybody behind it. And {"kind": "error", "what", "message"}: in place
of "ready", and later as the last line of all. What the engine prints goes to stderr.

Not here: drafts, adapters, images, grammars, several ranks, and planning ahead of the device. An answer's tokens are
its request's own, so no later prompt finds them in the cache.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections import deque
from itertools import islice
from typing import Any, Deque, Dict, List, NoReturn, Optional, TextIO, Tuple

from pellucid_probe.vllm.offline.asked import Asked, CannotServe, own, refusal, requests, settings
from pellucid_probe.vllm.offline.scheduler import Engine

NOTHING: List[int] = []
HANGS = "the engine plans nothing for it, and never would: it would wait for ever"
TOO_LARGE = "it needs more KV blocks than there are: the engine would preempt it for ever, with no other running"


class Live:
    """A request that the engine has."""

    __slots__ = ("asked", "cached_tokens", "first_step", "request", "sampled", "token_steps", "tokens")

    def __init__(self, asked: Asked, request: Any) -> None:
        self.asked, self.request = asked, request
        self.sampled = [own(asked)]              # what a step says of it when it gets a token
        self.tokens = asked.prompt_tokens        # with those it got
        self.first_step: Optional[int] = None
        self.cached_tokens: Optional[int] = None
        self.token_steps: List[List[int]] = []   # first and last of consecutive steps

    def got(self, step: int) -> None:
        self.tokens += 1
        runs = self.token_steps
        if runs and runs[-1][1] == step - 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])


class Drive:
    def __init__(self, engine: Engine, coming: List[Asked], lines_in: TextIO, lines_out: TextIO) -> None:
        self.engine, self.scheduler = engine, engine.scheduler
        self.coming: Deque[Asked] = deque(coming)
        self.lines_in, self.lines_out = lines_in, lines_out
        self.live: Dict[str, Live] = {}
        self.clock_ns = self.step = 0
        self.totals = dict.fromkeys(
            ("served_count", "refused_count", "prefill_tokens", "output_tokens", "preempted_count"), 0)  # fmt: skip

    def run(self) -> None:
        while self.coming or self.live:
            self._arrivals()
            if not self.live:
                self.clock_ns = max([self.clock_ns, *(one.arrival_ns for one in islice(self.coming, 1))])
            elif not self._one_step():
                self._give_up()
        self._tell("end", steps_count=self.step, clock_ns=self.clock_ns, **self.totals)
        self.lines_out.flush()

    def _arrivals(self) -> None:
        while self.coming and self.coming[0].arrival_ns <= self.clock_ns:
            one = self.coming.popleft()
            reason = refusal(one, self.engine.told, self.engine.usable_tokens)
            if reason is not None:
                self._refuse(one, reason)
                continue
            request = self.engine.add(one, self.engine.prompts.tokens(one))
            self.live[request.request_id] = Live(one, request)

    def _give_up(self) -> None:
        """Nothing was planned, and next time nothing would be: the first in the queue holds all others up. Without it
        they go on, as without those that are refused when they arrive."""
        stuck = list(self.live) if self.scheduler.running else [self.scheduler.waiting.peek_request().request_id]
        for name in stuck:
            self._end_it(name, HANGS)

    def _end_it(self, name: str, reason: str) -> None:
        self.engine.abort(name)
        self._refuse(self.live.pop(name).asked, reason)

    def _one_step(self) -> bool:
        """Whether anything was planned, or taken back."""
        before = len(self.scheduler.running)
        first = self.scheduler.running[0].request_id if before else ""
        plan = self.scheduler.schedule()
        # Nobody is admitted in a step that preempts, so the running queue becomes shorter by those who went.
        preempted = max(before - len(self.scheduler.running), 0)
        self.totals["preempted_count"] += preempted
        if preempted == before == 1:
            self._end_it(first, TOO_LARGE)
        if not plan.total_num_scheduled_tokens:
            self.scheduler.update_from_output(plan, self.engine.output([], []))
            return bool(preempted)
        for new in plan.scheduled_new_reqs:
            one = self.live[new.req_id]
            if one.cached_tokens is None:
                one.cached_tokens = new.num_computed_tokens
        sampled, last = self._told(plan.num_scheduled_tokens, preempted)
        # The other end works out the time meanwhile.
        self.scheduler.update_from_output(plan, self.engine.output(list(plan.num_scheduled_tokens), sampled))
        for name in last:
            self._ended(name)
        self.clock_ns += self._took_ns()
        self.step += 1
        return True

    def _told(self, planned: Dict[str, int], preempted: int) -> Tuple[List[List[int]], List[str]]:
        """Writes the step. Returns each request's token, and the requests that have all of theirs."""
        prefills, decodes, contexts, step = [], 0, 0, self.step
        sampled, last = [], []
        for name, tokens in planned.items():
            one = self.live[name]
            context = one.request.num_computed_tokens       # counted up by schedule()
            if not tokens <= context <= one.tokens:
                raise CannotServe("version", f"{self.engine.version} counts computed tokens in a way not known here")
            samples, had = context == one.tokens, one.tokens - one.asked.prompt_tokens
            if samples and had and tokens == 1:
                decodes += 1
                contexts += context
            else:
                prefills.append((tokens, context, samples))
                self.totals["prefill_tokens"] += tokens
                if one.first_step is None:
                    one.first_step = step
            if samples:
                one.got(step)
                if had + 1 == one.asked.output_tokens:
                    last.append(name)
            sampled.append(one.sampled if samples else NOTHING)
        running, waiting = self.scheduler.get_request_counts()
        self._tell("step", step=step, start_ns=self.clock_ns, prefills=prefills, decode_count=decodes,
                   decode_context_tokens=contexts, running_count=running, waiting_count=waiting,
                   preempted_count=preempted, kv_used_blocks_count=self.engine.used_blocks())  # fmt: skip
        self.lines_out.flush()
        return sampled, last

    def _took_ns(self) -> int:
        line = self.lines_in.readline()
        if not line:
            raise EOFError("the other end is gone")
        took_ns = json.loads(line)["ns"]
        if isinstance(took_ns, bool) or not isinstance(took_ns, int) or took_ns < 0:
            raise CannotServe("asked", f"step {self.step} took {took_ns!r} ns")
        return took_ns

    def _ended(self, name: str) -> None:
        one = self.live.pop(name)
        if name in self.scheduler.requests:
            raise CannotServe("version", f"{self.engine.version} does not end a request with its last token")
        self.totals["served_count"] += 1
        self.totals["output_tokens"] += one.asked.output_tokens
        self._tell("request", request=one.asked.number, first_step=one.first_step, token_steps=one.token_steps,
                   preemptions_count=one.request.num_preemptions, cached_tokens=one.cached_tokens,
                   finish_reason=str(one.request.get_finished_reason()))  # fmt: skip

    def _refuse(self, one: Asked, reason: str) -> None:
        self.totals["refused_count"] += 1
        self._tell("refused", request=one.number, reason=reason)

    def _tell(self, kind: str, **values: Any) -> None:
        self.lines_out.write(json.dumps({"kind": kind, **values}) + "\n")


def serve(lines_in: TextIO, lines_out: TextIO) -> int:
    """One schedule after another. The exit code: 0 where all was told, an error too."""
    for line in iter(lines_in.readline, ""):
        engine = None
        try:
            engine = Engine(settings(line))
            _write(lines_out, kind="ready", engine="vllm", engine_version=engine.version, settings=engine.told,
                   notes=engine.notes)  # fmt: skip
            _drive(engine, lines_in, lines_out)
        except (CannotServe, AttributeError, TypeError) as error:
            traceback.print_exc()
            what = error.what if isinstance(error, CannotServe) else "version"
            shown = str(error) if isinstance(error, CannotServe) else f"this engine is made otherwise: {error!r}"
            _write(lines_out, kind="error", what=what, message=shown)
            if engine is not None:
                return 0        # in the middle of it, nobody knows what the next line is
        except EOFError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _drive(engine: Engine, lines_in: TextIO, lines_out: TextIO) -> None:
    coming = list(requests(iter(lines_in.readline, "")))
    gc.collect()
    gc.freeze()        # as the engine does before it serves
    try:
        Drive(engine, coming, lines_in, lines_out).run()
    finally:
        gc.unfreeze()


def _write(lines_out: TextIO, **values: Any) -> None:
    lines_out.write(json.dumps(values) + "\n")
    lines_out.flush()


def main() -> NoReturn:
    """Our lines on descriptors of their own; whatever prints to stdout, also below Python, prints to stderr."""
    lines_in, lines_out = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    code = 1
    try:
        code = serve(lines_in, lines_out)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    # The engine's libraries print pages about themselves when they are unloaded, behind what matters.
    os._exit(code)


if __name__ == "__main__":
    main()

"""The batch of an engine core, step by step: who was in it, with how many tokens, in which phase.

STEP frames are deltas; here they become `step_runs` rows and the token terms of a `steps` row. While the same
requests decode one token each, a step costs nothing per request: their spans simply go on.

    scheduled = prefill + decode + recomputed + draft + discarded

A share is split by position: below the prompt's length it is prefill, below what was computed before a preemption it
is recomputed, else decode. Positions of a request that was gone when the result came are discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid_probe import records

from pellucid.collect.request import Request, Span
from pellucid.store.write import Row

Emit = Callable[[Row], None]   # takes a row of step_runs


@dataclass(slots=True)
class Terms:
    """Token terms of one step."""

    prefill: int = 0
    decode: int = 0
    recomputed: int = 0
    draft: int = 0
    discarded: int = 0
    prefill_requests: int = 0
    decode_requests: int = 0
    unknown: bool = False   # a share could not be split: its request's admission was not seen


@dataclass(slots=True)
class Batch:
    process: str
    emit: Emit
    last_step: int = 0
    members: list[Request] | None = None       # None: a gap was not bridged by a full frame yet
    drafts: dict[int, tuple[int, int]] = field(default_factory=dict)   # number → drafted, produced; for the next STEP
    firsts: list[Request] = field(default_factory=list)   # got their first token in the last step
    _steady: bool = False                      # the last step was one decode token for each member

    def take(self, step: records.Step, by_number: Callable[[int], Request]) -> Terms | None:
        """Advances by one STEP. None when the members are not known."""
        if step.step != self.last_step + 1:
            self._break()
        self.firsts = []
        self._change(records.read_members(step), by_number)
        if self.members is None:
            self.last_step, self.drafts = step.step, {}
            return None
        if self._steady and step.mode == records.SAME + records.ONES and not self.drafts:
            self.last_step = step.step
            return Terms(decode=len(self.members), decode_requests=len(self.members))
        terms = self._share(step.step, records.read_counts(step) or [1] * len(self.members))
        self.drafts = {}
        self.last_step = step.step
        return None if terms.unknown else terms

    def unsettle(self) -> None:
        """A member was freed between steps: the next step must be looked at request by request."""
        self._steady = False

    def position(self, request: Request) -> int | None:
        """Next position of a request, its open span counted up to the last step."""
        span = request.span
        if span is None or request.position is None:
            return request.position
        return span.first_position + span.tokens * (self.last_step - span.first_step + 1)

    def close(self, request: Request) -> None:
        """Ends a request's span at the last step and settles its counts."""
        span = request.span
        if span is None:
            return
        steps = self.last_step - span.first_step + 1
        if steps > 0:
            request.add("scheduled_tokens", span.tokens * steps)
            request.outputs += span.output_tokens * steps
            request.position = span.first_position + span.tokens * steps
            request.high_water = max(request.high_water, request.position)
            request.first("first_step", span.first_step)
            request.fields["last_step"] = self.last_step
            self.emit((self.process, request.number, span.first_step, self.last_step, span.tokens,
                       span.first_position, span.output_tokens, span.draft_tokens, span.phase))  # fmt: skip
        request.span = None

    def close_all(self) -> None:
        for request in self.members or ():
            self.close(request)

    def _break(self) -> None:
        """Steps were lost: what is open ends at the last step seen, and positions are no longer known."""
        self.close_all()
        for request in self.members or ():
            request.position = None
        self.members, self._steady = None, False

    def _change(self, change: records.Members, by_number: Callable[[int], Request]) -> None:
        if change.whole:
            before, self.members = self.members or [], [by_number(n) for n in change.joined]
            staying = {id(r) for r in self.members}
            gone = [r for r in before if id(r) not in staying]
        elif (change.left or change.joined) and self.members is not None:
            left = set(change.left)
            gone = [r for r in self.members if r.number in left]
            self.members = [r for r in self.members if r.number not in left] + [by_number(n) for n in change.joined]
        else:
            return
        for request in gone:
            self.close(request)

    def _share(self, step: int, counts: list[int]) -> Terms:
        terms = Terms()
        steady, going_on = True, 0
        for request, tokens in zip(self.members or (), counts, strict=True):
            span = request.span
            if (tokens == 1 and span is not None and span.decoding and not self.drafts
                    and (request.finished_in is None or request.finished_in == step)):  # fmt: skip
                going_on += 1    # most members of most batches: nothing of theirs changes
            else:
                steady &= self._one(request, step, tokens, terms)
        terms.decode += going_on
        terms.decode_requests += going_on
        self._steady = steady
        return terms

    def _one(self, request: Request, step: int, tokens: int, terms: Terms) -> bool:
        """One request's share; returns whether it is an ordinary decode that can go on as it is."""
        position = self.position(request)
        if request.finished_in is not None and request.finished_in != step:
            self._discarded(request, step, tokens, position)
            terms.discarded += tokens
            return False
        if position is None or request.prompt_tokens is None:
            return self._unknown(request, step, tokens, terms)
        if request.number in self.drafts:
            self._speculated(request, step, tokens, terms, position)
            return False
        again = min(tokens, max(0, request.high_water - position))
        first = min(tokens - again, max(0, request.prompt_tokens - position - again))
        terms.recomputed += again
        terms.prefill += first
        terms.decode += tokens - again - first
        phase = "recompute" if again else "prefill" if first else "decode"
        if phase == "decode":
            terms.decode_requests += 1
        else:
            terms.prefill_requests += 1
        if again:
            request.add("recomputed_tokens", again)
        known = request.prompt_tokens + request.outputs + self._open_outputs(request)
        output = 1 if position + tokens >= known else 0
        if output and known == request.prompt_tokens:
            self.firsts.append(request)
        share = Span(step, tokens, position, output, phase)
        self._extend(request, share)
        return share.decoding

    def _open_outputs(self, request: Request) -> int:
        span = request.span
        return 0 if span is None else span.output_tokens * (self.last_step - span.first_step + 1)

    def _extend(self, request: Request, share: Span) -> None:
        span = request.span
        if span is not None:
            same = (span.tokens, span.output_tokens, span.phase) == (share.tokens, share.output_tokens, share.phase)
            if same:
                return
            self.close(request)
        request.span = share

    def _speculated(self, request: Request, step: int, tokens: int, terms: Terms, position: int) -> None:
        drafted, produced = self.drafts[request.number]
        accepted = max(0, produced - 1)
        self.close(request)
        request.span = Span(step, tokens, position, produced, "decode", drafted)
        if request.prompt_tokens is not None and request.outputs == 0 and produced:
            self.firsts.append(request)
        last, self.last_step = self.last_step, step
        self.close(request)                       # its share differs from step to step
        self.last_step = last
        request.position = position + tokens - (drafted - accepted)
        request.high_water = request.position
        request.add("drafted_tokens", drafted)
        request.add("accepted_tokens", accepted)
        terms.draft += drafted
        terms.decode += tokens - drafted
        terms.decode_requests += 1

    def _discarded(self, request: Request, step: int, tokens: int, position: int | None) -> None:
        """Computed for a request that was gone when the result came."""
        self.close(request)
        request.add("scheduled_tokens", tokens)
        request.add("discarded_tokens", tokens)
        self.emit((self.process, request.number, step, step, tokens, position, 0, None, "discarded"))

    def _unknown(self, request: Request, step: int, tokens: int, terms: Terms) -> bool:
        """In the batch, but its admission was not seen. A single token is a decode; more could be anything."""
        terms.unknown |= tokens > 1
        terms.decode += tokens
        terms.decode_requests += 1
        request.add("scheduled_tokens", tokens)
        request.first("first_step", step)
        request.fields["last_step"] = step
        return False

"""One step after another: who computes how many tokens, who waits, who is put back.

    schedule = Schedule(settings)
    schedule.add(live)
    step = schedule.step(number)       Planned(chunks=(Chunk(512, 512, True),), decodes_count=63, …); None: nobody there
    ended = schedule.done(number)      those whose last token that was

First come, first served, as engines with continuous batching do it: those that run come first, in the order they were
admitted; then those that wait, while tokens, places and KV blocks last. Where blocks run out, who was admitted last is
put back to the head of the queue and begins anew.

Requests that decode all take one token a step, so nothing is done for each of them: a clock counts these steps, and
two calendars say at which of them somebody needs another block or is done. Only where the budget or the blocks do not
suffice for all is everybody looked at in turn.

    clock    101   102   103   104
    needs     a           b             a block each
    ends                        a
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pellucid.sim.engine.blocks import Pool
from pellucid.sim.engine.request import Live
from pellucid.sim.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of a request that does not decode: of its prompt, or of what it lost."""

    tokens: int
    context_tokens: int                # positions up to its last token
    sampled: bool                      # its last token brings the next


@dataclass(frozen=True, slots=True)
class Planned:
    chunks: tuple[Chunk, ...]
    decodes_count: int
    decode_context_tokens: int         # positions seen by all decodes together
    running_count: int
    waiting_count: int
    preempted_count: int
    kv_used_blocks_count: int

    @property
    def chunk_tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def tokens(self) -> int:
        return self.chunk_tokens + self.decodes_count


Calendar = dict[int, list[tuple[Live, int]]]


class Schedule:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings.kv_blocks_count, settings.prefix_caching)
        self.waiting: deque[Live] = deque()
        self.running: list[Live] = []          # as admitted
        self.preempted: list[Live] = []        # in the last step
        self._chunked: list[tuple[Live, int]] = []     # of the last step, with their tokens
        self._decodes = self._context = 0      # those that decode, and the positions they have computed
        self._clock = 0
        self._needs: Calendar = {}
        self._ends: Calendar = {}

    def add(self, live: Live) -> None:
        self.waiting.append(live)

    def step(self, number: int) -> Planned | None:
        self.preempted.clear()
        self._chunked.clear()
        if not self.running and not self.waiting:
            return None
        eligible = len(self.running) + len(self.waiting)
        cut = self.settings.long_prefill_tokens if eligible > 1 or self.settings.long_prefill_alone else 0
        self._clock += 1
        prefills = [live for live in self.running if not live.decoding] if self._decodes < len(self.running) else []
        wants = [self._wanted(live, cut) for live in prefills]
        budget = self.settings.token_budget_tokens
        new = self._due(self._needs)
        takes = self._in_turn(prefills, wants, budget - self._decodes)
        if takes is not None and self._room(prefills, takes, len(new)):
            self._all(new, prefills, takes, number)
            budget -= self._decodes + sum(takes)
            decodes, context = self._decodes, self._context
        else:
            budget, decodes, context = self._one_by_one(new, cut, budget, number)
        if not self.preempted:
            self._admit(budget, cut, number)
        chunks = tuple(Chunk(n, live.computed, live.computed == live.tokens) for live, n in self._chunked)
        return Planned(chunks, decodes, context, len(self.running), len(self.waiting), len(self.preempted),
                       self.pool.count - self.pool.free_count)  # fmt: skip

    def done(self, number: int) -> list[Live]:
        """The step's tokens are there: who has its last one leaves."""
        ended = self._due(self._ends)
        for live in ended:
            self._decodes -= 1
            self._context -= live.last
            self._leave(live, live.last, number)
        for live, _ in self._chunked:
            if live.computed != live.tokens:
                continue
            if live.first_token_step < 0:
                live.first_token_step = number
            live.since = number
            if live.computed == live.last:
                ended.append(live)
                self._leave(live, live.last, number)
            else:
                self._decode(live)
        if ended:
            self.running = [live for live in self.running if not live.gone]
        return ended

    # ---- those that run

    def _wanted(self, live: Live, cut: int) -> int:
        want = live.tokens - live.computed
        return cut if 0 < cut < want else want

    def _in_turn(self, prefills: list[Live], wants: list[int], left: int) -> list[int] | None:
        """Tokens of each; None where somebody behind a prompt would get none."""
        if left < 0:
            return None
        if sum(wants) <= left:
            return wants
        if self.running[len(self.running) - len(prefills) :] != prefills:
            return None
        takes = []
        for want in wants:
            takes.append(min(want, left))
            left -= takes[-1]
        return takes

    def _room(self, prefills: list[Live], takes: list[int], new_count: int) -> bool:
        pairs = zip(prefills, takes, strict=True)
        more = sum(self._blocks_count(live.computed + n) - len(live.blocks) for live, n in pairs if n)
        return new_count + more <= self.pool.free_count

    def _all(self, new: list[Live], prefills: list[Live], takes: list[int], number: int) -> None:
        for live in new:
            live.blocks += self.pool.take(1)
            self._expect_block(live)
        self._context += self._decodes
        for live, n in zip(prefills, takes, strict=True):
            if n:
                self._compute(live, n, number)

    def _one_by_one(self, new: list[Live], cut: int, budget: int, number: int) -> tuple[int, int, int]:
        """Tokens left; those that decode, and the positions that they see."""
        needing, at, decodes, context = set(map(id, new)), 0, 0, 0
        while at < len(self.running) and budget > 0:
            live = self.running[at]
            n = 1 if live.decoding else min(self._wanted(live, cut), budget)
            more = (id(live) in needing) if live.decoding else self._blocks_count(live.computed + n) - len(live.blocks)
            while more > self.pool.free_count and self.running[-1] is not live:
                self._put_back(self.running.pop(), number)
            if more > self.pool.free_count:
                self._put_back(self.running.pop(), number)
                break
            if live.decoding:
                live.blocks += self.pool.take(more)
                decodes += 1
                context += live.ahead + self._clock
                if more:
                    self._expect_block(live)
            else:
                self._compute(live, n, number)
            budget -= n
            at += 1
        for live in self.running[at:]:
            if live.decoding:
                self._starve(live, number)
        self._context += decodes
        return budget, decodes, context

    def _compute(self, live: Live, n: int, number: int) -> None:
        live.blocks += self.pool.take(self._blocks_count(live.computed + n) - len(live.blocks))
        if self.pool.caching:
            side = self.settings.block_tokens
            for place in range(live.computed // side, (live.computed + n) // side):
                self.pool.name(live.blocks[place], live.key(place))
        live.computed += n
        if live.first_step < 0:
            live.first_step = number
        self._chunked.append((live, n))

    # ---- those that decode

    def _decode(self, live: Live) -> None:
        """Its next token comes with the next tick of the clock, and `computed` is clock + ahead from now on."""
        live.decoding, live.ahead = True, live.computed - self._clock
        self._decodes += 1
        self._context += live.computed
        self._enter(live)

    def _enter(self, live: Live) -> None:
        live.version += 1
        self._ends.setdefault(live.last - live.ahead, []).append((live, live.version))
        self._expect_block(live)

    def _expect_block(self, live: Live) -> None:
        """At the tick that computes the first position behind its blocks."""
        tick = len(live.blocks) * self.settings.block_tokens + 1 - live.ahead
        if tick <= live.last - live.ahead:
            self._needs.setdefault(tick, []).append((live, live.version))

    def _due(self, calendar: Calendar) -> list[Live]:
        return [live for live, version in calendar.pop(self._clock, ()) if live.version == version]

    def _starve(self, live: Live, number: int) -> None:
        """The budget was spent before its turn: all that it expects comes a tick later."""
        if live.since < number:
            live.stretches.append((live.since, number - 1))
        live.since = number + 1
        live.ahead -= 1
        self._enter(live)

    # ---- those that come and go

    def _admit(self, budget: int, cut: int, number: int) -> None:
        cap = self.settings.sequence_cap_count
        while self.waiting and budget > 0 and len(self.running) < cap:
            live = self.waiting[0]
            taken = self._enters(live, budget, cut)
            if not taken:
                return
            self.waiting.popleft()
            self.running.append(live)
            self._compute(live, taken, number)
            budget -= taken

    def _enters(self, live: Live, budget: int, cut: int) -> int:
        """Tokens of its first step; 0 where it has to wait. What it finds in the cache it holds from then on."""
        side, tokens = self.settings.block_tokens, live.tokens
        found = self.pool.find(live.key(place) for place in range((tokens - 1) // side)) if self.pool.caching else []
        n = tokens - len(found) * side
        if 0 < cut < n:
            n = cut
        if not self.settings.chunked_prefill and n > budget:
            return 0
        n = min(n, budget)
        whole = tokens if self.settings.whole_prompt_must_fit else len(found) * side + n
        need = self._blocks_count(whole) - len(found) + self.pool.idle_count(found)
        if need + (self.settings.watermark_blocks_count if self.running else 0) > self.pool.free_count:
            return 0
        self.pool.hold(found)
        live.blocks, live.computed = found, len(found) * side
        if live.first_step < 0:
            live.cached_tokens = live.computed
        else:
            live.recomputed_tokens += max(0, tokens - 1 - live.computed)      # its last token is new
        return n

    def _put_back(self, live: Live, number: int) -> None:
        computed = live.computed
        if live.decoding:
            computed = live.ahead + self._clock - 1      # this tick has not been computed
            self._decodes -= 1
            self._context -= computed
            if live.since < number:
                live.stretches.append((live.since, number - 1))
            live.sampled = computed + 1 - live.ask.prompt_tokens
        live.decoding, live.computed = False, 0
        live.version += 1
        live.preemptions_count += 1
        self._release(live, computed)
        self.preempted.append(live)
        self.waiting.appendleft(live)

    def _leave(self, live: Live, computed: int, number: int) -> None:
        live.stretches.append((live.since, number))
        live.gone = True
        live.version += 1
        self._release(live, computed)

    def _release(self, live: Live, computed: int) -> None:
        if self.pool.caching:      # what was answered gets its names here: nobody else could have looked for it
            for place in range(computed // self.settings.block_tokens):
                self.pool.name(live.blocks[place], live.key(place))
        self.pool.release(live.blocks)
        live.blocks = []

    def _blocks_count(self, tokens: int) -> int:
        return -(-tokens // self.settings.block_tokens)

"""What decides a schedule, under this house's own names.

    Settings(sequence_cap_count=256, token_budget_tokens=8192, kv_blocks_count=4096, block_tokens=16,
             context_tokens=8192)
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.core.errors import AskedWrongly


@dataclass(frozen=True, slots=True)
class Settings:
    """Raises AskedWrongly where nothing could ever be scheduled."""

    sequence_cap_count: int            # most requests that may run
    token_budget_tokens: int           # most tokens of a step
    kv_blocks_count: int               # that requests can hold; the one that engines keep for padding is not in it
    block_tokens: int
    context_tokens: int                # longest request, answer in it
    prefix_caching: bool = True
    chunked_prefill: bool = True       # else a prompt goes in one step or waits
    long_prefill_tokens: int = 0       # most tokens of one prompt in a step that others share; 0 is no such limit
    whole_prompt_must_fit: bool = True     # a request is admitted when all that it has fits, not only its first chunk
    watermark_ratio: float = 0.0       # of all blocks, left free when a request is admitted beside others
    long_prefill_alone: bool = False   # the limit on long prompts holds for a request that is alone, too
    planned_ahead: bool = False        # a step is planned when the one before it begins, not when it ends

    def __post_init__(self) -> None:
        for name in ("sequence_cap_count", "token_budget_tokens", "kv_blocks_count", "block_tokens", "context_tokens"):
            if getattr(self, name) < 1:
                raise AskedWrongly(f"{name} = {getattr(self, name)}: nothing can run. Try: 1 or more")
        if self.long_prefill_tokens < 0 or not 0 <= self.watermark_ratio < 1:
            raise AskedWrongly(
                f"long_prefill_tokens = {self.long_prefill_tokens}, watermark_ratio = {self.watermark_ratio}: the one "
                "is 0 or more, the other from 0 to below 1"
            )
        if not self.chunked_prefill and self.token_budget_tokens < self.context_tokens:
            raise AskedWrongly(
                f"a step takes {self.token_budget_tokens} tokens, a prompt may have {self.context_tokens} and must not "
                "be cut: it could wait for ever. Try: chunked prefill, or a larger budget"
            )

    @property
    def watermark_blocks_count(self) -> int:
        return int(self.watermark_ratio * (self.kv_blocks_count + 1))

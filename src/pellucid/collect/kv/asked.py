"""What a request asked of the prefix cache: its prompt as block hashes, fingerprints of some, its images and sounds."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from pellucid_probe.kv_records import ADRIFT, SHIFTED, Prompt


@dataclass(slots=True)
class Asked:
    block_tokens: int
    prompt_tokens: int
    skipped: bool
    salt: int
    lora: int
    hashes: list[bytes]                 # of whole blocks; those behind the prompt are added when it lets go
    prints: dict[int, bytes]            # block index → fingerprint
    shifted: bytes | None               # fingerprint of the first block's length from the second token on
    adrift: list[tuple[int, bytes]]     # block index, fingerprint of a few tokens in it, wherever they stand
    inputs: list[tuple[int, bytes]] | None    # multimodal, by its first block, with all before it; None: not shown
    prompt_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_blocks = len(self.hashes)

    @property
    def findable_blocks(self) -> int:
        """Blocks that a lookup may find: the last token is always computed."""
        return min(self.prompt_blocks, max(0, self.prompt_tokens - 1) // self.block_tokens)

    def inputs_at(self, block: int) -> bytes | None:
        """The multimodal inputs in a block and before it, as one print; None if there are none, or none are shown."""
        begun = bisect_right(self.inputs or [], block, key=itemgetter(0))
        return self.inputs[begun - 1][1] if self.inputs and begun else None


def asked(prompt: Prompt) -> Asked:
    prints = {at: text for at, text in prompt.prints if at < ADRIFT}
    shifted = next((text for at, text in prompt.prints if at == SHIFTED), None)
    adrift = [(at - ADRIFT, text) for at, text in prompt.prints if ADRIFT <= at < SHIFTED]
    return Asked(prompt.block_tokens, prompt.prompt_tokens, bool(prompt.skipped), prompt.salt, prompt.lora,
                 list(prompt.hashes), prints, shifted, adrift, prompt.inputs)  # fmt: skip

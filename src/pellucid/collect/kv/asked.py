"""What a request asked of the prefix cache: its prompt as block hashes, and fingerprints of some of the blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from pellucid_probe.kv_records import SHIFTED, Prompt


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
    prompt_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_blocks = len(self.hashes)

    @property
    def findable_blocks(self) -> int:
        """Blocks that a lookup may find: the last token is always computed."""
        return min(self.prompt_blocks, max(0, self.prompt_tokens - 1) // self.block_tokens)


def asked(prompt: Prompt) -> Asked:
    prints = dict(prompt.prints)
    shifted = prints.pop(SHIFTED, None)
    return Asked(prompt.block_tokens, prompt.prompt_tokens, bool(prompt.skipped), prompt.salt, prompt.lora,
                 list(prompt.hashes), prints, shifted)  # fmt: skip

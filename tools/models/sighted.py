"""A small model that sees: random weights, a vision encoder and a Q-Former before a tiny dense language model.

    .venv-engine/bin/python -m tools.models.sighted .models/tiny-sighted

An image of any size becomes 56 by 56 pixels and then IMAGE_TOKENS positions before the prompt. Words are those of the
tiny models but the last, whose place the image's token takes. It is a BLIP-2, since the CPU engine loads these without
torchvision.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import Blip2Config, Blip2ForConditionalGeneration, Blip2Processor, PreTrainedTokenizerFast
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil

from tools.models import tiny

IMAGE_TOKENS, IMAGE_PIXELS, PATCH_PIXELS = 8, 56, 14
IMAGE = "<image>"
CHAT = "{{ messages[0]['content'] }}"
NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}


def config() -> Blip2Config:
    return Blip2Config(
        vision_config={**NARROW, "image_size": IMAGE_PIXELS, "patch_size": PATCH_PIXELS},
        qformer_config={**NARROW, "encoder_hidden_size": NARROW["hidden_size"], "vocab_size": 64},
        text_config={**tiny.GROUPED, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
                     "num_hidden_layers": 2},
        num_query_tokens=IMAGE_TOKENS, image_token_index=int(str(tiny.SHARED["vocab_size"])) - 1,
    )  # fmt: skip


def tokenizer(image_token: int) -> PreTrainedTokenizerFast:
    words = tiny.tokenizer(image_token)
    words.add_tokens([AddedToken(IMAGE, special=True)], special_tokens=True)
    words.chat_template = CHAT
    return words


def main(out: Path) -> None:
    torch.manual_seed(tiny.SEED)
    settings = config()
    Blip2ForConditionalGeneration._from_config(settings, dtype=torch.bfloat16).save_pretrained(out)
    images = BlipImageProcessorPil(size={"height": IMAGE_PIXELS, "width": IMAGE_PIXELS})
    Blip2Processor(images, tokenizer(settings.image_token_index), num_query_tokens=IMAGE_TOKENS).save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

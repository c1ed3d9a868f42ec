"""What must not be written is not written, and what helps stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.collect.logs.redact import LONGEST, redact, settings, short_name

SECRETS = (
    "hf_AbCdEfGhIjKlMnOp", "sk-proj-0123456789abcdef", "Bearer abc.def", "password=hunter2", "api_key: 'k-9'",
    "HF_TOKEN=tok123", "Authorization: Basic YWRh", "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=zz9",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
)  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_goes(secret: str) -> None:
    left = redact(f"failed with {secret} today")
    value = secret.replace(":", "=").split("=")[-1].split()[-1].strip("'")
    assert value not in left and "<secret>" in left and left.startswith("failed with")


@pytest.mark.parametrize(("text", "left"), [
    ("user=ada, login: 'bob'", "user=<…>, login: '…'"),
    ("mail ada@example.org now", "mail <email> now"),
    ("from 192.0.2.7:5120 and 2001:db8:0:0:0:0:0:1", "from <address> and <address>"),
    ("to tcp://node-7.example:5557, https://h/x?k=v", "to tcp://<address>, <url>"),
    ("in /home/ada/x/model.py and /home/ada", "in model.py and <path>"),
    ("at ~/notes/plan or C:\\Users\\ada\\x.txt", "at <path> or <path>"),
    ("prompt: 'tell me a secret', max 5", "prompt: <…>"),
    ("body={'messages': [{'content': 'hi'}]}", "body=<…>"),
    ("prompt_token_ids: [1, 2, 3]", "prompt_token_ids: <…>"),
    ("ids [1, 2, 3, 4, 5, 6, 7, 8, 9] end", "ids […] end"),
    ("got 'a whole sentence of a user' there", "got '…' there"),
    ("got \"half a sentence", "got \"…"),
    ('192.0.2.1:5 - "GET /v1/models?user=ada HTTP/1.1" 404', '<address> - "GET /v1/models HTTP/1.1" 404'),
])  # fmt: skip
def test_what_is_private_goes(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize("text", [
    "Using 'MARLIN' WNA16 MoE backend", "#token: 1920, token usage: 0.94", "CUDA out of memory. Tried 2.00 GiB",
    "Engine (v0.11.0.0.1) took 5.5 s", "don't wait, it isn't ready", "Avg prompt throughput: 12.0 tokens/s",
    '"POST /v1/chat/completions HTTP/1.1" 429', "ops.h, line 933", "TP=4, E=128,N=768",
])  # fmt: skip
def test_what_helps_stays(text: str) -> None:
    assert redact(text) == text


def test_a_long_text_is_cut() -> None:
    assert len(redact("word " * 200)) == LONGEST


@given(st.text(max_size=400))
def test_any_text_becomes_a_short_printable_one(text: str) -> None:
    left = redact(text)
    assert len(left) <= LONGEST and (left == "" or left.isprintable())


def test_settings_are_numbers_switches_and_short_names() -> None:
    found = settings(
        "{'model': '/mnt/ada/qwen3-8b', 'max_model_len': 16384, 'gpu_memory_utilization': 0.9, 'eager': False, "
        "'dtype': torch.bfloat16, 'quantization': None, 'kv': Config(topic='', publisher='zmq'), 'lr': 1e-05}"
    )
    assert json.loads(found or "") == {
        "model": "qwen3-8b", "max_model_len": 16384, "gpu_memory_utilization": 0.9, "eager": False,
        "dtype": "torch.bfloat16", "quantization": None, "publisher": "zmq", "lr": 1e-05,
    }  # fmt: skip


@pytest.mark.parametrize("private", [
    "'api_key': 'k'", "hf_token='t'", "'host': 'node7'", "admin_password='p'", "'chat_template': 'x'", "user='ada'",
    "dist_init_addr='10'", "'served_by': 'two words'", "'x': 'ada@example.org'", "download_dir='/home/ada'",
])  # fmt: skip
def test_a_private_setting_is_left_out(private: str) -> None:
    assert settings(f"{{{private}, 'n': 1}}") == '{"n": 1}'


def test_a_setting_that_was_cut_is_left_out() -> None:
    assert settings("{'max_model_len': 163") is None


@pytest.mark.parametrize(("text", "name"), [("/a/b/qwen", "qwen"), ("org/it", "org/it"), ("a b", None), ("", None)])
def test_a_short_name_is_one_word(text: str, name: str | None) -> None:
    assert short_name(text) == name

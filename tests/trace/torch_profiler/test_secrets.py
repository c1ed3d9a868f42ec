"""Secrets are planted in every place of a trace; none comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import Timeline
from tests.trace.torch_profiler.written import HEAD, TAIL, Event, call, kernel, loaded, op, text

PLANTED = ("hf_AbCdEfGhIjKlMnOpQrStUvWx", "ada", "lovelace-box", "s3cr3tV4lue", "172.16.30.40", "ada@example.org",
           "sk-proj-0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE")  # fmt: skip


def everything(timeline: Timeline) -> str:
    parts = (timeline.about, timeline.names, timeline.texts, timeline.extents, timeline.threads)
    return "\n".join(map(str, parts))


def planted() -> str:
    head = {**HEAD, "hostname": "lovelace-box", "username": "ada", "env": {"HF_TOKEN": PLANTED[0]},
            "argv": ["--key", "s3cr3tV4lue"],
            "metadata": {"started_by": "ada", "environment": {"AWS": PLANTED[7]}}}  # fmt: skip
    labels: list[Event | str] = [
        {"name": "process_name", "ph": "M", "ts": 1, "pid": 90, "args": {"name": "python3 --token s3cr3tV4lue"}},
        {"name": "process_labels", "ph": "M", "ts": 1, "pid": 90, "tid": 0, "args": {"labels": "lovelace-box"}},
    ]
    inputs: dict[str, Any] = {"Input Dims": [[1]], "Concrete Inputs": ["/Users/ada/x", PLANTED[0]]}
    return text([
        op("load /home/ada/model.bin", **inputs), call(),
        kernel("triton_ /home/ada/cache/k"), {**op(f"Bearer {PLANTED[6]}"), "cat": "user_annotation"},
        {**op("fetch http://ada:s3cr3tV4lue@172.16.30.40/x ada@example.org"), "cat": "user_annotation"},
        {**op("password=s3cr3tV4lue host=lovelace-box"), "cat": "user_annotation"}, *labels,
    ], head, {**TAIL, "traceName": "/home/ada/t.json", "INFO": ["cmd s3cr3tV4lue"]})  # fmt: skip


def test_what_is_planted_does_not_come_out(tmp_path: Path) -> None:
    content = planted()
    assert [secret for secret in PLANTED if secret not in content] == []
    found = loaded(tmp_path, content)
    assert [secret for secret in PLANTED if secret in everything(found)] == []
    assert found.about.redacted_count >= 14
    assert "triton_ ~/cache/k" in found.names and "load ~/model.bin" in found.names


@pytest.mark.parametrize(("given", "kept"), [
    ("/home/ada/x.py", "~/x.py"), ("/Users/ada/x.py(12): f", "~/x.py(12): f"), ("C:\\Users\\ada\\x", "~\\x"),
    ("/zhang-x3/users/ada/eg.json", "/zhang-x3/~/eg.json"), ("see file:///home/ada/x", "see file:~/x"),
    ("api_key: abcdef123", "api_key: ~"), ('{"token": "abcdef123"}', '{"token": "~"}'),
    ("xoxb-123456789012-abcdef", "~"), ("eyJhbGciOiJI.eyJzdWIiOiIx.sig", "~"), ("ghp_" + "a" * 36, "~"),
])  # fmt: skip
def test_a_secret_goes_and_what_is_around_it_stays(given: str, kept: str) -> None:
    redactor = Redactor()
    assert (redactor.text(given), redactor.count) == (kept, 1)


@pytest.mark.parametrize("name", [
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
    "moe::count_and_sort_expert_tokens_kernel<int>", "num_tokens=8000", "tokens: 8000", "Token::sort(int)", "a/b/c.cu",
    "void topk_token_dispatch<TokenTraits::kKey>(int)", "aten::mm", "nccl:all_reduce", "/root/x", "1.2.3", "key_cache",
    "execute_context_8(8000)_generation_0(0)", "reshape_and_cache_flash_kernel<key>", "hf_model", "home/x", "hostAlloc",
])  # fmt: skip
def test_names_of_kernels_stay_as_they_are(name: str) -> None:
    redactor = Redactor()
    assert (redactor.text(name), redactor.count) == (name, 0)

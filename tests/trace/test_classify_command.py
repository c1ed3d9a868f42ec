"""`pellucid classify` as a user meets it: a process of its own, with real pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "pellucid.surface.cli", "classify"]
KEYS = ["name", "class", "detail", "confidence", "told", "phase", "precision", "library"]


def ran(*args: str, given: bytes = b"") -> tuple[list[dict[str, Any]], str]:
    done = subprocess.run([*COMMAND, *args], input=given, capture_output=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


@pytest.mark.slow
def test_each_line_has_its_answer_and_empty_ones_are_counted() -> None:
    answers, said = ran(given=b"nvjet_tst_128x8\n\nmystery\r\n  \n\xff_rms_norm_kernel")
    assert [(a["name"], a["class"]) for a in answers] == [
        ("nvjet_tst_128x8", "gemm"), ("mystery", "unknown"), ("\\xff_rms_norm_kernel", "norm")]  # fmt: skip
    assert said == "pellucid: 2 empty lines skipped\n"
    assert [list(a) for a in answers] == [KEYS] * 3
    assert [answers[1][key] for key in KEYS[2:]] == [None, 0.0, None, None, None, None]


@pytest.mark.slow
def test_names_are_arguments_too_and_an_operator_may_be_given() -> None:
    answers, said = ran("kernel_7", "ncclDevKernel_AllGather_RING_LL(x)", "--op", "aten::mm")
    assert [(a["class"], a["told"]) for a in answers] == [("gemm", "op"), ("comm", "family")]
    assert said == ""


@pytest.mark.slow
def test_an_answer_does_not_wait_for_the_end_of_the_input() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"flash_fwd_kernel\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["class"] == "attention"
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.slow
def test_a_reader_that_goes_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"flash_fwd_kernel\n" * 1000)
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""

"""`pellucid fidelity` as a user meets it: exit codes, JSON, and what is asked wrongly."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from pellucid.surface.cli import main
from pellucid.surface.cli.loop.fidelity import CODES
from tests.verbs.loop.small_engine import small_engine


def pellucid(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["fidelity", *words])
    return code, out.getvalue(), err.getvalue()


def prompts(tmp_path: Path, count: int) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "prompt {n}", "task": "chat", "max_tokens": 12}}\n' for n in range(count)))
    return str(path)


def test_a_verdict_is_json_with_an_exit_code(tmp_path: Path) -> None:
    with small_engine(temperature=2.0) as hot, small_engine() as reference:
        words = ("--candidate", hot, "--reference", reference, "--prompts", prompts(tmp_path, 10), "--json")
        code, out, err = pellucid(*words)
    said = json.loads(out)
    assert (code, said["word"]) == (1, "different")
    assert said["tasks"][0]["differences"][0]["name"] == "surprise"
    assert err.startswith("pellucid: different: ")


def test_a_verdict_is_a_screen(tmp_path: Path) -> None:
    with small_engine() as one, small_engine() as other:
        code, out, _ = pellucid("--candidate", one, "--reference", other, "--prompts", prompts(tmp_path, 9), "--n", "4")
    assert code == 3
    assert out.startswith("inconclusive")
    assert "4 prompts, 8 + 16 answers" in out
    assert "surprise, nats per token" in out


def test_an_engine_that_fails_is_told_without_a_table() -> None:
    with small_engine("error") as broken, small_engine() as reference:
        code, out, _ = pellucid("--candidate", broken, "--reference", reference)
    assert code == 1
    assert "HTTP 500" in out and "surprise" not in out


def test_every_word_has_an_exit_code() -> None:
    assert CODES == {"same": 0, "different": 1, "failed": 1, "inconclusive": 3, "blind": 3}


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--workload", "w.parquet"), "no such file"),
     (("--max-tokens", "0"), "1 or more"), (("--margin", "nan"), "is no difference"), (("--seed", "-1"), "--seed -1"),
     (("--prompts", "none.jsonl"), "No such file")],
)  # fmt: skip
def test_what_is_asked_wrongly_is_said(words: tuple[str, ...], says: str) -> None:
    code, _, err = pellucid("--candidate", "http://127.0.0.1:1", "--reference", "http://127.0.0.1:1", *words)
    assert code == 2
    assert says in err

"""`pellucid predict --model …`: the screen says what is a bound, the JSON is the verb's, refusals have their code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.surface.cli import main
from tests.physics import configs


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "llama.json"
    path.write_text(json.dumps(configs.LLAMA_8B))
    return str(path)


def test_the_screen_says_what_is_a_bound_and_what_was_seen(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--model", model, "--gpu", "H200", "--gpu-hour", "3.5"]) == 0
    shown = capsys.readouterr().out
    for words in ("no engine does better", "TPOT ≥", "tokens/s ≤", "seen", "per million", "8.03 B parameters", "1 GPU"):
        assert words in shown
    assert len(shown.splitlines()) < 20


def test_without_a_range_it_says_so(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--model", model, "--gpu", "B200", "--gpu-hour", "5"]) == 0
    shown = capsys.readouterr()
    assert "no range: too few engines were seen" in shown.err
    assert "≥ 0." in shown.out
    assert "seen" not in shown.out


def test_the_api_and_a_target(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--gpu-hour", "3.5", "--api-in", "0.05", "--api-out", "0.1", "--tpot", "20ms"]
    assert main(["predict", "--model", model, "--gpu", "H200", *asked]) == 0
    shown = capsys.readouterr().out
    assert "at best ≤" in shown
    assert "is cheaper from" in shown
    cheap = ["--gpu-hour", "3.5", "--api-in", "0.0001", "--api-out", "0.0001"]
    assert main(["predict", "--model", model, "--gpu", "H200", *cheap]) == 0
    assert "dearer at any traffic, even at the roof" in capsys.readouterr().out


def test_json_is_the_verbs_answer(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--model", model, "--against", model, "--gpu", "H200", "--gpus", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"head", "rows", "refused", "notes", "units"}
    assert [m["model"] for m in found["head"]["models"]] == ["a", "b"]
    assert {row["placement"] for row in found["rows"]} == {"TP2", "PP2", "DP2"}


@pytest.mark.parametrize(("words", "code", "said"), [
    (["--gpu", "H200"], 2, "--gpu goes with --model"),
    (["--model", "MODEL", "--set", "max_num_seqs=4"], 2, "--set is asked"),
    (["--model", "MODEL"], 2, "Try: --gpu H200"),
    (["--model", "MODEL", "--gpu", "H200", "--api-in", "1"], 2, "go together"),
    (["--model", "MODEL", "--gpu", "H200", "--gpus", "0"], 2, "--gpus 0"),
    (["--model", "nowhere.json", "--gpu", "H200"], 2, "Nothing is downloaded"),
])  # fmt: skip
def test_refusals(
    model: str, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *(model if w == "MODEL" else w for w in words)]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--gpus", "two"], ["--share", "nan"], ["--reserve", "2G"]])
def test_options_that_are_no_numbers(model: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["predict", "--model", model, "--gpu", "H200", *words])
    assert ended.value.code == 2
    assert "is not a" in capsys.readouterr().err

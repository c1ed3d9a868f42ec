"""`pellucid workload` as a user meets it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pellucid.surface.cli import main
from tests.workload.trace_files import AZURE, DATASET, MOONCAKE, TRACE, VIDUR


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, text in (("m", MOONCAKE), ("a", AZURE), ("v", VIDUR), ("t", TRACE), ("d", DATASET), ("odd", "a text\n")):
        Path(name).write_text(text)


def test_a_trace_is_imported_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "import", "m", "w"]) == 0
    assert "w: 3 requests," in capsys.readouterr().out
    assert main(["workload", "show", "w"]) == 0
    said = capsys.readouterr().out
    assert "m (mooncake)" in said
    assert "2 gaps, fewer than 20" in said
    assert "1,114 of 2,144 prompt tokens (52%) repeat" in said
    assert "temperature, top_p, top_k: not in the source" in said
    assert len(said.splitlines()) < 24


def test_json_has_the_same_with_null_for_what_is_blind(capsys: pytest.CaptureFixture[str]) -> None:
    main(["workload", "import", "v", "w", "--json"])
    made = json.loads(capsys.readouterr().out)
    assert (made["requests_count"], made["format"], made["left_out"]) == (2, "vidur lengths", {})
    main(["workload", "show", "w", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["arrivals"], shown["sharing"], shown["sessions_count"]) == (None, None, None)
    assert shown["prompt"]["quantiles_tokens"] == {"p10": 2015, "p50": 2015, "p90": 3772, "p99": 3772}
    assert "arrival times" in shown["about"]["missing"]["arrival_ns"]


def test_a_seed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "import", "d", "t", "w", "--seed", "9", "--start", "20m", "--span", "1m"]) == 0
    assert "from servegen, seed 9" in capsys.readouterr().out


def test_what_was_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m").write_text(MOONCAKE + '{"input_length": -1}\n')
    assert main(["workload", "import", "m", "w"]) == 0
    assert "left out: 1 of 4, negative" in capsys.readouterr().err
    main(["workload", "show", "w"])
    assert "1 of 4: negative" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import", "odd", "w"], "no trace we know"), (["import", "t", "w"], "half of a ServeGen client"),
        (["import", "m", "a"], "is there already. Try: --force"), (["import", "m", "gone/w"], "no folder gone"),
        (["import", "gone", "w"], "cannot read gone"), (["show", "m"], "is no workload"),
        (["show", "x"], "no such file"), (["import", "t", "d", "w", "--seed", "-1"], "--seed -1"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_said_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["workload", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("w").exists()
    assert Path("a").read_bytes() == AZURE.encode()


def test_a_file_that_is_there_is_written_over_when_asked() -> None:
    assert main(["workload", "import", "m", "a", "--force"]) == 0
    assert main(["workload", "show", "a"]) == 0


def test_a_run_is_made_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "record", "w", "--run", "example"]) == 0
    assert "w: 203 requests," in capsys.readouterr().out
    main(["workload", "show", "w", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["requests_count"] == shown["sharing"]["seen_count"] == 203
    assert {row["task"] for row in shown["tasks"]} == {"story", "document", "short:completions:text"}


def test_a_run_that_is_not_there_is_asked_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "record", "w", "--run", "gone"]) == 2
    assert "gone" in capsys.readouterr().err


def test_prompts_are_lines_of_json_to_a_file_or_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    main(["workload", "import", "m", "w"])
    words = ["--vocabulary", "1000", "--reserved", "3", "--seed", "8"]
    assert main(["workload", "synthesise", "w", "p.jsonl.gz", *words]) == 0
    assert "seed 8" in capsys.readouterr().err
    lines = gzip.decompress(Path("p.jsonl.gz").read_bytes())
    first, second, third = map(json.loads, lines.splitlines())
    assert [len(x["prompt_token_ids"]) for x in (first, second, third)] == [1030, 1024, 90]
    assert first["prompt_token_ids"][:1024] == second["prompt_token_ids"]
    assert first["prompt_token_ids"][:90] == third["prompt_token_ids"]
    assert all(3 <= token < 1000 for token in first["prompt_token_ids"])
    assert {k: v for k, v in second.items() if k != "prompt_token_ids"} == {
        "arrival_ns": 3_000_000_000, "output_tokens": 7}  # fmt: skip
    assert main(["workload", "synthesise", "w", "-", *words, "--limit", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == lines.decode().splitlines()[:2]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["w", "a", "--vocabulary", "9"], "is there already"), (["m", "p", "--vocabulary", "9"], "is no workload"),
     (["w", "p", "--vocabulary", "1"], "nothing to draw from"),
     (["w", "-", "--vocabulary", "9", "--seed", "-4"], "--seed")],
)  # fmt: skip
def test_prompts_that_cannot_be_made_are_said(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    main(["workload", "import", "m", "w"])
    assert main(["workload", "synthesise", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().glob("p*"))

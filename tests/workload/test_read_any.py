"""Traces of others become workloads: what is there is kept, what is not is null, what cannot be right is counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import read, write
from pellucid.workload.read_any import read_any
from pellucid.workload.servegen import Draw
from tests.conftest import shared_data
from tests.workload.trace_files import (
    AZURE,
    BURSTGPT,
    DATASET,
    KEY,
    LLMSERVINGSIM,
    MOONCAKE,
    SHAREGPT,
    TRACE,
    VIDUR,
    columns,
    trace,
)

LENGTHS = ("arrival_ns", "prompt_tokens", "output_tokens")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "kind", "rows"),
    [
        (MOONCAKE, "mooncake", [(0, 1030, 500), (3_000_000_000, 1024, 7), (3_000_000_000, 90, 3)]),
        (AZURE, "azure", [(0, 4808, 10), (52_000_000, 3180, 8)]),
        (BURSTGPT, "burstgpt", [(0, 472, 18), (40_000_000_000, 1087, None)]),
        (SHAREGPT, "sharegpt lengths", [(0, 2358, 531), (301_012_143, 1034, 769)]),
        (VIDUR, "vidur lengths", [(None, 3772, 54), (None, 2015, 156)]),
        (LLMSERVINGSIM, "llmservingsim", [(0, 40, 70), (100, 33, 9)]),
    ],
)
def test_a_trace_is_known_by_its_contents(tmp_path: Path, text: str, kind: str, rows: object, packed: bool) -> None:
    found = trace(tmp_path, text, packed=packed)
    assert (found.about.format, columns(found, *LENGTHS)) == (kind, rows)
    assert found.about.left_out == {}


def test_what_a_source_has_not_is_null_and_said(tmp_path: Path) -> None:
    found = trace(tmp_path, VIDUR)
    assert set(columns(found, "arrival_ns", "blocks", "block_tokens", "task", "session")) == {(None,) * 5}
    assert {"arrival_ns", "blocks", "task", "session", "think_ns", "temperature"} <= found.about.missing.keys()
    assert "output_tokens" not in found.about.missing


def test_blocks_are_those_of_the_trace(tmp_path: Path) -> None:
    assert columns(trace(tmp_path, MOONCAKE), "blocks", "block_tokens") == [([0, 1, 2], 512), ([0, 1], 512), ([0], 512)]


def test_sessions_and_think_times_of_a_mooncake_trace_are_kept(tmp_path: Path) -> None:
    lines = ('{"session_id": "a", "input_length": 5, "timestamp": 7}\n'
             '{"session_id": "a", "input_length": 6, "delay": 1500.5, "hash_ids": null}\n')  # fmt: skip
    assert columns(trace(tmp_path, lines), "session", "think_ns", "arrival_ns", "blocks") == [
        ("a", None, 0, None), ("a", 1_500_500_000, None, None)]  # fmt: skip


def test_hashes_without_a_sign_are_kept_apart(tmp_path: Path) -> None:
    line = '{{"input_length": 600, "hash_ids": [{}, {}]}}\n'
    assert columns(trace(tmp_path, line.format(2**63 + 1, 5)), "blocks") == [([-(2**63) + 1, 5],)]


def test_token_ids_become_keyed_hashes_of_whole_blocks(tmp_path: Path) -> None:
    (first,), (second,) = columns(trace(tmp_path, LLMSERVINGSIM), "blocks")
    assert isinstance(first, list) and isinstance(second, list)
    assert len(first) == len(second) == 2
    assert first[0] == second[0]
    assert first[1] != second[1]
    ((other,), _) = columns(read_any([tmp_path / "file-0"], b"another key", Draw()), "blocks")
    assert isinstance(other, list)
    assert set(first).isdisjoint(other)


def test_a_failed_request_has_no_length_rather_than_none(tmp_path: Path) -> None:
    found = trace(tmp_path, BURSTGPT)
    assert columns(found, "output_tokens", "task") == [(18, "Conversation log"), (None, "API log")]
    assert any("1 requests had failed" in note for note in found.about.notes)


def test_an_answer_of_no_tokens_elsewhere_is_one(tmp_path: Path) -> None:
    assert columns(trace(tmp_path, VIDUR + "10,0,10,1\n"), "output_tokens")[-1] == (0,)


def test_requests_are_put_in_order_of_arrival(tmp_path: Path) -> None:
    found = trace(tmp_path, "arrival_time_ns,input_toks,output_toks\n30,1,1\n10,2,1\n30,3,1\n20,4,1\n")
    assert columns(found, "arrival_ns", "prompt_tokens") == [(0, 2), (10, 4), (20, 1), (20, 3)]
    assert any("sorted" in note for note in found.about.notes)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 1, "input_length": -5, "output_length": 1}', "negative"),
        ('{"timestamp": -1, "input_length": 5, "output_length": 1}', "negative"),
        ('{"timestamp": 1, "input_length": "5", "output_length": 1}', "unreadable"),
        ('{"timestamp": 1, "input_length": true, "output_length": 1}', "unreadable"),
        ('{"timestamp": 1, "input_length": 5000000000, "output_length": 1}', "unreadable"),
        ('{"timestamp": 1e300, "input_length": 5, "output_length": 1}', "unreadable"),
        ('{"timestamp": 1, "input_length": 0, "output_length": 1}', "no prompt"),
        ('{"timestamp": 1, "input_length": 5, "hash_ids": [1, 2]}', "blocks do not fit the prompt"),
        ('{"timestamp": 1, "input_length": 5, "hash_ids": [36893488147419103232]}', "unreadable"),
        ('{"timestamp": 1, "input_le', "unreadable"),
        ("[1, 2]", "unreadable"), ("not json", "unreadable"), ("[" * 100_000, "unreadable"), ("\0\xff", "unreadable"),
    ],
)  # fmt: skip
def test_a_line_of_json_that_cannot_be_is_counted(tmp_path: Path, line: str, reason: str) -> None:
    found = trace(tmp_path, f"{line}\n{MOONCAKE}")
    assert (len(found), found.about.left_out, found.about.read_count) == (3, {reason: 1}, 4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2023-11-16 18:17:05,-3,8", "negative"), ("2023-11-16 18:17:05,3,-8", "negative"),
        ("2023-11-16 18:17:05,,8", "no prompt"), ("2023-11-16 18:17:05,0,8", "no prompt"),
        ("2023-11-16 18:17:05,ten,8", "unreadable"), ("2023-11-16 18:17:05,1.5,8", "unreadable"),
        ("2023-13-16 18:17:05,1,8", "unreadable"), ("2823-11-16 18:17:05,1,8", "unreadable"),
        ("1969-11-16 18:17:05,1,8", "negative"), ("5,1,8", "unreadable"), ("2023-11-16 18:17:05,1", "unreadable"),
        ("2023-11-16 18:17:05,1,8,9", "unreadable"), ("2023-11-16 18:17:05,nan,8", "unreadable"),
        ("2023-11-16 18:17:05,1e999999,8", "unreadable"), ('2023-11-16 18:17:05,"1,8', "unreadable"),
    ],
)  # fmt: skip
def test_a_line_of_csv_that_cannot_be_is_counted(tmp_path: Path, line: str, reason: str) -> None:
    head, rest = AZURE.split("\r\n", 1)
    found = trace(tmp_path, f"{head}\r\n{line}\r\n\r\n{rest}")
    assert (len(found), found.about.left_out, found.about.read_count) == (2, {reason: 1}, 3)


def test_a_missing_answer_is_null_and_the_request_stays(tmp_path: Path) -> None:
    assert columns(trace(tmp_path, AZURE + "\n2023-11-16 18:17:05,7,"), *LENGTHS[1:])[-1] == (7, None)


def test_a_time_with_a_zone_is_in_that_zone(tmp_path: Path) -> None:
    found = trace(tmp_path, AZURE + "\n2023-11-16 19:17:05.5+01:00,7,1\n")
    assert columns(found, "arrival_ns")[-1] == (1_520_040_000,)


@pytest.mark.parametrize("text", [MOONCAKE, AZURE + "\n", VIDUR, LLMSERVINGSIM])
def test_a_trace_cut_anywhere_gives_its_whole_requests(tmp_path: Path, text: str) -> None:
    whole = columns(trace(tmp_path, text), "prompt_tokens")
    for size in range(text.index("\n") + 1, len(text), 7):
        packed = gzip.compress(text[:size].encode())
        (tmp_path / "cut").write_bytes(packed[:-9])
        try:
            found = columns(read_any([tmp_path / "cut"], KEY, Draw()), "prompt_tokens")
        except AskedWrongly as error:
            assert "without any request" in str(error) or "no trace we know" in str(error)
            continue
        assert found == whole[: len(found)]


def test_a_begun_line_of_a_cut_packed_file_does_not_count(tmp_path: Path) -> None:
    packed = gzip.compress(AZURE.encode(), mtime=0)
    (tmp_path / "cut.gz").write_bytes(packed[:-8])           # the trailer is gone: what came before may go on
    found = read_any([tmp_path / "cut.gz"], KEY, Draw())
    assert columns(found, *LENGTHS) == [(0, 4808, 10)]
    assert any("is cut or damaged" in note for note in found.about.notes)


def test_the_last_line_of_a_cut_plain_file_is_counted_as_cut(tmp_path: Path) -> None:
    assert trace(tmp_path, MOONCAKE[:-20]).about.left_out == {"cut": 1}
    assert trace(tmp_path, AZURE[:-3]).about.left_out == {"cut": 1}


def test_a_line_without_end_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.workload.lines.MOST_BYTES", 1000)
    found = trace(tmp_path, MOONCAKE + "x" * 5000 + "\n" + MOONCAKE)
    assert (len(found), found.about.left_out) == (6, {"too long a line": 1})


NO_TRACES = ("", "\n\n", "a text\n", "{}", '{"a": 1}\n', "a,b,c\n1,2,3\n", "\0\1\2", TRACE, DATASET)


@pytest.mark.parametrize("text", NO_TRACES)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AskedWrongly, match=r"no trace we know|half of a ServeGen client"):
        trace(tmp_path, text)


@pytest.mark.parametrize("path", ["gone", "."])
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, path: str) -> None:
    with pytest.raises(AskedWrongly, match="cannot read"):
        read_any([tmp_path / path], KEY, Draw())


def test_a_trace_without_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="without any request: no line after the first"):
        trace(tmp_path, AZURE.split("\r\n")[0] + "\n")


PUBLIC = (("azure_llm_2023_code.csv.gz", 8819), ("llmservingsim_example_trace.jsonl", 10),
          ("mooncake_fast25_conversation_trace.jsonl.gz", 12031), ("sharegpt_llama31_8b_300_sps10_lengths.csv", 300),
          ("vidur_arxiv_summarization_lengths.csv.gz", 28257))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), PUBLIC)
def test_every_public_trace_imports_whole(tmp_path: Path, name: str, count: int) -> None:
    found = read_any([shared_data(f"workload_traces/{name}")], KEY, Draw())
    assert (len(found), found.about.left_out) == (count, {})
    write(found, tmp_path / "w")
    again = read(tmp_path / "w")
    assert again.about == found.about
    assert again.requests.equals(found.requests)


def test_a_public_trace_has_the_lengths_and_prefixes_of_its_lines() -> None:
    path = shared_data("workload_traces/mooncake_fast25_conversation_trace.jsonl.gz")
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    wanted = [(x["timestamp"] * 1_000_000, x["input_length"], x["output_length"], x["hash_ids"]) for x in lines]
    assert columns(read_any([path], KEY, Draw()), *LENGTHS, "blocks") == wanted


@pytest.mark.parametrize("text", [MOONCAKE, AZURE, BURSTGPT, SHAREGPT, VIDUR, LLMSERVINGSIM])
def test_damage_anywhere_is_refused_or_counted_and_never_more_than_its_lines(tmp_path: Path, text: str) -> None:
    """A number changed into another is still one; what is refused here is what no request can be."""
    whole = len(trace(tmp_path, text))
    for at in range(0, len(text), 5):
        for odd in ("-", "9" * 30, "\0", '"', "1e99", "\n"):
            try:
                found = trace(tmp_path, text[:at] + odd + text[at + 1 :])
            except AskedWrongly:
                continue
            assert found.requests.column("prompt_tokens").to_numpy().min() > 0
            assert len(found) + sum(found.about.left_out.values()) == found.about.read_count
            assert whole - 2 <= len(found) <= whole + 1

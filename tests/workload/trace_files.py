"""Traces written out by hand, and a way to read them."""

from __future__ import annotations

import gzip
from pathlib import Path

from pellucid.workload.file import Workload
from pellucid.workload.read_any import read_any
from pellucid.workload.servegen import Draw

KEY = b"a key for tests, of thirty-two b"
MOONCAKE = """\
{"timestamp": 0, "input_length": 1030, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 90, "output_length": 3, "hash_ids": [0]}
"""
AZURE = ("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n"
         "2023-11-16 18:17:04.0319600,3180,8")  # fmt: skip
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,0,1087,API log
"""
SHAREGPT = "arrival_time_ns,input_toks,output_toks\n46926808,2358,531\n347938951,1034,769\n"
VIDUR = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n2015,156,2171,12.9\n"
LLMSERVINGSIM = (
    f'{{"input_toks":40,"output_toks":70,"arrival_time_ns":46926808,"input_tok_ids":{list(range(40))}}}\n'
    f'{{"input_toks":33,"output_toks":9,"arrival_time_ns":46926908,"input_tok_ids":{list(range(20)) + [7] * 13}}}\n'
)
TRACE = "0,0,0,,0,0\n600,0.5,1.0,Gamma,1.0,2.0\n1200,1,2.0,Weibull,0.6,0.5\n"
DATASET = '{"0": {"input_tokens": "{}", "output_tokens": "{}"}, "600": {"input_tokens": "{100: 0.25, 200: 0.75}", "output_tokens": "{5: 1.0}"}}'  # noqa: E501


def trace(tmp_path: Path, text: str, *more: str, packed: bool = False) -> Workload:
    paths = [tmp_path / f"file-{i}" for i in range(1 + len(more))]
    for path, content in zip(paths, (text, *more), strict=True):
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    return read_any(paths, KEY, Draw())


def columns(workload: Workload, *names: str) -> list[tuple[object, ...]]:
    """Those columns, row by row."""
    return [tuple(row[n] for n in names) for row in workload.requests.to_pylist()]

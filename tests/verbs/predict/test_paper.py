"""The question that a user asks, whole: what the answer has, that it is consistent, and how it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer, PellucidError
from pellucid.sim.paper.cost import Api
from pellucid.verbs.predict.given import device_named, model_of
from pellucid.verbs.predict.paper import Question, predict_on_paper
from tests.physics import configs
from tests.physics.configs import Config


def saved(folder: Path, config: Config, name: str = "model") -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    return path


def answer(folder: Path, config: Config, gpu: str = "H200", **asked: Any) -> dict[str, Any]:
    return predict_on_paper(Question(saved(folder, config), gpu, **asked)).json()


def test_every_number_has_its_unit_and_every_row_the_same_columns(tmp_path: Path) -> None:
    found = answer(tmp_path, configs.QWEN3_30B, gpus_count=4, gpu_hour=3.5, api=Api(0.1, 0.4), target_ns=20e6)
    assert len({tuple(row) for row in found["rows"]}) == 1
    # In the currency that was given.
    named = {"price_least", "price_low", "price_high", "api_price", "prompt_price_least"}
    numbers = {key for row in found["rows"] for key, v in row.items() if isinstance(v, int | float)}
    assert numbers - found["units"].keys() == named & numbers
    json.dumps(found, allow_nan=False)


def test_bounds_are_around_what_was_seen(tmp_path: Path) -> None:
    row = answer(tmp_path, configs.QWEN3_8B, gpu_hour=3.5)["rows"][0]
    assert row["tpot_least_ns"] <= row["tpot_low_ns"] < row["tpot_high_ns"]
    assert row["output_low_per_s"] < row["output_high_per_s"] <= row["output_most_per_s"]
    assert row["prompt_price_least"] < row["price_least"] <= row["price_low"] < row["price_high"]
    assert row["decode_step_least_ns"] <= row["decode_step_in_turn_ns"]


@pytest.mark.parametrize("asked", [
    {"gpu": "B200"}, {"gpus_count": 2}, {"precision": "fp8"}, {"gpu": "H100 PCIe"},
], ids=["another GPU", "two GPUs", "another precision", "another chip of the name"])  # fmt: skip
def test_where_nothing_like_it_was_seen_there_is_no_range(tmp_path: Path, asked: dict[str, Any]) -> None:
    asked = {"gpu": "H200", **asked}
    gpu = "h100_pcie" if asked["gpu"] == "H100 PCIe" else asked["gpu"]
    found = answer(tmp_path, configs.LLAMA_8B, **{**asked, "gpu": gpu})
    best = found["rows"][0]
    assert (best["tpot_low_ns"], best["output_low_per_s"], best["price_low"]) == (None, None, None)
    assert best["output_most_per_s"] > 0


def test_two_models_are_compared_by_the_same_load(tmp_path: Path) -> None:
    other = saved(tmp_path, configs.DEEPSEEK_V2_LITE, "other")
    found = answer(tmp_path, configs.LLAMA_8B, against=other)
    assert [m["model"] for m in found["head"]["models"]] == ["model", "other"]
    assert {row["model"] for row in found["rows"]} == {"model", "other"}
    assert [m["kv_token_bytes"] for m in found["head"]["models"]] == [131_072, 31_104]
    assert [m["kinds"] for m in found["head"]["models"]] == [{"full": 32}, {"mla": 27}]


def test_a_reserve_that_is_given_makes_one_number_of_the_span(tmp_path: Path) -> None:
    row = answer(tmp_path, configs.QWEN3_8B, share_ratio=0.92, reserve_bytes=1.39 * 2**30)["rows"][0]
    assert row["kv_blocks_low_count"] == row["kv_blocks_high_count"]
    assert row["kv_blocks_low_count"] == pytest.approx(50_898, rel=0.01)      # what vLLM 0.24 made of it there


def test_unknown_keys_are_named_and_harmless(tmp_path: Path) -> None:
    plain = answer(tmp_path, configs.LLAMA_8B)
    strange = answer(tmp_path, {**configs.LLAMA_8B, "frobnication": 3, "rms_norm_eps": 1e-5})
    assert strange["head"]["models"][0]["unread"] == ["frobnication"]
    assert any("frobnication" in note for note in strange["notes"])
    assert [r["output_most_per_s"] for r in strange["rows"]] == [r["output_most_per_s"] for r in plain["rows"]]


def test_an_api_that_is_cheaper_at_any_traffic(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpu_hour": 3.5, "prompt_tokens": 1000, "output_tokens": 200}
    cheap, dear = (answer(tmp_path, configs.LLAMA_8B, api=Api(p, 4 * p), **asked)["rows"][0] for p in (0.001, 1.0))
    assert cheap["even_least_ratio"] > 1 > dear["even_least_ratio"]
    assert dear["api_price"] == pytest.approx((1000 * 1.0 + 200 * 4.0) / 200)


QUESTION = Question(Path("unused"), "H200")


@pytest.mark.parametrize(("config", "change", "kind", "words"), [
    (configs.LLAMA_8B, {"gpu": "H300"}, AskedWrongly, "is not in the catalogue"),
    (configs.LLAMA_8B, {"gpu": "A100"}, AskedWrongly, "could be a100_sxm_40 or"),
    (configs.LLAMA_8B, {"gpus_count": 0}, AskedWrongly, "--gpus 0"),
    (configs.LLAMA_8B, {"precision": "nvfp4"}, AskedWrongly, "Try: --precision nvfp4_weights"),
    (configs.LLAMA_8B, {"kv": "int3"}, AskedWrongly, "Known are bf16"),
    (configs.LLAMA_8B, {"drafts": 1}, AskedWrongly, "names no MTP heads"),
    (configs.LLAMA_8B, {"share_ratio": 1.2}, AskedWrongly, "--share 1.2"),
    (configs.LLAMA_8B, {"concurrency": 0}, AskedWrongly, "1 at least"),
    (configs.LLAMA_8B, {"concurrency": 10**9}, AskedWrongly, "at most"),
    (configs.LLAMA_8B, {"gpu_hour": -1.0}, AskedWrongly, "a price is not below 0"),
    (configs.LLAMA_8B, {"api": Api(0.0, 0.0)}, AskedWrongly, "compares with nothing"),
    ({**configs.LLAMA_8B, "model_type": "unheard_of"}, {}, CannotAnswer, "model_type 'unheard_of'"),
    ({**configs.LLAMA_8B, "hidden_size": None}, {}, CannotAnswer, "has no hidden_size"),
    ({**configs.LLAMA_8B, "num_hidden_layers": 2}, {"gpus_count": 3 * 16}, None, ""),
])  # fmt: skip
def test_what_cannot_be_answered_says_what_to_do(
    tmp_path: Path, config: Config, change: dict[str, Any], kind: type[PellucidError] | None, words: str
) -> None:
    question = replace(QUESTION, model=saved(tmp_path, config), **change)
    if kind is None:
        assert predict_on_paper(question).json()["rows"]
        return
    with pytest.raises(kind, match=words):
        predict_on_paper(question)


@pytest.mark.parametrize(("asked", "kind", "words"), [
    ({"placement": "TP3"}, CannotAnswer, r"TP3 .*cannot be cut in 3 equal parts. Possible with so many GPUs: DP3, PP3"),
    ({"placement": "TP2 EP2"}, CannotAnswer, "no experts to share out"),
    ({"placement": "TP4", "gpus_count": 8}, AskedWrongly, "is of 4 GPUs, and --gpus says 8"),
    ({"placement": "XP4"}, AskedWrongly, "'XP4' is not understood"),
    ({"placement": "TP2 TP4"}, AskedWrongly, "'TP4' is not understood"),
    ({"placement": "TP2 DP2 EP2"}, AskedWrongly, "which are 4. Try: TP2 DP2 EP4"),
    ({"placement": ""}, AskedWrongly, "--placement ''"),
], ids=lambda v: str(v.get("placement")) if isinstance(v, dict) else "")  # fmt: skip
def test_a_placement_that_cannot_be(
    tmp_path: Path, asked: dict[str, Any], kind: type[PellucidError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        answer(tmp_path, configs.LLAMA_8B, **asked)


def test_a_placement_that_is_asked_for_is_the_only_one(tmp_path: Path) -> None:
    found = answer(tmp_path, configs.QWEN3_30B, placement="dp2, tp2 ep4")
    assert [row["placement"] for row in found["rows"]] == ["TP2 DP2 EP4"]
    assert found["head"]["gpus_count"] == 4


@pytest.mark.parametrize(("text", "words"), [
    ("{", "not the JSON of a config.json"), ("[]", "a JSON object was expected"), (None, "Nothing is downloaded"),
])  # fmt: skip
def test_a_file_that_is_no_config(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AskedWrongly, match=words):
        model_of(path)


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    saved(tmp_path, configs.LLAMA_8B, "config")
    assert model_of(tmp_path).geometry == model_of(tmp_path / "config.json").geometry


@pytest.mark.parametrize(("text", "key"), [
    ("H200", "h200"), ("NVIDIA H200", "h200"), ("h100_sxm", "h100_sxm"), ("H100 SXM", "h100_sxm"),
    ("nvidia b200", "b200"), ("MI300X", "mi300x"),
])  # fmt: skip
def test_names_of_a_gpu(text: str, key: str) -> None:
    assert device_named(text).key == key


@pytest.mark.parametrize("text", ["H200 NVL", "H100", "GH200", ""])
def test_a_name_that_stands_for_another_chip_or_several_is_refused(text: str) -> None:
    with pytest.raises(AskedWrongly):
        device_named(text)


EVERY = {name: config for name, config in vars(configs).items() if isinstance(config, dict) and "model_type" in config}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("gpu", "gpus_count"), [
    ("h200", 2), pytest.param("h200", 8, marks=pytest.mark.slow), pytest.param("mi355x", 8, marks=pytest.mark.slow),
])  # fmt: skip
def test_every_family_has_an_answer_whose_bounds_are_bounds(
    tmp_path: Path, name: str, gpu: str, gpus_count: int
) -> None:
    asked = {"gpus_count": gpus_count, "prompt_tokens": 3000, "output_tokens": 100, "target_ns": 30e6}
    found = answer(tmp_path, EVERY[name], gpu, **asked)
    assert found["rows"]
    for row in found["rows"]:
        assert row["kv_low_bytes"] <= row["kv_high_bytes"]
        for prefix in ("", "target_"):
            if row[f"{prefix}requests_count"] is not None:
                assert row[f"{prefix}output_in_turn_per_s"] <= row[f"{prefix}output_most_per_s"] * (1 + 1e-9)
                assert row[f"{prefix}decode_step_least_ns"] <= row[f"{prefix}decode_step_in_turn_ns"] * (1 + 1e-9)
        assert (row["target_requests_count"] or 0) <= row["in_time_most_count"]

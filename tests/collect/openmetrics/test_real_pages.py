"""Every real page loads; what has no place in the catalog is little, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.catalog.load_series import find
from pellucid.collect.openmetrics.pair import parse_pair
from pellucid.collect.openmetrics.parse import Sample, parse
from pellucid.collect.openmetrics.saved import listed
from pellucid.collect.openmetrics.track import Tracker
from pellucid.collect.openmetrics.translate import Key, translate
from tests.collect.openmetrics.pages import files, page, pairs, text
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

SUFFIXES = ("_bucket", "_sum", "_count", "_created", "_total")


def families(samples: list[Sample], *prefixes: str) -> tuple[set[str], set[str]]:
    """Families with a place in the catalog, and those without."""
    names = {s.name for s in samples if s.name.startswith(prefixes)}
    without = {n for n in names if not find(n)}
    for suffix in SUFFIXES:
        without = {n.removesuffix(suffix) for n in without}
    return {found.name for n in names if (found := find(n))}, without


def all_samples() -> list[Sample]:
    samples = [s for p in files() for s in parse(text(p)).samples]
    both = [parse_pair(text(p)) for p in pairs()]
    return samples + [s for pair in both for moment in (pair.before, pair.after) for s in moment.samples]


def test_every_page_loads_without_a_damaged_line() -> None:
    damaged = {p.name: parse(text(p)).damaged_count for p in files()}
    damaged |= {p.name: parse_pair(text(p)).damaged_count() for p in pairs()}
    assert {name for name, count in damaged.items() if count} == set()
    assert len(damaged) > 60


@pytest.mark.parametrize("prefix", ["vllm:", "sglang:"])
def test_at_least_95_of_100_families_have_a_place(prefix: str) -> None:
    having, without = families(all_samples(), prefix)
    assert len(having) >= 50
    assert len(without) <= 0.05 * len(having | without), sorted(without)


def test_what_has_no_place_is_named_here() -> None:
    _, without = families(all_samples(), "vllm:", "sglang:", "llamacpp:", "DCGM_")
    assert without == {"sglang:new_token", "sglang:cached_token"}


def test_every_family_of_a_fresh_026_server_has_a_place() -> None:
    names = listed(shared_data("prometheus/vllm_metric_families_v0.26.0.txt").read_text())
    assert len(names) == 36
    assert [n for n in names if not find(n)] == []


def test_a_gpu_exporters_blank_is_missing_and_not_zero() -> None:
    told = translate(page("dcgm_exporter_readme.prom").samples, "gpu")
    assert told.blank_count == 1
    assert [(t.key.metric, t.value) for t in told.told] == [("gpu_sm_clock_hz", 139e6), ("gpu_memory_clock_hz", 405e6)]


def test_instances_of_a_shared_gpu_are_devices_of_their_own() -> None:
    told = translate(page("dcgm_netdata_synthetic.prom").samples, "gpu").told
    assert {t.key.device: t.value for t in told if t.key.metric == "gpu_busy_ratio"} == {"0": 0.8, "0/2": 0.6}


def test_a_hit_rate_in_percent_becomes_a_ratio() -> None:
    told = translate(page("issue_excerpts/sglang_2024_percent_hit_rate_pr1461.prom").samples, "a").told
    (rate,) = [t for t in told if t.key.metric == "prefix_hit_ratio"]
    assert rate.value == pytest.approx(0.87588, abs=1e-5)
    assert rate.key.model == "google/gemma-2-9b-it"


def test_a_hit_rate_that_is_a_ratio_stays_one() -> None:
    (rate,) = translate([Sample("sglang:cache_hit_rate", {"model_name": "m"}, 0.87)], "a").told
    assert rate.value == 0.87


def test_the_time_a_series_was_made_is_no_count() -> None:
    told = translate(page("issue_excerpts/vllm_created_series_issue617.prom").samples, "a")
    assert {t.key.metric for t in told.told} == {"request_choices_count"}
    assert list(told.created.values()) == [pytest.approx(1753795326.9)]


def test_the_size_of_the_cache_comes_from_the_configuration_on_the_page() -> None:
    told = translate(parse(text(shared_data("h200_vllm024/metrics_rate4.txt.gz"))).samples, "a")
    assert {t.key.metric: t.value for t in told.told if t.key.metric.startswith("kv_") and t.key.kind == "gauge"} == {
        "kv_total_blocks_count": 12000, "kv_block_tokens": 16, "kv_used_ratio": 0}  # fmt: skip
    assert told.speakers["a"].config["gpu_memory_utilization"] == "0.92"


def test_labels_tell_metrics_of_one_family_apart() -> None:
    told = translate(page("tensorrtllm_backend_readme.prom").samples, "a").told
    values = {t.key.metric: t.value for t in told}
    assert (values["waiting_count"], values["sequence_cap_count"], values["kv_used_ratio"]) == (0.0, 512.0, 0.4875)
    assert values["kv_block_tokens"] == 64


def test_pods_on_one_page_speak_for_themselves() -> None:
    told = translate(page("vllm_synthetic_two_pods.prom").samples, "a").told
    assert {t.key.process: t.value for t in told if t.key.metric == "kv_used_ratio"} == {"pod-0": 0.45, "pod-1": 0.55}


def test_the_model_is_named_without_the_path_to_it() -> None:
    told = translate(parse_pair(text(pairs()[0])).before.samples, "a").told
    assert {t.key.model for t in told if t.key.metric == "running_count"} == {"dsv4"}


def increases(before: Path, after: Path) -> dict[Key, float]:
    tracker = Tracker()
    for path in (before, after):
        told = translate(parse(text(path)).samples, "a")
        values = tracker.take(told.told, told.created)
    return values


def total(values: dict[Key, float], metric: str, kind: str = "counter") -> float:
    return sum(v for k, v in values.items() if (k.metric, k.kind) == (metric, kind))


def test_the_increases_of_a_load_are_what_its_client_sent() -> None:
    """gpt-oss-120b on an H200 with 256 requests at a time: 512 to warm up and 2,560 measured, says its author's log."""
    folder = shared_data("prometheus/gptoss120b_h200/results_specns1")
    values = increases(folder / "sweep_c256.before.prom.gz", folder / "sweep_c256.after.prom.gz")
    assert total(values, "finished_count") == total(values, "ttft_ns", "count") == 3072
    assert total(values, "http_responses_count") == 3072
    assert total(values, "preempted_count") == 62
    assert total(values, "accepted_by_position_tokens") == total(values, "accepted_tokens") == 1070543


@pytest.mark.parametrize("engine", ["agg_sglang_tp4", "agg_vllm_tp4"])
def test_two_engines_tell_the_same_things_in_the_same_words(engine: str) -> None:
    folder = shared_data(f"prometheus/minimax_gb300/{engine}")
    values = increases(folder / "conc32.before.prom.gz", folder / "conc32.after.prom.gz")
    assert total(values, "prompt_tokens") > total(values, "output_tokens") > 0
    assert total(values, "ttft_ns", "sum") / total(values, "ttft_ns", "count") > 1e6
    assert {k.metric for k in values} >= {"running_count", "waiting_count", "kv_used_ratio", "queue_ns", "itl_ns"}

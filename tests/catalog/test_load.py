from __future__ import annotations

import pytest

from pellucid.catalog.load import Knob, Metric, facts, knobs, metrics, read
from pellucid.core.units import unit_of

METRIC = '[a_ns]\nunit = "ns"\nbetter = "lower"\ndefinition = "d"\n'


def test_a_metric_is_read() -> None:
    assert read(METRIC, Metric, "m.toml")["a_ns"].better == "lower"


@pytest.mark.parametrize("text", [
    METRIC + 'colour = "red"\n', METRIC.replace("lower", "downwards"), '[a_ns]\nunit = "ns"\n', "[a_ns",
], ids=["unknown key", "unknown value", "missing key", "not TOML"])  # fmt: skip
def test_what_is_not_in_the_form_is_refused_with_the_files_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"m\.toml"):
        read(text, Metric, "m.toml")


def test_an_unknown_key_of_a_spelling_is_refused() -> None:
    text = """
        k = {unit = "x", meaning = "m", low = 1, high = 2, change = "live", fidelity = "lossless", cost = "c",
             couplings = [], spellings = [{engine = "e", flaw = "-x"}]}
    """.replace("\n", " ")
    with pytest.raises(ValueError, match="flaw"):
        read(text, Knob, "k.toml")


def test_a_metrics_unit_is_the_one_in_its_name() -> None:
    assert [n for n, m in metrics().items() if unit_of(n) != m.unit] == []


def test_every_knob_has_a_range_and_a_spelling() -> None:
    assert [n for n, k in knobs().items() if not k.low < k.high or not k.spellings] == []


def test_a_spelling_is_a_flag_or_a_variable_or_the_clients_not_two_of_them() -> None:
    """Or none of them, where a running engine alone takes it."""
    spelled = [(n, s, sum(map(bool, (s.flag, s.env, s.client)))) for n, k in knobs().items() for s in k.spellings]
    assert [n for n, s, count in spelled if count != 1 and not (s.probe and count == 0)] == []


def test_what_is_set_through_the_probe_is_a_fact_and_the_other_way_round() -> None:
    ours = {n for n, k in knobs().items() for s in k.spellings if s.probe}
    assert ours == {name.removeprefix("control.") for name in facts() if name.startswith("control.")}
    assert {k.live_as for k in knobs().values() if k.live_as} <= ours


def test_choices_have_places_and_nothing_else_has() -> None:
    assert {n for n, k in knobs().items() if bool(k.choices) != (k.unit == "choice")} == set()
    assert [n for n, k in knobs().items() if k.choices and (k.low, k.high) != (0, len(k.choices) - 1)] == []


def test_a_flag_looks_like_one() -> None:
    assert all(s.flag.startswith("--") for k in knobs().values() for s in k.spellings if s.flag)


def test_a_version_that_was_run_has_every_fact_once() -> None:
    ran = {(s.engine, s.version, s.device) for f in facts().values() for s in f.seen if s.basis == "run"}
    # One that came after a version ran there is known of it by signatures, until it runs there again.
    said = {name: [v for s in f.seen if (v := (s.engine, s.version, s.device)) in ran] for name, f in facts().items()}
    sometimes = {name for name, f in facts().items() if f.only_with}    # not stated where it was run without that
    assert len(ran) >= 2
    assert {n: sorted(c) for n, c in said.items() if n not in sometimes and sorted(c) != sorted(ran)} == {}
    assert {n: sorted(c) for n, c in said.items() if len(set(c)) != len(c)} == {}


def test_where_nothing_ran_no_device_is_named() -> None:
    seen = [s for f in facts().values() for s in f.seen]
    ran = {s.version for s in seen if s.basis == "run"}
    assert [s for s in seen if (s.device == "any") != (s.basis == "signatures" and s.version not in ran)] == []

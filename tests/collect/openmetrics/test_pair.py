"""Two pages in one file: what lies between them, and what is left of a damaged one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.collect.openmetrics.pair import is_pair, parse_pair, read_pair
from pellucid.store.schema import METRICS
from pellucid.store.write import Row
from tests.collect.openmetrics.pages import pairs, text

MADE = 'vllm:request_success_total{finished_reason="stop"}'
CUT = 'vllm:request_success_total{finished_reason="length"}'
NOW = "vllm:num_requests_running"


def saved(before: dict[str, float], after: dict[str, float]) -> str:
    return json.dumps({"n_series": 2, "before": before, "after": after, "delta": {MADE: 1e9}}, indent=1)


def increases(tmp_path: Path, written: str) -> dict[str | None, float]:
    """Finish reason → requests between the two."""
    rows: list[dict[str, object]] = []

    def append(table: str, row: Row) -> None:
        if table == "metrics":
            rows.append(dict(zip(METRICS.names(), row, strict=True)))

    (tmp_path / "pair.json").write_text(written)
    read_pair(tmp_path / "pair.json", append)
    return {r["part"]: r["value"] for r in rows if r["metric"] == "finished_count"}  # type: ignore[misc]


def test_what_lies_between_is_the_increase_and_a_series_of_the_second_alone_began_at_zero(tmp_path: Path) -> None:
    assert increases(tmp_path, saved({MADE: 3, NOW: 1}, {MADE: 10, CUT: 2, NOW: 0})) == {"stop": 7, "length": 2}


def test_a_series_that_the_first_moment_lost_has_no_increase(tmp_path: Path) -> None:
    whole = saved({CUT: 400, MADE: 3, NOW: 1}, {CUT: 402, MADE: 10, NOW: 0})
    assert increases(tmp_path, whole.replace("400", "4!0", 1)) == {"stop": 7}


@pytest.mark.parametrize("value", ["4O0", "40\ufffd", '400 "', "4.0.0"])
def test_a_value_that_is_not_whole_is_no_value_and_is_counted(value: str) -> None:
    pair = parse_pair(saved({MADE: 400, NOW: 1}, {NOW: 2}).replace("400", value, 1))
    assert [s.name for s in pair.before.samples] == [NOW]
    assert (pair.before.damaged_count, pair.after.samples[0].value) == (1, 2)


def test_a_value_nobody_saw_is_left_out_and_is_no_damage() -> None:
    pair = parse_pair(f'{{"before": {{"{NOW}": null}}, "after": {{"{NOW}": 2}}}}')
    assert (pair.before.samples, pair.after.samples[0].value, pair.damaged_count()) == ([], 2, 0)


def test_where_the_second_moment_lost_its_beginning_it_is_not_taken_for_the_first(tmp_path: Path) -> None:
    whole = saved({MADE: 3, NOW: 1}, {MADE: 10, NOW: 0})
    damaged = whole.replace('"after": {', '"af#er"!')
    assert [(s.name, s.value) for s in parse_pair(damaged).before.samples][1] == (NOW, 1)
    assert increases(tmp_path, damaged) == {}


@pytest.mark.parametrize("path", pairs(), ids=lambda p: p.name)
def test_however_much_of_a_real_pair_is_there_what_is_read_is_what_was_written(path: Path) -> None:
    whole = text(path)
    first, second = ({(s.name, *s.labels.items()): s.value for s in page.samples}
                     for page in (parse_pair(whole).before, parse_pair(whole).after))  # fmt: skip
    assert len(first) == len(second) == json.loads(whole)["n_series"]
    for part in (0.01, 0.2, 0.41, 0.6):
        pair = parse_pair(whole[: int(len(whole) * part)])
        assert pair.damaged_count() == 1
        assert {(s.name, *s.labels.items()): s.value for s in pair.before.samples}.items() <= first.items()
        assert {(s.name, *s.labels.items()): s.value for s in pair.after.samples}.items() <= second.items()


@pytest.mark.parametrize(
    "head",
    ["{}", '{"before": {}}', '{"before": {"x": 1}}', '{"before": "x"}', f'{{"{NOW}": 1}}', f'["before", "{NOW}"]'],
)
def test_other_json_is_no_pair(head: str) -> None:
    assert not is_pair(head.encode())


def test_a_pair_is_known_by_its_beginning() -> None:
    assert all(is_pair(text(path)[:20_000].encode()) for path in pairs())

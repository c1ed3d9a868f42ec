from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.core.settings import SETTINGS, home, number, setting


@pytest.mark.parametrize("bad", ["0", "-1", "soon", "nan", "inf", "1e999", "1,5", "5s"])
def test_a_bad_number_is_refused_with_its_name_and_unit(bad: str) -> None:
    with pytest.raises(AskedWrongly, match=r"PELLUCID_SEAL_S=.* is not a positive number of s \(default 600\)"):
        number("seal_s", {"PELLUCID_SEAL_S": bad})


def test_an_empty_variable_is_the_default() -> None:
    assert number("seal_s", {"PELLUCID_SEAL_S": ""}) == 600


def test_a_set_variable_counts() -> None:
    assert number("poll_s", {"PELLUCID_POLL_S": "0.25"}) == 0.25


@pytest.mark.parametrize("s", [s for s in SETTINGS if s.unit not in ("path", "text")], ids=lambda s: s.name)
def test_every_numeric_default_is_itself_valid(s: object) -> None:
    assert number(getattr(s, "name"), {}) > 0  # noqa: B009


def test_names_and_variables_are_said_once() -> None:
    assert len({s.name for s in SETTINGS}) == len({s.env for s in SETTINGS}) == len(SETTINGS)


def test_the_home_may_start_with_a_tilde() -> None:
    assert home({"PELLUCID_HOME": "~/x"}) == Path.home() / "x"
    assert setting("home", {}) == "~/.pellucid"

"""What is read from an engine's source is what its own Python finds; and minors of which only the wheel is here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pellucid.catalog.load import facts
from pellucid.collect.vllm.plan import plan
from tools.check_wheel import NotToBeHad, check, download
from tools.real_engine import ENVIRONMENT, OLDER, PYTHON
from tools.wheel.source import Source, open_source

NEXT, OLDEST = "0.33.0", "0.24.0"


def packages(python: Path) -> Source:
    (folder,) = (python.parents[1] / "lib").glob("python3*/site-packages")
    return open_source(folder)


@pytest.mark.parametrize("python", [PYTHON, OLDER], ids=["0.32", "0.28"])
def test_what_is_read_from_an_installed_engine_is_what_is_imported(python: Path) -> None:
    imported = plan(str(python), {**os.environ, **ENVIRONMENT})
    read = check(packages(python), [packages(PYTHON)])
    assert read["engine_version"] == imported["engine_version"]
    assert {n: f["state"] for n, f in read["facts"].items()} == {n: f["state"] for n, f in imported["facts"].items()}
    assert {n: f["hooks"] for n, f in read["facts"].items()} == {n: f["hooks"] for n, f in imported["facts"].items()}


def wheel_of(version: str, folder: Path) -> Path:
    """Where somebody looks after the index, as in CI, a wheel that is not to be had is a failure."""
    try:
        return download(version, folder)
    except NotToBeHad as error:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"no wheel of {version} from this index: {error}")


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_in_ci_a_wheel_that_is_not_to_be_had_is_a_failure(
    ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CI", ci), ("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match=f"no wheel of {NEXT}"):
        wheel_of(NEXT, tmp_path)


@pytest.mark.parametrize("version", [NEXT, OLDEST])
def test_a_minor_that_is_not_installed_has_what_the_committed_table_says(version: str, tmp_path: Path) -> None:
    wheel = wheel_of(version, tmp_path)
    found = check(open_source(wheel), [packages(PYTHON)])
    minor = version.rsplit(".", 1)[0]
    table = {name: s for name, f in facts().items() for s in f.seen if s.version == minor}
    assert found["engine_version"] == version
    assert {n: f["state"] for n, f in found["facts"].items()} == {n: table[n].state for n in found["facts"]}
    assert {n for n, s in table.items() if s.basis == "signatures"} <= found["facts"].keys()
    wheel.unlink()

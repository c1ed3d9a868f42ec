"""What is read from an engine's source is what its own Python finds; and a minor of which only the wheel is here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pellucid.catalog.load import facts
from pellucid.collect.vllm.plan import plan
from tools.check_wheel import NotToBeHad, check, download
from tools.real_engine import ENVIRONMENT, OLDER, PYTHON
from tools.wheel.source import Source, open_source

NEXT = "0.33.0"


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


def test_the_next_minor_has_what_the_committed_table_says(tmp_path: Path) -> None:
    try:
        wheel = download(NEXT, tmp_path)
    except NotToBeHad as error:
        pytest.skip(f"no wheel of {NEXT} from this index: {error}")
    found = check(open_source(wheel), [packages(PYTHON)])
    minor = NEXT.rsplit(".", 1)[0]
    table = {n: s.state for n, f in facts().items() for s in f.seen if s.basis == "signatures" and s.version == minor}
    assert found["engine_version"] == NEXT
    assert {n: f["state"] for n, f in found["facts"].items()} == table
    wheel.unlink()

"""What the doctor sees: this machine, a probe folder in use, a run, and an engine at rest."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.vllm.plan import plan
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.table import rows as table
from pellucid.testing.build import build_run
from pellucid.verbs.visible.doctor import Asked, doctor
from pellucid.verbs.visible.here import checks

VISIBLE = {"state": "visible", "reason": "", "collect": ""}
BLIND = {"state": "blind", "reason": "no GPU", "collect": "run on one"}


def asked(home: Path, folder: Path | None = None) -> Asked:
    return Asked(home, Path("/dev/shm"), folder, None, None)


def described(folder: Path, name: str, **what: Any) -> None:
    whole = {"role": name.split("-")[0], "state": "on", "reason": "", "engine": "vllm", "engine_version": "0.32.0"}
    (folder / f"{name}.json").write_text(json.dumps({**whole, "facts": {}, **what}))


def test_a_fact_that_one_process_sees_is_visible(tmp_path: Path) -> None:
    described(tmp_path, "worker-1", facts={"worker.times": BLIND, "device.time": BLIND})
    described(tmp_path, "worker-2", facts={"worker.times": VISIBLE, "device.time": BLIND})
    answer = doctor(asked(tmp_path, tmp_path))
    assert answer["visible"] == [{"id": "worker.times", "role": "worker"}]
    assert [(b["id"], b["reason"]) for b in answer["blind"]] == [("device.time", "no GPU")]


def test_a_process_whose_probe_is_off_is_blind_with_its_reason(tmp_path: Path) -> None:
    described(tmp_path, "worker-1", state="off", reason="no room")
    answer = doctor(asked(tmp_path, tmp_path))
    assert [(b["id"], b["reason"]) for b in answer["blind"]] == [("all of worker-1", "no room")]


def test_a_half_written_description_is_left_for_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "worker-1.json").write_text('{"role": ')
    assert doctor(asked(tmp_path, tmp_path))["visible"] == []


def test_the_last_word_of_a_process_about_a_fact_counts(tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "r1", {"facts": table("""process  role         fact        state    reason
                                                           core-1   engine_core  step.times  visible  -
                                                           core-1   engine_core  step.times  blind    switched off""")})
    answer = doctor(asked(tmp_path))
    assert (answer["visible"], answer["blind"][0]["reason"]) == ([], "switched off")


def test_cost_is_the_share_of_time_in_hooks_and_bytes_a_day(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "runs" / "r1", {
        "host": table("""process  time_ns     interval_ns  probe_ns
                         core-1   1000000000  1000000000   1000000
                         core-1   2000000000  1000000000   3000000"""),
        "steps": table("""process  step  start_ns    end_ns       probe_ns  running_count
                          core-1   1     1000000000  2000000000   4000      2
                          core-1   2     2000000000  11000000000  6000      4"""),
    })  # fmt: skip
    cost = doctor(asked(tmp_path))["cost"]
    size = sum(p.stat().st_size for p in folder.glob("*.parquet"))
    assert cost["processes"][0]["probe_ratio"] == pytest.approx(0.002)
    assert (cost["steps"]["probe_mean_ns"], cost["steps"]["running_mean_count"]) == (5000, 3)
    assert cost["disk"]["per_day_bytes"] == pytest.approx(size * 8640)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="no folder at"):
        doctor(asked(tmp_path, tmp_path / "nowhere"))


def test_a_home_or_tmpfs_that_does_not_do_says_what_would(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = {c["check"]: c for c in checks(tmp_path, tmp_path / "nowhere")}
    assert (state["home"]["state"], state["tmpfs"]["state"]) == ("ok", "missing")
    assert "PELLUCID_SHM" in state["tmpfs"]["do"]
    for no_home in (tmp_path / "file", Path("/proc/nowhere")):
        home = {c["check"]: c for c in checks(no_home, tmp_path)}["home"]
        assert home["state"] == "missing" and "PELLUCID_HOME" in home["do"]
    on_disk = {c["check"]: c for c in checks(tmp_path, Path("/proc"))}["tmpfs"]
    assert on_disk["state"] == "missing" and "/proc is on proc" in on_disk["says"]


def engine_python(tmp_path: Path, script: str) -> str:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n[ $1 = -c ] && exec {sys.executable} \"$@\"\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_plan_is_the_last_json_object_the_engines_python_prints(tmp_path: Path) -> None:
    answer = '{"engine": "vllm", "engine_version": "0.32.0", "facts": {"step.times": {"state": "visible"}}}'
    python = engine_python(tmp_path, f"echo 'INFO importing'; echo '{answer}'")
    assert plan(python, {})["facts"] == {"step.times": {"state": "visible"}}


@pytest.mark.parametrize("program", ["/bin/ls", "/bin/true", "/bin/cat", "/bin/sh"])
def test_a_program_that_is_no_python_cannot_answer(program: str) -> None:
    with pytest.raises(CannotAnswer, match=f"{program} is no Python. Try: --engine-python PATH"):
        plan(program, {})


def test_a_python_without_an_engine_cannot_answer(tmp_path: Path) -> None:
    bare = engine_python(tmp_path, f'exec {sys.executable} -I -S "$@"')    # no site-packages: no probe either
    for python, lacks in ((sys.executable, "has no vLLM"), (bare, "has no probe")):
        with pytest.raises(CannotAnswer, match=lacks):
            plan(python, os.environ)


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("echo \"No module named 'pellucid_probe'\" >&2; exit 1", CannotAnswer, "has no probe"),
        ("echo '{\"engine\": \"vllm\", \"engine_version\": \"\", \"facts\": {}}'", CannotAnswer, "has no vLLM"),
        ("echo 'boom' >&2; exit 1", Failed, "ended with an error: boom"),
        ("echo 'no json here'", Failed, "printed no JSON object"),
        pytest.param("sleep 5", Failed, "gave no answer", marks=pytest.mark.slow),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(tmp_path: Path, script: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        plan(engine_python(tmp_path, script), {"PATH": "/bin:/usr/bin"}, limit_s=1.0)

"""The command line as a user meets it, over runs built from literal rows.

Most of it through `main` in this process, which is quick; what is about a process (signals, pipes, what is loaded) in
one of its own.
"""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.core.run import RunInfo, write_info
from pellucid.core.table import rows as table
from pellucid.store.expire import Expiry, Retention
from pellucid.surface.cli import main
from pellucid.testing.build import build_run
from tests.diagnose.engine_model import Shape, serve, write_run
from tests.diagnose.test_scenarios import stream

pytestmark = pytest.mark.slow

HEAVY = ("duckdb", "pyarrow", "rich", "msgspec", "numpy")
TABLES = {
    "sources": table("""process        role         engine  engine_version  start_ns
                        engine_core-1  engine_core  vllm    0.32.0          1000000000"""),
    "steps": table("""process        step  start_ns    end_ns      execute_ns  running_count
                      engine_core-1  1     2000000000  2020000000  18000000    3
                      engine_core-1  2     2020000000  2060000000  -           4"""),
    "requests": table("""process        request  request_id  arrival_ns  first_delivered_ns  last_delivered_ns
                         engine_core-1  1        cmpl-a      2000000000  2081000000          2200000000
                         engine_core-1  2        cmpl-b      2010000000  -                   -"""),
    "facts": table("""process        fact         state  reason            collect
                      engine_core-1  device.time  blind  no device clock   run on a GPU"""),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build_run(tmp_path / "runs" / "r1", TABLES)
    return tmp_path


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def pellucid(home: Path, *args: str) -> Done:
    out, err, handler = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in (("PELLUCID_HOME", str(home)), ("COLUMNS", "100")):
            patch.setenv(name, value)
        try:
            code = main(args)
        except SystemExit as end:  # argparse's way out
            code = end.code if isinstance(end.code, int) else 1
        finally:
            signal.signal(signal.SIGINT, handler)
    return Done(code, out.getvalue(), err.getvalue())


def environ(home: Path) -> dict[str, str]:
    return {**os.environ, "PELLUCID_HOME": str(home), "COLUMNS": "100"}


def test_help_loads_no_database_and_no_terminal_library(tmp_path: Path) -> None:
    code = f"""if True:
        import sys
        from pellucid.surface.cli import main
        try:
            main(["--help"])
        except SystemExit:
            pass
        print([m for m in {HEAVY!r} if m in sys.modules])
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ(tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "usage: pellucid" in done.stdout


@pytest.mark.parametrize(
    "command", ["why", "run", "record", "top", "requests", "steps", "prefixes", "blocks", "speculation", "runs",
                "doctor"]
)
def test_every_command_has_help(tmp_path: Path, command: str) -> None:
    done = pellucid(tmp_path, command, "--help")
    assert (done.returncode, f"usage: pellucid {command}" in done.stdout) == (0, True)


def test_json_is_rows_and_units(home: Path) -> None:
    done = pellucid(home, "requests", "--json", "--sort", "ttft_ns", "--columns", "request_id,ttft_ns")
    assert json.loads(done.stdout) == {
        "rows": [{"request_id": "cmpl-a", "ttft_ns": 81_000_000}, {"request_id": "cmpl-b", "ttft_ns": None}],
        "units": {"ttft_ns": "ns"},
    }
    assert (done.returncode, done.stderr) == (0, "")


def test_csv_leaves_the_missing_empty(home: Path) -> None:
    done = pellucid(home, "steps", "--csv", "--columns", "step,execute_ns")
    assert done.stdout == "step,execute_ns\n1,18000000\n2,\n"


def test_a_table_has_units_in_its_cells_and_a_dash_for_the_missing(home: Path) -> None:
    lines = pellucid(home, "steps", "--columns", "step,start_ns,execute_ns").stdout.splitlines()
    assert [line.split() for line in lines[-2:]] == [["1", "+1.000s", "18", "ms"], ["2", "+1.020s", "–"]]


def test_a_list_that_was_cut_says_so_on_stderr(home: Path) -> None:
    done = pellucid(home, "steps", "--csv", "--limit", "1")
    assert (len(done.stdout.splitlines()), done.stderr) == (2, "pellucid: 1 of 2 steps; --limit 0 shows all\n")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("steps", "--sort", "exec_ns"), 2, "no column 'exec_ns'; nearest: execute_ns"),
        (("steps", "--where", "step > 1; DROP"), 2, "--where"),
        (("steps", "--desc"), 2, "--desc needs --sort"),
        (("steps", "--since", "soon"), 2, "is not a span of time"),
        (("steps", "--limit", "-1"), 2, "is not a number of rows"),
        (("steps", "--limit", "9" * 25), 2, "is not a number of rows"),
        (("steps", "--limit", "²"), 2, "is not a number of rows"),
        (("why", "--request", ""), 2, "no request ''"),
        (("why", "--request", "\udcff"), 2, "--request is not valid UTF-8"),
        (("why", "--run", "nope"), 2, "no run has that id"),
        (("why", "--request", "a", "--since", "5m"), 2, "give one of them"),
        (("why", "--spans", "x.json"), 2, "give --request ID too"),
        (("why", "--request", "cmpl-a", "--spans", "/nowhere/x"), 2, "cannot read /nowhere/x: No such file"),
        (("record", "/nowhere"), 2, "no folder at /nowhere"),
        (("run", "--"), 2, "needs the engine's command"),
        (("doctor", "--plan", "--engine-python", "/nowhere/python"), 3, "cannot run /nowhere/python"),
        (("doctor", "--plan", "--engine-python", "/bin/ls"), 3, "/bin/ls is no Python"),
        (("frobnicate",), 2, "invalid choice"),
    ],
)
def test_a_wrong_question_is_answered_in_words_without_a_trace(
    home: Path, args: tuple[str, ...], code: int, says: str
) -> None:
    done = pellucid(home, *args)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["why", "top", "requests", "steps"])
def test_without_any_recording_it_cannot_answer(tmp_path: Path, command: str) -> None:
    done = pellucid(tmp_path, command)
    assert done.returncode == 3
    assert "no recording in" in done.stderr


def test_an_empty_run_is_answered_without_invented_numbers(tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "r1", {})
    why = pellucid(tmp_path, "why")
    assert why.returncode == 0 and why.stdout.startswith("Nothing to judge")
    assert "no step yet" in pellucid(tmp_path, "top", "--once").stdout
    assert pellucid(tmp_path, "steps").returncode == 3


def test_why_fits_a_screen_and_names_what_is_blind(home: Path) -> None:
    text = pellucid(home, "why").stdout
    assert len(text.splitlines()) <= 40 and max(map(len, text.splitlines())) <= 100
    assert "device.time" in text


def test_why_as_json_has_the_keys_others_rely_on(home: Path) -> None:
    answer = json.loads(pellucid(home, "why", "--json").stdout)
    assert {"verdict", "findings", "clear", "blind"} <= set(answer)
    assert {"id": "device.time", "reason": "no device clock", "collect": "run on a GPU"} in answer["blind"]


def test_runs_lists_them_and_says_when_there_is_none(home: Path, tmp_path: Path) -> None:
    write_info(build_run(home / "runs" / "r0", {}), RunInfo("r0", 1, [], ""))
    rows = json.loads(pellucid(home, "runs", "--json").stdout)["rows"]
    assert [(r["run_id"], r["state"], r["steps_count"]) for r in rows] == [("r1", "complete", 2), ("r0", "empty", None)]
    assert "no recording in" in pellucid(tmp_path / "other", "runs").stderr


def test_top_once_is_one_look(home: Path) -> None:
    done = pellucid(home, "top", "--once")
    assert done.returncode == 0
    assert "cmpl-a" in done.stdout and "vllm 0.32.0" in done.stdout
    look = json.loads(pellucid(home, "top", "--json").stdout)
    assert look["load"]["steps_per_s"] == pytest.approx(2 / 0.200)  # from the first step to the last delivery


def test_requests_that_were_not_seen_are_not_zero_requests(tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "r1", {t: TABLES[t] for t in ("sources", "steps")})
    for command in ("why", "top"):
        text = pellucid(tmp_path, command).stdout
        assert "requests not seen" in text and "0 requests" not in text
    load = json.loads(pellucid(tmp_path, "why", "--json").stdout)["load"]
    assert [load[f"{which}_count"] for which in ("requests", "aborted", "unfinished")] == [None, None, None]
    listed = json.loads(pellucid(tmp_path, "runs", "--json").stdout)["rows"]
    assert [(r["requests_count"], r["steps_count"]) for r in listed] == [(None, 2)]
    assert "–" in pellucid(tmp_path, "runs").stdout.splitlines()[1].split()
    asked = pellucid(tmp_path, "why", "--request", "cmpl-a")
    assert (asked.returncode, "requests not seen" in asked.stderr) == (2, True)
    rows = pellucid(tmp_path, "requests")
    assert (rows.returncode, "has 2 steps and no row of requests" in rows.stderr) == (3, True)


def test_a_span_without_requests_has_zero_of_them(home: Path) -> None:
    load = json.loads(pellucid(home, "why", "--since", "45ms", "--json").stdout)["load"]
    assert (load["steps_count"], load["requests_count"]) == (1, 0)


def test_steps_that_have_expired_are_said_to_have_wherever_they_are_asked_for(tmp_path: Path) -> None:
    home = tmp_path
    run = build_run(home / "runs" / "r1", {t: TABLES[t] for t in ("sources", "steps", "requests")})
    Expiry(run, Retention(retain_bytes=1)).tick(0)
    top = pellucid(home, "top", "--once").stdout
    assert "2 steps do not read, or have expired" in top and "computed nothing" not in top
    assert "complete, 2 steps by the minute only" in pellucid(home, "runs").stdout
    assert "the steps have expired" in pellucid(home, "why").stdout
    rows = pellucid(home, "steps")
    assert (rows.returncode, "no row of steps: they have expired" in rows.stderr) == (3, True)


def test_a_move_is_said_plainly_where_no_source_tells_the_engine(tmp_path: Path) -> None:
    rows = serve(Shape(cap=4), stream(150, 250, 60, 60))
    del rows["sources"]
    write_run(tmp_path / "runs" / "r1", rows)
    for command in ("why", "top"):
        text = " ".join(pellucid(tmp_path, command).stdout.split())
        assert "raise max_running_requests to 42 requests (our name for it: the engine was not seen" in text


def test_the_doctor_shows_what_is_blind_and_how_to_see_it(home: Path) -> None:
    answer = json.loads(pellucid(home, "doctor", "--json").stdout)
    blind = {"id": "device.time", "role": "", "reason": "no device clock", "collect": "run on a GPU"}
    assert answer["blind"] == [blind]
    assert answer["cost"]["steps"] is None
    assert "not measured" in pellucid(home, "doctor").stdout


def test_the_doctor_says_which_load_the_budget_of_a_step_is_for(tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "r1", {"steps": table("""process  step  start_ns  end_ns   probe_ns  running_count
                                                           core-1   1     0         1000000  61000     4""")})
    text = " ".join(pellucid(tmp_path, "doctor").stdout.split())
    assert "61 µs in our hooks on average, 61 µs at p99, with 4 requests running. The budget is for" in text
    assert "256 running (bench/probe_cost.py)" in text


def test_the_doctor_without_any_engine_says_so(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "doctor")
    assert done.returncode == 0
    assert "no recording and no probe folder to look at" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(home: Path) -> None:
    command = f"{sys.executable} -m pellucid.surface.cli steps --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=environ(home), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("redirect", "code", "says"),
    [(">/dev/full", 1, "pellucid: [Errno 28] No space left on device\n"), (">&-", 0, "")],
)
@pytest.mark.parametrize("command", ["why", "steps --json"])
def test_an_output_that_takes_nothing_leaves_no_trace(
    home: Path, command: str, redirect: str, code: int, says: str
) -> None:
    line = f"{sys.executable} -m pellucid.surface.cli {command} {redirect}"
    done = subprocess.run(["bash", "-c", line], env=environ(home), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, says)


def test_a_locale_without_our_letters_gets_question_marks(home: Path) -> None:
    command = [sys.executable, "-m", "pellucid.surface.cli", "why"]
    env = environ(home) | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"") and b" ? " in done.stdout and done.stdout.isascii()


def test_ctrl_c_ends_top_with_130_and_no_trace(home: Path) -> None:
    master, slave = pty.openpty()
    top = subprocess.Popen(
        [sys.executable, "-m", "pellucid.surface.cli", "top", "--interval", "100ms"],
        env={**environ(home), "TERM": "xterm"}, stdout=slave, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = b""
    while seen.count(b"cmpl-a") < 3:  # it is in its loop
        seen += os.read(master, 65536)
    top.send_signal(signal.SIGINT)
    _, err = top.communicate(timeout=30)
    os.close(master)
    os.close(slave)
    assert (top.returncode, err) == (130, "")


def test_the_reference_page_is_what_the_parsers_say() -> None:
    tool = Path(__file__).parents[2] / "tools" / "gen_cli_docs.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_prefixes_say_both_hit_rates_with_their_parts(tmp_path: Path) -> None:
    lookups = table("""process        request  family  time_ns     prompt_tokens  cached_tokens  evicted_tokens
                       engine_core-1  1        A       2000000000  1000           640            320
                       engine_core-1  2        A       2010000000  1000           0              0""")
    build_run(tmp_path / "runs" / "r1", TABLES | {"prefix_lookups": lookups})
    done = pellucid(tmp_path, "prefixes")
    assert done.returncode == 0
    assert "found 640 of 2,000 prompt tokens (32%), in 1 of 2 requests (50%)" in done.stderr
    assert "an endless cache would have found 960" in done.stderr
    reasons = json.loads(pellucid(tmp_path, "prefixes", "--by", "reason", "--json").stdout)["rows"]
    assert reasons[0]["reason"] == "cached"


def test_speculation_says_of_each_missing_figure_why(tmp_path: Path) -> None:
    """Two tasks; the time to propose was seen in the steps of one, and no step tells what a draft token costs."""
    drafts = table("""process        task  position  drafted_count  accepted_count  output_tokens  gap_ns  step_draft_ns
                      engine_core-1  chat  1         40             10              50             9000    900
                      engine_core-1  copy  1         40             30              70             9000    -""")
    facts = table("""process   fact                 state  reason
                     worker-1  worker.draft_memory  blind  no model here""")
    build_run(tmp_path / "runs" / "r1", TABLES | {"speculation": drafts, "facts": facts})
    done = pellucid(tmp_path, "speculation")
    assert done.returncode == 0
    assert [line.removeprefix("pellucid: ") for line in done.stderr.splitlines() if "blind" in line] == [
        "blind: speedup: no steps without drafts to compare with, and no line through step time over tokens",
        "blind: time of copy: no worker said how long it proposed",
        "blind: memory: no model here",
    ]
    found = json.loads(pellucid(tmp_path, "speculation", "--where", "task = chat", "--json").stdout)
    assert [(r["task"], r["accepted_ratio"], r["draft_time_ratio"]) for r in found["rows"]] == [("chat", 0.25, 0.1)]
    assert found["rows"][0]["memory_note"] == "no model here"
    assert found["units"]["speedup_ratio"] == "ratio"


def test_blocks_are_summed_up_by_what_became_of_them(tmp_path: Path) -> None:
    lives = table("""process        tier    block_hash  cached_ns   last_used_ns  removed_ns  removed_reason  hits_count
                     engine_core-1  device  a           1000000000  1000000000    3000000000  evicted         0""")
    build_run(tmp_path / "runs" / "r1", TABLES | {"kv_residency": lives})
    found = json.loads(pellucid(tmp_path, "blocks", "--json").stdout)
    assert (found["rows"][0]["fate"], found["rows"][0]["idle_p50_ns"]) == ("evicted", 2e9)
    assert found["units"]["idle_p50_ns"] == "ns"

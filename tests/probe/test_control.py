"""Live control: who may change what, for how long, and an engine that keeps its values whatever lies in the folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe.control import ASK, FOLDER, MOST_BYTES, MOST_LEASE_NS, Control, Knob, Refused, read_key, signed

S = 1_000_000_000
KEY, OTHER = bytes(range(32)), bytes(32)
NAME, START_NS = "engine_core-7", 5 * S


class Cap(Knob):
    """A number from 1 to 16, kept in a list."""

    def __init__(self) -> None:
        self.values = [16]

    def take(self, asked: Any) -> Any:
        if type(asked) is not int or not 1 <= asked <= 16:
            raise Refused(f"must be {self.bound()}, not {asked!r}")
        return asked

    def read(self) -> Any:
        return self.values[-1]

    def write(self, value: Any) -> None:
        self.values.append(value)

    def bound(self) -> str:
        return "a whole number from 1 to 16"


@dataclass(slots=True)
class Bench:
    """A process under control, its clock, and somebody who asks."""

    folder: Path
    now_ns: int = 100 * S
    cap: Cap = field(default_factory=Cap)
    other: Cap = field(default_factory=Cap)
    control: Control = field(init=False)

    def __post_init__(self) -> None:
        self.control = Control(str(self.folder), NAME, START_NS, KEY, lambda: self.now_ns)
        self.control.knobs.update(cap=self.cap, other=self.other)
        self.control.unavailable["gone"] = "this engine has none"

    def write(self, data: str | bytes) -> None:
        new = self.folder / FOLDER / "new"
        new.write_bytes(data.encode() if isinstance(data, str) else data)
        new.replace(self.folder / FOLDER / ASK)

    def body(self, action: str, /, **changed: Any) -> dict[str, Any]:
        self.now_ns += 1
        to = {NAME: {"start_ns": START_NS, **changed.pop("mine", {})}}
        return {"id": "a1", "action": action, "holder": "h1", "by": "a test", "sequence": self.now_ns, "to": to,
                "until_ns": self.now_ns + 60 * S, **changed}  # fmt: skip

    def ask(self, action: str, /, key: bytes = KEY, **changed: Any) -> dict[str, Any]:
        self.write(signed(key, "ask", self.body(action, **changed)))
        self.control.look()
        return self.answer()

    def set(self, value: Any = 4, knob: str = "cap", **changed: Any) -> dict[str, Any]:
        return self.ask("set", mine={"values": {knob: value}}, **changed)

    def answer(self) -> dict[str, Any]:
        outer = json.loads((self.folder / FOLDER / f"{NAME}.json").read_text())
        assert json.loads(signed(KEY, "answer", json.loads(outer["body"])))["mac"] == outer["mac"]
        said: dict[str, Any] = json.loads(outer["body"])
        return said

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * S)
        self.control.look()

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / FOLDER / f"{NAME}.audit.jsonl").read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_value_is_set_and_both_are_answered_and_noted(bench: Bench) -> None:
    said = bench.set(4)
    assert (said["state"], said["old"], said["new"], bench.cap.read()) == ("done", {"cap": 16}, {"cap": 4}, 4)
    assert said["now"]["knobs"]["cap"] == {"value": 4, "bound": "a whole number from 1 to 16"}
    assert (said["now"]["lease"]["by"], said["now"]["lease"]["before"]) == ("a test", {"cap": 16})
    (line,) = bench.audit()
    assert (line["action"], line["by"], line["old"], line["new"], line["result"]) == (
        "set", "a test", {"cap": 16}, {"cap": 4}, "done")  # fmt: skip


def test_when_the_lease_is_over_the_value_of_before_is_back(bench: Bench) -> None:
    bench.set(4)
    bench.set(2)
    bench.later(59)
    assert bench.cap.read() == 2
    bench.later(2)
    assert bench.cap.values == [16, 4, 2, 16]
    assert [line["action"] for line in bench.audit()] == ["set", "set", "expired"]
    assert bench.ask("renew")["reason"].startswith("nothing is held")
    assert bench.ask("revert")["state"] == "done"       # whoever reverts late need not care


def test_a_renewed_lease_lasts_longer(bench: Bench) -> None:
    bench.set(4)
    bench.later(50)
    assert bench.ask("renew")["state"] == "done"
    bench.later(50)
    assert bench.cap.read() == 4
    bench.later(11)
    assert bench.cap.read() == 16


def test_what_is_kept_outlives_its_lease_until_it_is_undone(bench: Bench) -> None:
    bench.set(4)
    bench.ask("keep")
    bench.set(2)
    bench.ask("keep")
    bench.later(1000)
    assert bench.cap.read() == 2
    assert bench.ask("undo")["new"] == {"cap": 4}
    assert bench.ask("undo")["new"] == {"cap": 16}
    assert "nothing was kept" in bench.ask("undo")["reason"]


def test_reverting_puts_back_all_or_what_is_named(bench: Bench) -> None:
    bench.ask("set", mine={"values": {"cap": 4, "other": 3}})
    assert bench.ask("revert", mine={"only": ["other"]})["new"] == {"other": 16}
    assert (bench.cap.read(), bench.other.read()) == (4, 16)
    assert bench.ask("revert")["new"] == {"cap": 16}
    assert bench.answer()["now"]["lease"] is None


@pytest.mark.parametrize("value", [0, 17, True, "4", 4.0, None, [4], -1, 10**30, {"a": 1}])
def test_a_value_out_of_bounds_or_of_another_type_is_not_written(bench: Bench, value: Any) -> None:
    said = bench.set(value)
    assert (said["state"], "from 1 to 16" in said["reason"], bench.cap.values) == ("refused", True, [16])
    assert bench.audit()[-1]["result"] == "refused"


def test_all_of_it_is_done_or_nothing(bench: Bench) -> None:
    assert bench.ask("set", mine={"values": {"cap": 4, "other": 99}})["state"] == "refused"
    assert (bench.cap.values, bench.answer()["now"]["lease"]) == ([16], None)


@pytest.mark.parametrize(("knob", "says"), [("gone", "this engine has none"), ("colour", "is no live knob")])
def test_a_knob_that_is_not_there_is_refused_with_the_reason(bench: Bench, knob: str, says: str) -> None:
    assert says in bench.set(4, knob)["reason"]


@pytest.mark.parametrize("action", ["set", "renew", "keep", "revert", "undo"])
def test_two_at_once_are_one_after_the_other(bench: Bench, action: str) -> None:
    bench.set(4)
    said = bench.ask(action, holder="h2", mine={"values": {"cap": 8}})
    assert (said["state"], "held by a test for 60 s" in said["reason"], bench.cap.read()) == ("refused", True, 4)
    bench.later(60)
    assert bench.set(8, holder="h2")["state"] == "done"


def test_without_the_key_nothing_is_done(bench: Bench) -> None:
    assert "not signed with this engine's key" in bench.set(4, key=OTHER)["reason"]
    text = json.loads(signed(KEY, "ask", bench.body("set", mine={"values": {"cap": 4}})))
    bench.write(json.dumps({**text, "body": text["body"].replace('"cap": 4', '"cap": 5')}))
    bench.control.look()
    bench.write(signed(KEY, "answer", bench.body("set", mine={"values": {"cap": 4}})))
    bench.control.look()
    assert (bench.cap.values, {line["result"] for line in bench.audit()}) == ([16], {"refused"})


def test_a_request_is_taken_once(bench: Bench) -> None:
    old = signed(KEY, "ask", bench.body("set", mine={"values": {"cap": 4}}))
    bench.write(old)
    bench.control.look()
    bench.ask("revert")
    for _ in range(2):
        bench.write(old)
        bench.control.look()
    assert (bench.cap.read(), "taken already" in bench.answer()["reason"]) == (16, True)


@pytest.mark.parametrize(("changed", "says"), [
    ({"sequence": 60 * S}, "older than 30 s"), ({"sequence": 200 * S}, "its clock is another"),
    ({"sequence": "1"}, "taken already"), ({"sequence": True}, "taken already"),
    ({"to": {NAME: {"start_ns": 4 * S, "values": {"cap": 4}}}}, "another process of this name"),
    ({"to": {NAME: 7}}, "another process"), ({"to": []}, "to whom"), ({"id": "../x"}, "id must be"),
    ({"holder": ""}, "holder must be"), ({"action": "reboot"}, "action must be"), ({"until_ns": 1}, "until_ns must be"),
    ({"until_ns": 101 * S + MOST_LEASE_NS}, "until_ns must be"), ({"until_ns": None}, "until_ns must be"),
])  # fmt: skip
def test_a_signed_request_has_to_make_sense_too(bench: Bench, changed: dict[str, Any], says: str) -> None:
    said = bench.set(4, **changed)
    assert (said["state"], says in said["reason"], bench.cap.values) == ("refused", True, [16])


def test_a_request_for_others_is_not_ours_to_answer(bench: Bench) -> None:
    bench.write(signed(KEY, "ask", bench.body("set", to={"engine_core-8": {"start_ns": 1, "values": {"cap": 4}}})))
    bench.control.look()
    assert (bench.cap.values, (bench.folder / FOLDER / f"{NAME}.json").exists()) == ([16], False)


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"7", b"null", b'"x"', b"\x00" * 100, b"\xff\xfe", b'{"body": 7, "mac": ""}', b'{"mac": "x"}',
    b"[" * 20_000, b'{"body": "{}", "mac": "' + b"a" * MOST_BYTES + b'"}',
], ids=range(12))  # fmt: skip
def test_garbage_does_nothing_and_the_next_request_is_taken(bench: Bench, data: bytes) -> None:
    bench.write(data)
    bench.control.look()
    assert bench.cap.values == [16]
    assert bench.set(4)["state"] == "done"


def test_a_file_that_is_half_written_is_taken_when_it_is_whole(bench: Bench) -> None:
    text, path = signed(KEY, "ask", bench.body("set", mine={"values": {"cap": 4}})), bench.folder / FOLDER / ASK
    path.write_text(text[:50])
    bench.control.look()
    assert bench.cap.values == [16]
    path.write_text(text)
    bench.control.look()
    assert bench.cap.read() == 4


def test_neither_a_link_nor_a_pipe_nor_a_folder_holds_the_thread_up(bench: Bench, tmp_path: Path) -> None:
    path = bench.folder / FOLDER / ASK
    (tmp_path / "elsewhere").write_text(signed(KEY, "ask", bench.body("set", mine={"values": {"cap": 4}})))
    path.symlink_to(tmp_path / "elsewhere")
    bench.control.look()
    path.unlink()
    os.mkfifo(path)
    bench.control.look()
    path.unlink()
    path.mkdir()
    bench.control.look()
    assert bench.cap.values == [16]


def test_where_writing_fails_in_the_middle_nothing_of_it_stays(bench: Bench) -> None:
    class Broken(Cap):
        def write(self, value: Any) -> None:
            raise AttributeError(f"cannot be {value}")

    bench.control.knobs["other"] = Broken()
    said = bench.ask("set", mine={"values": {"cap": 4, "other": 4}})
    assert (said["state"], said["now"]["lease"], bench.cap.values) == ("failed", None, [16, 4, 16])


def test_what_cannot_be_noted_is_not_done_but_what_is_lent_comes_back(bench: Bench) -> None:
    bench.set(4)
    audit = bench.folder / FOLDER / f"{NAME}.audit.jsonl"
    audit.unlink()
    audit.mkdir()
    assert "audit file cannot be written" in bench.set(2)["reason"]
    assert bench.cap.read() == 4
    bench.later(61)
    assert bench.cap.read() == 16


@pytest.mark.parametrize(("mode", "size", "says"), [
    (0o640, 32, "can be used by others"), (0o604, 32, "can be used by others"), (0o600, 31, "holds 31 bytes"),
    (0o600, 5000, "a key has 32 to 4096"),
])  # fmt: skip
def test_a_key_that_is_no_secret_opens_nothing(tmp_path: Path, mode: int, size: int, says: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * size)
    path.chmod(mode)
    with pytest.raises(ValueError, match=says):
        read_key(str(path))


def test_a_key_is_a_file_and_no_link_to_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(KEY)
    assert read_key(str(path)) == KEY
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="link"):
        read_key(str(tmp_path / "link"))

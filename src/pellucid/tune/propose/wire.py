"""What is said with an outside program, one JSON object a line. Encoding and decoding; who runs it is a verb.

    we      {"pellucid": 1, "observe": {…}, "findings": […], "knobs": […], "present": {…}, "history": […], "left_s": 99}
    it      {"propose": [{"set": {"max_running_requests": 64}, "why": "…",
                          "claim": {"metric": "output_tokens_per_s", "low_ratio": 0.0, "high_ratio": 0.2}}]}
    it      {"done": "nothing left that I would try"}

One answer for each line of ours, on stdout; stderr is its own. `pellucid` is the version of this protocol: it grows
when something changes its meaning or goes, not when a key comes. Keys of ours that a program does not know, it must not
mind; keys of its own that we do not know are trouble, since a misspelt claim would be lost. `history` holds what was
refused and why, so that a program can do better. `observe` and `findings` are as in `pellucid why --json`; no text of
any prompt.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pellucid.catalog.knobs.spelling import Engine, fitting
from pellucid.catalog.load import knobs
from pellucid.core.errors import PellucidError
from pellucid.tune.events import Proposal
from pellucid.tune.propose import MOST_PROPOSALS, Answer, Brief
from pellucid.tune.propose.listed import Listed, proposal_of
from pellucid.tune.space import Candidate, present_value
from pellucid.tune.state import State, Trial

VERSION = 1
MOST_BYTES = 1 << 20       # chosen: of a line; sixteen proposals take a hundredth of it
MOST_SHOWN = 80            # chosen: of what a program said, in words of ours: one line of a screen


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    propose: list[msgspec.Raw] | None = None
    done: str | None = None


def encode(brief: Brief) -> bytes:
    """One line. Raises ValueError for a number that is none: what was recorded has no NaN."""
    said = {
        "pellucid": VERSION, "observe": brief.observed, "findings": list(brief.findings),
        "knobs": known_knobs(brief.engine), "present": _set(brief.state.present), "history": history(brief.state),
        "left_s": brief.left_ns / 1e9,
    }  # fmt: skip
    return json.dumps(said, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def decode(line: bytes, proposer: str, engine: Engine) -> Answer:
    """Never raises: what does not read is trouble, in words, and the proposals beside it stand."""
    if len(line) > MOST_BYTES:
        return _trouble(proposer, f"an answer of more than {MOST_BYTES:,} bytes")
    if not line.endswith(b"\n"):
        return _trouble(proposer, "it ended in the middle of a line" if line else "it ended without an answer")
    try:
        said = msgspec.json.decode(line, type=Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _trouble(proposer, f"{_shown(line)} is no answer: {error}")
    if (said.propose is None) == (said.done is None):
        return _trouble(proposer, f"{_shown(line)} is no answer: it takes either propose or done")
    if said.propose is None:
        return Answer((), done=True)
    made, trouble = _read(said.propose[:MOST_PROPOSALS], proposer, engine)
    if len(said.propose) > MOST_PROPOSALS:
        trouble.append(f"{proposer}: {len(said.propose)} proposals at once; the first {MOST_PROPOSALS} were read")
    return Answer(tuple(made), done=False, trouble=tuple(trouble))


def known_knobs(engine: Engine) -> list[dict[str, Any]]:
    """Those that this engine can be started with, in our names."""
    return [
        {"name": name, "unit": knob.unit, "low": knob.low, "high": knob.high, "meaning": knob.meaning,
         "cost": knob.cost, "couplings": knob.couplings, "change": knob.change, "engines_name": s.flag or s.env,
         "present": present_value(name, engine)}
        for name, knob in knobs().items() if (s := fitting(name, engine)) is not None and not s.client
    ]  # fmt: skip


def history(state: State) -> list[dict[str, Any]]:
    """Trials first, then what was refused before it came to one."""
    return [_tried(t) for t in state.trials] + [
        {"set": _set(r.proposal.candidate), "proposer": r.proposal.proposer, "state": "refused", "why": r.reason}
        for r in state.refused
    ]


def _tried(trial: Trial) -> dict[str, Any]:
    speed, fidelity = trial.speed, trial.fidelity
    return {
        "set": _set(trial.proposal.candidate), "proposer": trial.proposal.proposer, "state": trial.end or "under way",
        "why": trial.says, "speed": speed and speed.word, "fidelity": fidelity and fidelity.word,
        "measures": [msgspec.to_builtins(m) for m in speed.measures] if speed else [],
    }  # fmt: skip


def _read(entries: list[msgspec.Raw], proposer: str, engine: Engine) -> tuple[list[Proposal], list[str]]:
    made, trouble = list[Proposal](), list[str]()
    for number, raw in enumerate(entries, 1):
        try:
            made.append(proposal_of(msgspec.json.decode(raw, type=Listed), proposer, engine))
        except (msgspec.DecodeError, PellucidError) as error:
            trouble.append(f"{proposer}: proposal {number}, {_shown(bytes(raw))}: {error}")
    return made, trouble


def _set(settings: Candidate) -> dict[str, Any]:
    return {s.knob: s.value for s in settings}


def _trouble(proposer: str, says: str) -> Answer:
    """Who does not keep to the protocol is not asked again: the next answer might be of another question."""
    return Answer((), done=True, trouble=(f"{proposer}: {says}. It is not asked again",))


def _shown(line: bytes) -> str:
    text = "".join(c if c.isprintable() else " " for c in line.decode(errors="replace").strip())
    return repr(text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…")

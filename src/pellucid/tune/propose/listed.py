"""A list of candidates from a file, TOML or JSON → proposals, in the file's order.

    [[propose]]
    set = { max_num_seqs = 64 }             names of ours or of the engine's
    why = "more at once"
    claim = { metric = "output_tokens_per_s", low_ratio = 0.0, high_ratio = 0.2 }

The same as JSON: {"propose": [{"set": {…}, "why": …, "claim": {…}}]}. `set = {}` is the present configuration against
itself. The form is that of an outside program's answer (`wire`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from pellucid.catalog.knobs.spelling import Engine
from pellucid.catalog.load import metrics
from pellucid.core.errors import AskedWrongly, PellucidError
from pellucid.tune.events import Claim, Proposal
from pellucid.tune.propose import Answer, Brief
from pellucid.tune.space import Value, candidate, setting


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    set: dict[str, Value]
    why: str = ""
    claim: Claim | None = None


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    propose: list[Listed]


def entries(text: bytes, name: str) -> list[Listed]:
    """What a list holds, whatever the engine: read before anything starts, since a list is somebody's. Raises
    AskedWrongly that names the file and the entry."""
    try:
        decode = msgspec.json.decode if text.lstrip().startswith(b"{") else msgspec.toml.decode
        found: File = decode(text, type=File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:      # ValidationError is one of them
        raise AskedWrongly(f"{name}: {error}. Write [[propose]] with set = {{ max_running_requests = 64 }}") from error
    if not found.propose:
        raise AskedWrongly(f"{name}: no candidate in it. Write [[propose]] with set = {{ max_running_requests = 64 }}")
    for number, entry in enumerate(found.propose, 1):
        with _of(name, number):
            checked(entry.claim)
    return found.propose


def read_list(text: bytes, name: str, engine: Engine) -> tuple[Proposal, ...]:
    """Raises AskedWrongly that names the file and the entry, also for a knob that this engine does not have."""
    made = []
    for number, entry in enumerate(entries(text, name), 1):
        with _of(name, number):
            made.append(proposal_of(entry, "list", engine))
    return tuple(made)


@contextlib.contextmanager
def _of(name: str, number: int) -> Iterator[None]:
    try:
        yield
    except PellucidError as error:
        raise AskedWrongly(f"{name}: entry {number}: {error}") from error


def proposal_of(entry: Listed, proposer: str, engine: Engine) -> Proposal:
    """Raises AskedWrongly or CannotAnswer for a name or value that this engine does not have."""
    settings = candidate(setting(name, value, engine) for name, value in entry.set.items())
    return Proposal(settings, proposer, "", entry.why, checked(entry.claim))


def checked(claim: Claim | None) -> Claim | None:
    """Raises AskedWrongly for a claim that says nothing."""
    if claim is None:
        return None
    if claim.metric not in metrics():
        raise AskedWrongly(f"claim on {claim.metric}: known metrics are {', '.join(metrics())}")
    if not -1e9 < claim.low_ratio <= claim.high_ratio < 1e9:
        raise AskedWrongly(f"claim of {claim.low_ratio} to {claim.high_ratio}: the first is the smaller one")
    return claim


def propose(listed: tuple[Proposal, ...], brief: Brief) -> Answer:
    """The present configuration against itself comes once for each time that it is listed."""
    tried = [t.proposal.candidate for t in brief.state.trials if t.proposal.proposer == "list"]
    again = [p for p in listed if not p.candidate][tried.count(()):]
    return Answer(tuple(p for p in listed if p.candidate and p.candidate not in brief.seen) + tuple(again), done=True)

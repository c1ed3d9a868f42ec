"""Collectives: bytes that one rank sends, inside its scale-up domain and out of it.

    all_reduce(1e6, Ranks(8, domain=8))                       1.75 MB by link (ring)
    all_to_all(1e6, Ranks(16, domain=8)).network_bytes        0.5 MB

A domain is where ranks reach each other at scale-up speed: 8 GPUs of an HGX board, 72 of an NVL72. Where ranks span
several, all-reduce, all-gather and reduce-scatter go in two levels, as NCCL's and RCCL's trees and rings are laid out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.physics.work import Work

Algorithm = Literal["ring", "one_shot", "switch"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Raises ValueError where the domain does not divide the ranks."""

    count: int
    domain: int      # ranks in one scale-up domain

    def __post_init__(self) -> None:
        if self.count < 1 or self.domain < 1 or (self.count > self.domain and self.count % self.domain):
            raise ValueError(f"{self.count} ranks do not fill domains of {self.domain}")

    @property
    def inside(self) -> int:
        return min(self.count, self.domain)

    @property
    def domains(self) -> int:
        return max(1, self.count // self.domain)


def all_reduce(message_bytes: float, ranks: Ranks, algorithm: Algorithm = "ring") -> Work:
    """Each of n ranks holds `message_bytes` and gets the sum.

    ring (and two-shot): 2·(n − 1)/n of it; one_shot, for short messages: all of it to n − 1 peers; switch, where the
    switch adds up (NVLS): all of it once. Over several domains the algorithm is that of the inside; each rank then
    reduces its share of 1/n with its peers outside by ring.
    """
    n = ranks.inside
    sent = {"ring": 2 * (n - 1) / n, "one_shot": n - 1.0, "switch": 1.0 if n > 1 else 0.0}[algorithm]
    outside = 2 * (ranks.domains - 1) / ranks.domains / n
    return Work(link_bytes=sent * message_bytes, network_bytes=outside * message_bytes)


def all_gather(message_bytes: float, ranks: Ranks) -> Work:
    """Each rank has 1/n of `message_bytes` and gets all: it sends on (n − 1)/n, over domains first its own share."""
    n = ranks.inside
    outside = (ranks.domains - 1) / ranks.count
    return Work(link_bytes=(n - 1) / n * message_bytes, network_bytes=outside * message_bytes)


def reduce_scatter(message_bytes: float, ranks: Ranks) -> Work:
    """Each rank has `message_bytes` and gets 1/n of the sum. The mirror image of all_gather."""
    return all_gather(message_bytes, ranks)


def all_to_all(message_bytes: float, ranks: Ranks) -> Work:
    """Each rank has `message_bytes` for all ranks, in equal parts, its own in it."""
    inside = (ranks.inside - 1) / ranks.count
    outside = (ranks.count - ranks.inside) / ranks.count
    return Work(link_bytes=inside * message_bytes, network_bytes=outside * message_bytes)

from __future__ import annotations

from pellucid.catalog.dialects import PLAIN, dialect_of, dialects


def test_every_dialect_says_how_its_engine_is_known_and_asks_for_exact_lengths() -> None:
    assert [name for name, d in dialects().items() if not d.owned_by or not d.exact_length or not d.context] == []
    owners = [d.owned_by for d in dialects().values()]
    assert len(owners) == len(set(owners))


def test_an_owner_nobody_knows_has_the_plain_api() -> None:
    assert dialect_of("somebody") == PLAIN
    assert dialect_of("") == PLAIN


def test_a_known_owner_has_its_own_words() -> None:
    assert dialect_of("vllm").task == ("vllm_xargs", "task")

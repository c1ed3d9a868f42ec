from __future__ import annotations

from pellucid.catalog.servers.dialects import dialects


def test_every_dialect_says_how_its_engine_is_known_and_asks_for_exact_lengths() -> None:
    assert [name for name, d in dialects().items() if not d.owned_by or not d.exact_length or not d.context] == []
    owners = [d.owned_by for d in dialects().values()]
    assert len(owners) == len(set(owners))


def test_a_label_travels_where_the_probe_looks_for_it() -> None:
    assert dialects()["vllm"].task == ("vllm_xargs", "task")

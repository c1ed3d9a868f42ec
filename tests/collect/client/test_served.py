from __future__ import annotations

from typing import Any

import pytest

from pellucid.catalog.servers.dialects import PLAIN
from pellucid.collect.client.served import served, vocabulary_of
from pellucid.core.errors import AskedWrongly, Failed
from pellucid.testing.engine import free_port


@pytest.mark.parametrize(
    ("config", "found"),
    [({"vocab_size": 4096, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": None}, (4096, 3)),
     ({"vocab_size": 151_936, "bos_token_id": 151_643, "eos_token_id": [151_645, 151_643]}, (151_643, 0)),
     ({"text_config": {"vocab_size": 262_208}, "eos_token_id": [1, 106], "image_token_index": 262_144}, (262_144, 107)),
     ({"vocab_size": 100, "eos_token_id": 100, "pad_token_id": -1}, (100, 0)),
     ({"model_type": "x"}, None)],
)  # fmt: skip
def test_ordinary_tokens_lie_between_the_special_ones(config: dict[str, Any], found: tuple[int, int] | None) -> None:
    assert vocabulary_of(config) == found


@pytest.mark.slow
def test_a_server_nobody_knows_speaks_the_plain_api(url: str) -> None:
    found = served(f"{url}/v1", None, {})
    assert (found.model, found.engine, found.dialect) == ("m", None, PLAIN)
    assert (found.context_tokens, found.root) == (None, None)


@pytest.mark.slow
def test_a_model_that_is_not_served_is_refused_with_one_that_is(url: str) -> None:
    with pytest.raises(AskedWrongly, match="Try: --model m"):
        served(url, "other", {})


def test_nobody_there_has_failed() -> None:
    with pytest.raises(Failed, match="/v1/models"):
        served(f"http://127.0.0.1:{free_port()}", None, {})

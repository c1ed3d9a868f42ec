"""Replies with prompt log-probabilities, whole and not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pellucid.collect.client.scores import NotScored, scores_of


def entry(**logps: float | None) -> dict[str, Any]:
    return {name[1:]: {"logprob": value, "rank": 1, "decoded_token": "x"} for name, value in logps.items()}


REPLY = [None, entry(t5=-0.1, t6=-2.0), entry(t7=-3.0, t8=-0.2, t9=-1.0), entry(t5=-0.5, t7=-0.9)]


def test_an_answers_tokens_are_read_likeliest_first() -> None:
    found = scores_of(REPLY, ids=(7, 5), first=2, top_count=2)
    assert found.logps.tolist() == [-3.0, -0.5]
    assert found.top_ids.tolist() == [[8, 9], [5, 7]]
    assert found.top_logps.tolist() == [[-0.2, -1.0], [-0.5, -0.9]]


def test_no_tokens_are_no_rows() -> None:
    found = scores_of(REPLY, ids=(), first=4, top_count=2)
    assert (len(found), found.top_ids.shape) == (0, (0, 2))
    assert found.logps.dtype == np.float64


@pytest.mark.parametrize(
    ("entries", "ids", "says"),
    [
        (None, (7,), "the reply has none"),
        (REPLY[:2], (7,), "the reply has 2 positions"),
        ([None, None, None, None], (7,), "no log-probability of token 7"),
        ([None, None, entry(t8=-0.2, t9=-1.0)], (7,), "no log-probability of token 7"),
        ([None, None, entry(t7=None, t8=-1.0)], (7,), "is None"),
        ([None, None, entry(t7=float("-inf"), t8=-1.0)], (7,), "is -inf"),
        ([None, None, entry(t7=float("nan"), t8=-1.0)], (7,), "is nan"),
        ([None, None, {"7": -1.0, "8": -2.0}], (7,), "is None"),
        ([None, None, entry(t7=-1.0)], (7,), "2 log-probabilities a token were asked for; the reply has 1"),
    ],
)
def test_what_is_missing_is_said(entries: Any, ids: tuple[int, ...], says: str) -> None:
    with pytest.raises(NotScored, match=says):
        scores_of(entries, ids, first=2, top_count=2)

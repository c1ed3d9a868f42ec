from __future__ import annotations

import pytest

from pellucid.core.table import rows


def test_cells_have_the_type_they_look_like() -> None:
    assert rows("""a  b    c     d  e
                   1  2.5  true  -  two words""") == [{"a": 1, "b": 2.5, "c": True, "d": None, "e": "two words"}]


def test_a_minus_sign_is_not_a_missing_cell() -> None:
    assert rows("a\n-5") == [{"a": -5}]


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="has 1 cells, the header"):
        rows("a  b\n1")

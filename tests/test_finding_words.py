"""How findings write numbers of things."""

import pytest

from tracetui.analysis.findings.core import words


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "no chain"),
        (1, "1 chain"),
        (3, "3 chains"),
        (1 / 3, "0.33 chains"),
        (1.5, "1.50 chains"),
        (9.999, "10 chains"),
        (72.4, "72 chains"),
        (1234.5, "1,234 chains"),
    ],
)
def test_a_mean_of_few_is_not_rounded_to_none(amount: float, text: str) -> None:
    assert words.things(amount, "chain") == text

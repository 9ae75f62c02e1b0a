from __future__ import annotations

from typing import Any

import pytest

from realtime_engine.integrations.dream.training.plan import Plan


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("seed", -1, 0), ("seed", 2**63, 0), ("dynamics_steps", 0, 1), ("pictures", 1, 2), ("round", 2.0, 1)],
)
def test_a_plan_names_a_setting_that_cannot_be(name: str, value: Any, least: int) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be an integer of {least} or more .* got {value}"):
        Plan(**{name: value})

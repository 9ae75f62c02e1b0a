import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls import ARROWS_AS_WASD, KeyBinding
from realtime_engine.infra.controls.keyboard import last_press_wins, resolve_codes

WASD = frozenset({"KeyW", "KeyA", "KeyS", "KeyD"})
held_keys = st.lists(st.sampled_from(sorted(WASD)), unique=True).map(tuple)


@pytest.mark.parametrize("code", ["", "w w", "Key-W", "K" * 33, "KeyW\n", 87, None])
def test_a_binding_refuses_what_is_no_code(code):
    with pytest.raises(ValueError, match="code must be a KeyboardEvent.code"):
        KeyBinding(code, "Forward")


@pytest.mark.parametrize("field", ["label", "group"])
def test_a_binding_names_the_text_that_is_none(field):
    with pytest.raises(ValueError, match=f"{field} must be text, got 7"):
        KeyBinding("KeyW", **{"label": "Forward", field: 7})


def test_undeclared_keys_are_left_out():
    assert resolve_codes(["KeyQ", "KeyW", "Enter"], WASD, {}) == ("KeyW",)


def test_an_arrow_stands_for_its_letter():
    assert resolve_codes(["ArrowUp", "ArrowLeft"], WASD, ARROWS_AS_WASD) == ("KeyW", "KeyA")


def test_a_key_held_under_two_names_stands_at_its_newest_press():
    assert resolve_codes(["KeyW", "KeyS", "ArrowUp"], WASD, ARROWS_AS_WASD) == ("KeyS", "KeyW")


def test_the_newest_of_two_opposing_keys_counts_and_the_older_comes_back():
    groups = [("KeyW", "KeyS")]
    assert last_press_wins(("KeyW", "KeyD", "KeyS"), groups) == ("KeyD", "KeyS")
    assert last_press_wins(("KeyW", "KeyD"), groups) == ("KeyW", "KeyD")


def test_a_key_in_two_groups_must_win_in_both():
    assert last_press_wins(("KeyA", "KeyW", "KeyS"), [("KeyA", "KeyW"), ("KeyW", "KeyS")]) == ("KeyS",)


@given(held_keys, st.lists(st.lists(st.sampled_from(sorted(WASD)), min_size=2, unique=True), max_size=3))
def test_a_key_counts_unless_a_later_one_shares_a_group(held, groups):
    def overruled(place):
        return any(held[place] in group and later in group for group in groups for later in held[place + 1 :])

    assert last_press_wins(held, groups) == tuple(code for place, code in enumerate(held) if not overruled(place))

from __future__ import annotations

import itertools

import numpy as np
import pytest

from realtime_engine.integrations.maze.palette import DUNGEON, FOGS, TABLE_SIZE, THEMES, theme_of
from realtime_engine.integrations.maze.textures import LEVELS, MATERIALS


def test_known_words_are_found_in_a_sentence_whatever_their_case() -> None:
    assert theme_of("ICE") == THEMES["ice"]
    assert theme_of("An old cave of Ice!").fog == THEMES["ice"].fog


def test_no_prompt_is_the_dungeon() -> None:
    assert theme_of("") == theme_of("  ?! ") == DUNGEON


def test_two_known_words_meet_halfway() -> None:
    both = theme_of("ice lava")
    wanted = (np.array(THEMES["ice"].fog) + THEMES["lava"].fog) / 2
    assert np.allclose(both.fog, wanted)


@pytest.mark.parametrize(
    ("left", "right"), list(itertools.combinations(["", *THEMES, "clockwork", "clockworks", "old ice", "new ice"], 2))
)
def test_texts_differ_in_colour(left: str, right: str) -> None:
    assert not np.array_equal(theme_of(left).lookup, theme_of(right).lookup)


def test_a_text_gives_the_same_colours_every_time() -> None:
    assert theme_of("a city of glass, 水") == theme_of("a city of glass, 水")


def test_the_table_brightens_with_the_level_and_ends_in_fog() -> None:
    for theme in (DUNGEON, *THEMES.values()):
        table = theme.lookup.view(np.uint8).reshape(FOGS, MATERIALS, LEVELS, 4)
        assert table.size == TABLE_SIZE * 4
        assert (table[..., 3] == 255).all()
        assert (np.diff(table[0, :, :, :3].astype(int).sum(axis=-1), axis=-1) >= 0).all()
        assert np.abs(table[-1, :-1, :, :3] - np.rint(255 * np.array(theme.fog))).max() <= 1

from __future__ import annotations

import pytest
import torch

from realtime_engine.integrations.dream.level import HEIGHT, WIDTH
from realtime_engine.integrations.dream.pictures import COLUMNS, Decoder, Encoder


def parts() -> tuple[Encoder, Decoder]:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return Encoder(latent=5, code=2, width=4).eval(), Decoder(latent=5, width=6, channels=2).eval()


def random_pictures(count: int) -> torch.Tensor:
    return torch.rand(count, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(2)) * 2 - 1


@pytest.mark.parametrize("count", [1, 3])
def test_shapes(count: int) -> None:
    encoder, decoder = parts()
    with torch.inference_mode():
        latents, places, codes = encoder(random_pictures(count))
        pictures = decoder(latents)
    assert (latents.shape, places.shape, codes.shape) == ((count, 5, COLUMNS), (count, 4), (count, 2))
    assert pictures.shape == (count, 3, HEIGHT, WIDTH)
    assert torch.allclose(places[:, 2:].norm(dim=1), torch.ones(count), atol=1e-5)


def test_pictures_and_columns_stay_where_they_are() -> None:
    """A column of latents is of the part of the picture where it stands: what is far away does not touch it."""
    encoder, decoder = parts()
    picture = random_pictures(1)
    other = picture.clone()
    other[..., WIDTH // 2 :] = 0
    with torch.inference_mode():
        before, after = encoder(picture)[0], encoder(other)[0]
        changed = (before != after).any(1)[0]
        assert not changed[: COLUMNS // 2 - 8].any() and changed[COLUMNS // 2 + 8 :].all()
        latents = before.clone()
        latents[..., COLUMNS // 2 :] = 0
        drawn = (decoder(before) != decoder(latents)).any(1).any(1)[0]
        assert not drawn[: WIDTH // 2 - 16].any() and drawn[WIDTH // 2 + 16 :].all()


def test_rows_do_not_depend_on_one_another() -> None:
    encoder, decoder = parts()
    pictures = random_pictures(4)
    others = pictures.flip(0).clone()
    others[2] = pictures[2]
    with torch.inference_mode():
        for one, other in zip(encoder(pictures), encoder(others), strict=True):
            assert torch.equal(one[2], other[2])
        latents = encoder(pictures)[0]
        mixed = latents.flip(0).clone()
        mixed[2] = latents[2]
        assert torch.equal(decoder(latents)[2], decoder(mixed)[2])

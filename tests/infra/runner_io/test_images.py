from __future__ import annotations

import io
import math
import struct
import warnings
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from realtime_engine.infra.runner_io import INTERPOLATIONS, Cache, InputError, center_crop, cover, load_image, resize

from .web import web

RED, BLUE = (255, 0, 0), (0, 0, 255)


def dice(*shape: int, dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


def saved(folder: Path, pixels: np.ndarray, name: str = "a.png", mode: str | None = None, **options: object) -> Path:
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(folder / name, **options)
    return folder / name


def test_pixels_come_back(tmp_path: Path) -> None:
    pixels = dice(5, 7, 3)
    loaded = load_image(saved(tmp_path, pixels))
    np.testing.assert_array_equal(loaded, pixels)
    assert loaded.dtype == np.uint8
    assert loaded.flags.c_contiguous
    assert loaded.flags.writeable


def test_a_url_will_do(tmp_path: Path) -> None:
    pixels = dice(5, 7, 3)
    with web() as site:
        url = site.put("a.png", saved(tmp_path, pixels).read_bytes())
        np.testing.assert_array_equal(load_image(url, cache=Cache(tmp_path / "cache")), pixels)


def test_grey_is_repeated(tmp_path: Path) -> None:
    grey = dice(5, 7)
    np.testing.assert_array_equal(load_image(saved(tmp_path, grey)), np.stack([grey] * 3, -1))


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_deep_gray_is_rounded(tmp_path: Path, name: str) -> None:
    grey = np.concatenate([np.arange(0, 65536, 13), [65535, 128, 129, 385, 386]]).astype(np.uint16)[None]
    loaded = load_image(saved(tmp_path, grey, name))
    wanted = np.array([round(int(value) / 257) for value in grey[0]])
    np.testing.assert_array_equal(loaded, np.stack([wanted[None]] * 3, -1))


def test_grey_of_more_than_16_bits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.tif: .*expected values of 16 bits, got 0 to 70000"):
        load_image(saved(tmp_path, np.array([[0, 70000]], np.int32), "a.tif"))


def test_deep_color_is_rounded(tmp_path: Path) -> None:
    pixels = dice(16, 16, 3, dtype="uint16")
    cv2.imwrite(str(tmp_path / "a.png"), pixels[..., ::-1])
    np.testing.assert_array_equal(load_image(tmp_path / "a.png"), np.rint(pixels / 257))


def test_deep_color_with_alpha_is_composited(tmp_path: Path) -> None:
    pixels = dice(16, 16, 4, dtype="uint16")
    pixels[:8, :, 3], pixels[8:, :, 3] = 65535, 0
    cv2.imwrite(str(tmp_path / "a.png"), pixels[..., [2, 1, 0, 3]])
    loaded = load_image(tmp_path / "a.png", background="#0a141e")
    np.testing.assert_array_equal(loaded[:8], np.rint(pixels[:8, :, :3] / 257))
    assert (loaded[8:] == (10, 20, 30)).all()


@given(st.tuples(*[st.integers(0, 255)] * 3), st.integers(0, 2**32 - 1))
def test_what_is_transparent_shows_the_ground(
    tmp_path_factory: pytest.TempPathFactory, ground: tuple[int, int, int], seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 6, 4)).astype(np.uint8)
    path = tmp_path_factory.mktemp("alpha") / "a.png"
    Image.fromarray(pixels).save(path)
    loaded = load_image(path, background="#{:02x}{:02x}{:02x}".format(*ground))
    for y, x, c in np.ndindex(4, 6, 3):
        alpha = int(pixels[y, x, 3])
        exact = (int(pixels[y, x, c]) * alpha + ground[c] * (255 - alpha)) / 255
        assert abs(int(loaded[y, x, c]) - exact) <= 0.51


@pytest.mark.parametrize(
    ("name", "rgb"), [("black", (0, 0, 0)), ("white", (255, 255, 255)), ("rebeccapurple", (102, 51, 153))]
)
def test_the_ground_has_a_name(tmp_path: Path, name: str, rgb: tuple[int, int, int]) -> None:
    path = saved(tmp_path, np.zeros((2, 2, 4), np.uint8))
    assert (load_image(path, background=name) == rgb).all()


def test_an_unknown_colour_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'blurple': it is not a color; give a name"):
        load_image(saved(tmp_path, dice(2, 2, 3)), background="blurple")


def test_a_transparent_palette_shows_the_ground(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png", transparency=0)
    assert load_image(tmp_path / "a.png", background="lime").tolist() == [[[0, 255, 0], list(BLUE)]]


def turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """What a camera stores of an upright picture: Exif 2.32, 4.6.4, the sides that row 0 and column 0 show."""
    flip = {1: "", 2: "h", 3: "hv", 4: "v", 5: "t", 6: "tv", 7: "tvh", 8: "th"}[orientation]
    for step in flip:
        pixels = {"h": pixels[:, ::-1], "v": pixels[::-1], "t": pixels.swapaxes(0, 1)}[step]
    return np.ascontiguousarray(pixels)


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_camera_may_be_held_anyhow(tmp_path: Path, orientation: int, name: str) -> None:
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:8, :16], upright[8:, 16:] = RED, BLUE
    exif = Image.Exif()
    exif[0x0112] = orientation
    loaded = load_image(saved(tmp_path, turned(upright, orientation), name, exif=exif))
    assert loaded.shape == upright.shape
    assert np.abs(loaded[3:5, 3:5].astype(int) - RED).max() < 8
    assert np.abs(loaded[11:13, 27:29].astype(int) - BLUE).max() < 8


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png"])
def test_of_an_animation_the_first_picture_is_taken(tmp_path: Path, name: str) -> None:
    first, second = (Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE))
    first.save(tmp_path / name, save_all=True, append_images=[second], duration=50, lossless=True)
    assert np.abs(load_image(tmp_path / name).astype(int) - RED).max() <= 1


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    white = np.full((4, 4, 3), 255, np.uint8)
    path = saved(tmp_path, white, "a.tif" if mode in ("CMYK", "YCbCr") else "a.png", mode)
    np.testing.assert_array_equal(load_image(path), white)


def profile(**renamed: str) -> bytes:
    """That of sRGB, with tags of other names."""
    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for at in range(132, 132 + 12 * int.from_bytes(content[128:132], "big"), 12):
        name = content[at : at + 4].decode()
        content = content[:at] + renamed.get(name, name).encode() + content[at + 4 :]
    return content


@pytest.mark.parametrize(
    ("profile", "shown"), [(profile(), RED), (profile(rXYZ="bXYZ", bXYZ="rXYZ"), BLUE), (b"nonsense", RED)]
)
def test_profiles_are_followed(tmp_path: Path, profile: bytes, shown: tuple[int, int, int]) -> None:
    """One takes red for blue; one is none."""
    path = saved(tmp_path, np.full((2, 2, 3), RED, np.uint8), icc_profile=profile)
    assert np.abs(load_image(path).astype(int) - shown).max() <= 2


def test_a_palette_has_a_profile_too(tmp_path: Path) -> None:
    swapped = profile(rXYZ="bXYZ", bXYZ="rXYZ")
    path = saved(tmp_path, np.full((2, 2, 3), RED, np.uint8), "a.png", "P", icc_profile=swapped)
    assert np.abs(load_image(path).astype(int) - BLUE).max() <= 2


def png_with(folder: Path, kind: bytes, content: bytes) -> Path:
    """A chunk behind the header."""
    plain = saved(folder, dice(4, 4, 3)).read_bytes()
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    path = folder / "hdr.png"
    path.write_bytes(plain[:33] + chunk + plain[33:])
    return path


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused(tmp_path: Path, transfer: int, name: str) -> None:
    with pytest.raises(InputError, match=rf"hdr\.png: it is HDR \({name}\), and models take SDR; convert it to sRGB"):
        load_image(png_with(tmp_path, b"cICP", bytes([9, transfer, 0, 1])))


def test_what_is_labelled_sdr_is_taken(tmp_path: Path) -> None:
    assert load_image(png_with(tmp_path, b"cICP", bytes([1, 13, 0, 1]))).shape == (4, 4, 3)


@pytest.mark.parametrize("transfer", [13, 16])
def test_avif_says_what_it_is(tmp_path: Path, transfer: int) -> None:
    if ".avif" not in Image.registered_extensions():
        pytest.skip("this build of Pillow knows no AVIF")
    path = saved(tmp_path, dice(16, 16, 3), "a.avif")
    content = path.read_bytes()
    at = content.index(b"colrnclx") + 10
    path.write_bytes(content[:at] + struct.pack(">H", transfer) + content[at + 2 :])
    if transfer == 13:
        assert load_image(path).shape == (16, 16, 3)
    else:
        with pytest.raises(InputError, match=r"a\.avif: it is HDR \(PQ\)"):
            load_image(path)


def test_floats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.tif: its pixels are floating point of unknown range"):
        load_image(saved(tmp_path, np.zeros((2, 2), np.float32), "a.tif"))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif"])
def test_what_is_cut_off_is_refused(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, dice(64, 64, 3), name)
    content = path.read_bytes()
    for size in (len(content) // 2, 40):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=rf"{name}: it (is broken|cannot be read|is not a picture)"):
            load_image(path)


@pytest.mark.parametrize("content", [b"", b"words", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_what_is_no_picture_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.png: it .*; "):
        load_image(tmp_path / "a.png")


@given(st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "TIFF"]), st.data())
def test_broken_bytes_are_refused_or_read_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    out = io.BytesIO()
    Image.fromarray(dice(8, 8, 3)).save(out, kind)
    content = bytearray(out.getvalue())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("broken") / "a"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what Pillow thinks of it
        try:
            assert load_image(path, max_pixels=10_000).shape[2] == 3
        except InputError as error:
            assert str(path) in str(error)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.png: it is too large \(100 x 90 pixels\); scale it down to 8000 pixels"):
        load_image(saved(tmp_path, np.zeros((90, 100, 3), np.uint8)), max_pixels=8000)


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_bomb_that_pillow_knows_is_not_unpacked(tmp_path: Path, side: int) -> None:
    content = bytearray(saved(tmp_path, dice(4, 4, 3)).read_bytes())
    content[16:24] = struct.pack(">II", side, side)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.png: it is too large"):
        load_image(tmp_path / "a.png")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.png: there is no such file"):
        load_image(tmp_path / "none.png")


SIDES = st.integers(1, 14)
HALF = Fraction(1, 2)
ROUNDING = 0.005  # of weights in fixed-point numbers of 22 bits, which are summed over as many rows


def cubic(x: float) -> float:
    a, x = -0.5, abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


FILTERS = {
    "bilinear": (1.0, lambda x: max(1 - abs(x), 0.0)),
    "bicubic": (2.0, cubic),
    "lanczos": (3.0, lambda x: sinc(x) * sinc(x / 3) if abs(x) < 3 else 0.0),
}


BOXES = (
    lambda x: -HALF < x < HALF,
    lambda x: -HALF <= x < HALF,
    lambda x: -HALF < x <= HALF,
    lambda x: -HALF <= x <= HALF,
)


def weights(old: int, new: int, name: str) -> list[np.ndarray]:
    """(new, old) tables of how much of each old row is in each new one.

    ``box`` has several: floating-point rounding decides whether a row whose middle is exactly on an edge of the box
    counts.
    """
    scale = Fraction(old, new)
    middles = [Fraction(2 * at + 1, 2) for at in range(old)]
    centers = [Fraction(2 * row + 1, 2) * scale for row in range(new)]
    if name == "nearest":
        return [normalized([[at == math.floor(center) for at in range(old)] for center in centers])]
    widened = max(scale, Fraction(1))
    offsets = [[(middle - center) / widened for middle in middles] for center in centers]
    if name != "box":
        support, weight = FILTERS[name]
        table = [[weight(float(x)) if abs(x) < support else 0.0 for x in row] for row in offsets]
        return [normalized(table)]
    inside, *others = (np.array([[counts(x) for x in row] for row in offsets], float) for counts in BOXES)
    empty = inside.sum(1) == 0
    inside[empty] = others[0][empty]
    return [normalized(table) for table in (inside, *others)]


def normalized(table: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    array = np.array(table, float)
    return array / array.sum(1, keepdims=True)


Bounds = tuple[np.ndarray, np.ndarray]


def filtered(bounds: Bounds, tables: list[np.ndarray]) -> Bounds:
    """The least and the greatest byte that each row may become, for rows (old, ...) between ``bounds``."""
    low, high = (bound.astype(float) for bound in bounds)
    lows = [np.tensordot(table.clip(0), low, 1) + np.tensordot(table.clip(max=0), high, 1) for table in tables]
    highs = [np.tensordot(table.clip(0), high, 1) + np.tensordot(table.clip(max=0), low, 1) for table in tables]
    return to_bytes(np.min(lows, 0) - ROUNDING), to_bytes(np.max(highs, 0) + ROUNDING)


def reference(pixels: np.ndarray, height: int, width: int, name: str) -> list[Bounds]:
    """One direction, then the other, with bytes in between, whose rounding and clipping may show: in both orders."""
    rows, columns = weights(pixels.shape[0], height, name), weights(pixels.shape[1], width, name)
    turned = pixels.swapaxes(0, 1)
    across = filtered(swapped(filtered((turned, turned), columns)), rows)
    down = swapped(filtered(swapped(filtered((pixels, pixels), rows)), columns))
    return [across, down]


def swapped(bounds: Bounds) -> Bounds:
    return bounds[0].swapaxes(0, 1), bounds[1].swapaxes(0, 1)


def to_bytes(values: np.ndarray) -> np.ndarray:
    return np.floor(values.clip(0, 255) + 0.5)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(INTERPOLATIONS), st.integers(0, 2**32 - 1))
@example(3, 4, 11, 5, "lanczos", 11)  # a byte between the passes may be off by one, which the second pass amplifies
@example(13, 1, 6, 1, "box", 0)  # the middle of row 6 is where the boxes of two new rows meet
def test_every_filter_agrees_with_the_reference(h: int, w: int, height: int, width: int, name: str, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (h, w, 3)).astype(np.uint8)
    resized = resize(pixels, height, width, name)
    assert any(
        (low <= resized).all() and (resized <= high).all() for low, high in reference(pixels, height, width, name)
    )


def test_films_are_resized_picture_by_picture() -> None:
    film = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3)).astype(np.uint8)
    resized = resize(film, 4, 10, "bicubic")
    assert resized.shape == (3, 4, 10, 3)
    for picture, whole in zip(resized, film, strict=True):
        np.testing.assert_array_equal(picture, resize(whole, 4, 10, "bicubic"))


def test_the_same_size_is_no_copy() -> None:
    pixels = np.zeros((4, 5, 3), np.uint8)
    assert resize(pixels, 4, 5) is pixels


@given(SIDES, SIDES, st.data())
def test_the_middle_is_cut_out(height: int, width: int, data: st.DataObject) -> None:
    h, w = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    pixels = np.arange(height * width * 3).reshape(height, width, 3).astype(np.uint8)
    cropped = center_crop(pixels, h, w)
    top, left = (height - h) // 2, (width - w) // 2
    np.testing.assert_array_equal(cropped, [row[left : left + w] for row in pixels[top : top + h]])
    assert np.shares_memory(cropped, pixels)


@given(SIDES, SIDES, SIDES, SIDES)
def test_cover_keeps_the_shape_and_cuts_off_the_rest(h: int, w: int, height: int, width: int) -> None:
    y, x = np.mgrid[0:h, 0:w]
    pixels = np.stack([y * 10, x * 10, y * 0], -1).astype(np.uint8)
    covered = cover(pixels, height, width, "nearest")
    assert covered.shape == (height, width, 3)
    assert covered.flags.c_contiguous
    scale = max(height / h, width / w)
    for axis, (old, new) in enumerate(((h, height), (w, width))):
        line = covered[:, 0, 0] if axis == 0 else covered[0, :, 1]
        shown = (int(line[-1]) - int(line[0])) / 10 + 1
        assert abs(shown - (new - 1) / scale - 1) <= 2  # steps of whole pixels
        assert abs((int(line[0]) + int(line[-1])) / 20 - (old - 1) / 2) <= max(1, 1 / scale) + 0.5


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 5), np.uint8), np.zeros((4, 5, 4), np.uint8), np.zeros((4, 5, 3)), np.zeros((0, 5, 3), np.uint8)],
)
def test_only_rgb_is_resized(pixels: np.ndarray) -> None:
    for change in (resize, center_crop, cover):
        with pytest.raises(ValueError, match="expected .* uint8"):
            change(pixels, 2, 2)


def test_sizes_and_names_are_checked() -> None:
    pixels = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ValueError, match="'cubic', expected one of nearest"):
        resize(pixels, 2, 2, "cubic")
    for change in (resize, center_crop, cover):
        with pytest.raises(ValueError, match="height and width must be at least 1"):
            change(pixels, 0, 2)
    with pytest.raises(ValueError, match=r"cannot crop 5 x 5 out of 4 x 5"):
        center_crop(pixels, 5, 5)

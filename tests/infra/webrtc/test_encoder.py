from __future__ import annotations

import itertools

import av
import cv2
import numpy as np
import pytest

from realtime_engine.infra.colour import to_i420
from realtime_engine.infra.webrtc.codecs import Codec
from realtime_engine.infra.webrtc.encoder import VideoEncoder, create_encoder, default_bitrate

from .support import decoder, luma, picture, psnr

BOTH = pytest.mark.parametrize("codec", list(Codec))
SMPTE170M = 6
FRAME_NS = 33_333_333
_count = itertools.count()


def feed(encoder: VideoEncoder, pixels: np.ndarray, force_keyframe: bool = False) -> list[av.Packet]:
    """Encode the next picture of 30 in a second."""
    return encoder.encode(to_i420(pixels), force_keyframe, at_ns=next(_count) * FRAME_NS)


def decode(codec: Codec, packets: list[av.Packet]) -> list[av.VideoFrame]:
    context = decoder(codec.value)
    frames = [frame for packet in packets for frame in context.decode(av.Packet(bytes(packet)))]
    return frames + context.decode(None)


def nal_types(packet: av.Packet) -> list[int]:
    data = bytes(packet)
    starts = [i + 3 for i in range(len(data) - 3) if data[i : i + 3] == b"\0\0\1"]
    return [data[i] & 0x1F for i in starts]


@BOTH
def test_each_picture_gives_one_packet_and_only_asked_for_keyframes(codec: Codec) -> None:
    encoder = create_encoder(codec)
    packets = [feed(encoder, picture(i), force_keyframe=i in (5, 9)) for i in range(12)]
    assert [len(p) for p in packets] == [1] * 12
    assert [i for i, (packet,) in enumerate(packets) if packet.is_keyframe] == [0, 5, 9]
    encoder.close()


@BOTH
def test_a_hard_cut_makes_no_keyframe(codec: Codec) -> None:
    encoder = create_encoder(codec)
    noise = np.random.default_rng(1).integers(0, 255, (180, 320, 3), dtype=np.uint8)
    packets = [feed(encoder, pixels)[0] for pixels in (picture(0), picture(1), noise, picture(2))]
    assert [packet.is_keyframe for packet in packets] == [True, False, False, False]
    encoder.close()


@BOTH
def test_a_stream_can_be_entered_at_every_forced_keyframe(codec: Codec) -> None:
    encoder = create_encoder(codec)
    packets = [feed(encoder, picture(i), force_keyframe=i % 6 == 0)[0] for i in range(20)]
    for entry in (0, 6, 12, 18):
        frames = decode(codec, packets[entry:])
        assert len(frames) == 20 - entry
        for number, frame in enumerate(frames, entry):
            seen = frame.to_ndarray(format="yuv420p")[:180]
            assert psnr(seen, luma(picture(number))) > 40
            assert psnr(seen, luma(picture(number + 8))) < 30
    encoder.close()


@BOTH
@pytest.mark.parametrize("size", [(641, 361), (322, 242), (320, 181), (161, 90), (32, 18)])
def test_odd_sizes_grow_to_even_ones(codec: Codec, size: tuple[int, int]) -> None:
    width, height = size
    encoder = create_encoder(codec)
    pixels = picture(3, width, height)
    (frame,) = decode(codec, feed(encoder, pixels))
    assert (frame.width, frame.height) == (width + width % 2, height + height % 2)
    assert psnr(frame.to_ndarray(format="yuv420p")[:height, :width], luma(pixels)) > 32
    encoder.close()


@BOTH
def test_a_new_size_begins_with_a_keyframe(codec: Codec) -> None:
    encoder = create_encoder(codec)
    sizes = [(320, 180), (320, 180), (640, 360), (640, 360), (320, 180)]
    packets = [feed(encoder, picture(i, *size))[0] for i, size in enumerate(sizes)]
    assert [packet.is_keyframe for packet in packets] == [True, False, True, False, True]
    assert [(f.width, f.height) for f in decode(codec, packets)] == sizes
    encoder.close()


@BOTH
def test_a_closed_encoder_says_so(codec: Codec) -> None:
    encoder = create_encoder(codec)
    feed(encoder, picture(0))
    encoder.close()
    encoder.close()
    with pytest.raises(ValueError, match="closed"):
        feed(encoder, picture(1))


@BOTH
@pytest.mark.parametrize("pixels", [np.zeros((90, 160), np.uint8), np.zeros((90, 160, 3), np.float32)])
def test_other_arrays_are_refused_by_name(codec: Codec, pixels: np.ndarray) -> None:
    encoder = create_encoder(codec)
    with pytest.raises(ValueError, match=str(pixels.dtype)):
        feed(encoder, pixels)


@pytest.mark.parametrize("arguments", [{"fps": 0}, {"bitrate": 12}])
def test_impossible_settings_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"fps must be|bitrate is at least"):
        create_encoder(Codec.H264, **arguments)


TEXTURE = cv2.GaussianBlur(np.random.default_rng(5).integers(0, 255, (400, 640, 3), dtype=np.uint8), (0, 0), 2)
TEXTURE = cv2.normalize(TEXTURE, None, 0, 255, cv2.NORM_MINMAX)


def busy(number: int) -> np.ndarray:
    """Texture that moves, and that every fourth picture is another one."""
    y, x = number * 3 % 200, number * 5 % 300
    texture = TEXTURE if number % 4 else TEXTURE[::-1]
    return np.ascontiguousarray(texture[y : y + 180, x : x + 320])


def rate(codec: Codec, bitrates: list[int]) -> tuple[list[int], list[int]]:
    """Bytes of one settled second at each bitrate, and where the keyframes are."""
    encoder = create_encoder(codec, bitrate=bitrates[0])
    sizes, keyframes = [], []
    for part, bitrate in enumerate(bitrates):
        encoder.set_bitrate(bitrate)
        packets = [feed(encoder, busy(90 * part + i))[0] for i in range(90)]
        sizes.append(sum(packet.size for packet in packets[60:]))
        keyframes += [90 * part + i for i, packet in enumerate(packets) if packet.is_keyframe]
    encoder.close()
    return sizes, keyframes


def test_h264_changes_its_rate_in_the_running_stream() -> None:
    sizes, keyframes = rate(Codec.H264, [1_500_000, 500_000, 1_500_000])
    assert [8 * size for size in sizes] == pytest.approx([1_500_000, 500_000, 1_500_000], rel=0.15)
    assert keyframes == [0]


def test_h264_far_above_its_first_rate_begins_anew() -> None:
    sizes, keyframes = rate(Codec.H264, [400_000, 1_500_000])
    assert [8 * size for size in sizes] == pytest.approx([400_000, 1_500_000], rel=0.15)
    assert keyframes == [0, 90]


def test_vp8_changes_its_rate_with_a_keyframe() -> None:
    sizes, keyframes = rate(Codec.VP8, [1_500_000, 800_000])
    assert [8 * size for size in sizes] == pytest.approx([1_500_000, 800_000], rel=0.15)
    assert keyframes == [0, 90]


def test_h264_repeats_its_parameter_sets_and_says_its_colours() -> None:
    encoder = create_encoder(Codec.H264)
    packets = [feed(encoder, picture(i), force_keyframe=i == 3)[0] for i in range(6)]
    for packet in (packets[0], packets[3]):
        assert {7, 8, 5} <= set(nal_types(packet))
    assert nal_types(packets[1]) == [1]
    (first, *_) = decode(Codec.H264, packets)
    assert (first.colorspace, first.color_primaries, first.color_trc) == (SMPTE170M,) * 3
    encoder.close()


def test_the_default_bitrate_grows_slower_than_the_picture() -> None:
    assert default_bitrate(640, 360) == 1_500_000
    assert default_bitrate(1280, 720) == pytest.approx(4_000_000, rel=0.01)
    assert default_bitrate(640, 360, fps=15) == 750_000

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import av
import cv2
import numpy as np
import pytest

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.copy_stats import Copy, CopyStats
from realtime_engine.infra.encoding.base import Codec, PyavEncoder, VideoEncoder
from realtime_engine.infra.encoding.factory import SOFTWARE_ENCODERS, probe
from realtime_engine.infra.encoding.h264 import H264Encoder
from realtime_engine.infra.encoding.hardware import HARDWARE_ENCODERS
from realtime_engine.infra.encoding.vp8 import Vp8Encoder
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import ViewerPeer, WebRtcReceiver

from ..webrtc.support import decoder, luma, picture, psnr, shared

KINDS: list[type[PyavEncoder]] = [
    H264Encoder,
    Vp8Encoder,
    *(kind for kind in HARDWARE_ENCODERS if probe(kind) is None),
]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.library)
H264_KINDS = [kind for kind in KINDS if kind is not Vp8Encoder]
EVERY_H264 = pytest.mark.parametrize("kind", H264_KINDS, ids=lambda kind: kind.library)
SMPTE170M = 6
FRAME_NS = 33_333_333
_count = itertools.count()


def feed(encoder: VideoEncoder, pixels: np.ndarray, force_keyframe: bool = False) -> list[av.Packet]:
    """Encode the next picture of 30 in a second."""
    return encoder.encode(to_i420(pixels), force_keyframe, at_ns=next(_count) * FRAME_NS)


def decode(kind: type[PyavEncoder], packets: list[av.Packet]) -> list[av.VideoFrame]:
    context = decoder("VP8" if kind is Vp8Encoder else "H264")
    frames = [frame for packet in packets for frame in context.decode(av.Packet(bytes(packet)))]
    return frames + context.decode(None)


def nal_types(packet: av.Packet) -> list[int]:
    data = bytes(packet)
    starts = [i + 3 for i in range(len(data) - 3) if data[i : i + 3] == b"\0\0\1"]
    return [data[i] & 0x1F for i in starts]


@EVERY
def test_each_picture_gives_one_packet_and_only_forced_keyframes(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    packets = [feed(encoder, picture(i), force_keyframe=i in (5, 9)) for i in range(12)]
    assert [len(p) for p in packets] == [1] * 12
    assert [i for i, (packet,) in enumerate(packets) if packet.is_keyframe] == [0, 5, 9]
    encoder.close()


@EVERY
def test_a_hard_cut_makes_no_keyframe(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    noise = np.random.default_rng(1).integers(0, 255, (180, 320, 3), dtype=np.uint8)
    packets = [feed(encoder, pixels)[0] for pixels in (picture(0), picture(1), noise, picture(2))]
    assert [packet.is_keyframe for packet in packets] == [True, False, False, False]
    encoder.close()


@EVERY
def test_decoding_can_start_at_every_forced_keyframe(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    packets = [feed(encoder, picture(i), force_keyframe=i % 6 == 0)[0] for i in range(20)]
    for entry in (0, 6, 12, 18):
        frames = decode(kind, packets[entry:])
        assert len(frames) == 20 - entry
        for number, frame in enumerate(frames, entry):
            seen = frame.to_ndarray(format="yuv420p")[:180]
            assert psnr(seen, luma(picture(number))) > 40
            assert psnr(seen, luma(picture(number + 8))) < 30
    encoder.close()


@EVERY
@pytest.mark.parametrize("size", [(641, 361), (322, 242), (320, 181), (161, 90), (32, 18)])
def test_odd_sizes_are_padded_to_even_ones(kind: type[PyavEncoder], size: tuple[int, int]) -> None:
    width, height = size
    encoder = kind()
    pixels = picture(3, width, height)
    (frame,) = decode(kind, feed(encoder, pixels))
    assert (frame.width, frame.height) == (width + width % 2, height + height % 2)
    assert psnr(frame.to_ndarray(format="yuv420p")[:height, :width], luma(pixels)) > 32
    encoder.close()


@EVERY
def test_a_new_size_starts_with_a_keyframe(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    sizes = [(320, 180), (320, 180), (640, 360), (640, 360), (320, 180)]
    packets = [feed(encoder, picture(i, *size))[0] for i, size in enumerate(sizes)]
    assert [packet.is_keyframe for packet in packets] == [True, False, True, False, True]
    assert [(f.width, f.height) for f in decode(kind, packets)] == sizes
    encoder.close()


@EVERY
def test_a_closed_encoder_raises(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    feed(encoder, picture(0))
    encoder.close()
    encoder.close()
    with pytest.raises(ValueError, match="closed"):
        feed(encoder, picture(1))


@EVERY
@pytest.mark.parametrize("pixels", [np.zeros((90, 160), np.uint8), np.zeros((90, 160, 3), np.float32)])
def test_other_arrays_are_refused(kind: type[PyavEncoder], pixels: np.ndarray) -> None:
    encoder = kind()
    with pytest.raises(ValueError, match=str(pixels.dtype)):
        feed(encoder, pixels)


@pytest.mark.parametrize("arguments", [{"fps": 0}, {"bitrate": 12}])
def test_invalid_settings_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"fps must be|bitrate is 10000 to"):
        SOFTWARE_ENCODERS(Codec.H264, **arguments)


@EVERY
def test_closing_while_a_picture_is_encoded_is_safe(kind: type[PyavEncoder]) -> None:
    planes = to_i420(picture(0, 640, 360))
    for number in range(8):
        encoder = kind()
        encoder.encode(planes, at_ns=0)
        begun = threading.Event()

        def encode(encoder: PyavEncoder = encoder, begun: threading.Event = begun) -> int:
            for count in itertools.count(1):
                begun.set()
                try:
                    encoder.encode(planes, count % 3 == 0, at_ns=count * FRAME_NS)
                except ValueError as error:
                    assert "closed" in str(error)
                    return count
            raise AssertionError

        with ThreadPoolExecutor(1) as pool:
            encoding = pool.submit(encode)
            assert begun.wait(10)
            if number % 2:
                encoder.set_bitrate(400_000)
            encoder.close()
            assert encoding.result(10) >= 1
        with pytest.raises(ValueError, match="closed"):
            encoder.encode(planes, at_ns=10**12)


def test_every_codec_has_its_encoder() -> None:
    assert isinstance(SOFTWARE_ENCODERS(Codec.H264), H264Encoder)
    assert isinstance(SOFTWARE_ENCODERS(Codec.VP8), Vp8Encoder)


@EVERY
def test_copies_into_an_encoder_are_counted(kind: type[PyavEncoder]) -> None:
    copies = CopyStats()
    encoder = kind(copies=copies)
    feed(encoder, picture(0, 64, 48))
    assert copies.snapshot()[Copy.ENCODER_INPUT].times == 0
    feed(encoder, picture(0, 64, 50))
    assert copies.snapshot()[Copy.ENCODER_INPUT][:2] == (1, 64 * 75)


# -- rate

RATE = 200_000
WIDTH, HEIGHT = 144, 80
TEXTURE = cv2.GaussianBlur(np.random.default_rng(5).integers(0, 255, (300, 480, 3), dtype=np.uint8), (0, 0), 2)
TEXTURE = cv2.normalize(TEXTURE, None, 0, 255, cv2.NORM_MINMAX)


def busy(number: int) -> np.ndarray:
    """Texture that moves, and that every fourth picture is another one."""
    y, x = number * 3 % 200, number * 5 % 300
    texture = TEXTURE if number % 4 else TEXTURE[::-1]
    return to_i420(np.ascontiguousarray(texture[y : y + HEIGHT, x : x + WIDTH]))


BUSY = [busy(number) for number in range(120)]
NS = 1_000_000_000


def steady(fps: int, seconds: int) -> list[int]:
    return [number * NS // fps for number in range(fps * seconds)]


def jittered(fps: int, seconds: int) -> list[int]:
    """Intervals of 0.5 to 1.5 times the mean one."""
    intervals = np.random.default_rng(fps).uniform(0.5, 1.5, fps * seconds) * NS / fps
    return [int(at) for at in np.cumsum(intervals)]


def bursts(fps: int, seconds: int) -> list[int]:
    """Four pictures at once, then a gap."""
    return [number // 4 * 4 * NS // fps + number % 4 for number in range(fps * seconds)]


def rate_between(sizes: list[tuple[int, int]], begin: int, end: int) -> float:
    """Bits per second of stream time, from one second to another."""
    return 8 * sum(size for at, size in sizes if begin * NS <= at < end * NS) / (end - begin)


def encode_busy(encoder: VideoEncoder, times: list[int]) -> list[tuple[int, int]]:
    """Times and sizes of a stream of hard pictures."""
    return [
        (at, sum(packet.size for packet in encoder.encode(BUSY[number % len(BUSY)], at_ns=at)))
        for number, at in enumerate(times)
    ]


@EVERY
@pytest.mark.parametrize("fps", [8, 16, 30, 60])
def test_the_rate_is_kept_at_every_frame_rate(kind: type[PyavEncoder], fps: int) -> None:
    encoder = kind(fps=30, bitrate=RATE)
    sizes = encode_busy(encoder, steady(fps, 8))
    assert rate_between(sizes, 0, 8) == pytest.approx(RATE, rel=0.1)
    assert rate_between(sizes, 3, 8) == pytest.approx(RATE, rel=0.1)
    encoder.close()


@EVERY
@pytest.mark.parametrize("producer", [jittered, bursts])
@pytest.mark.parametrize("fps", [8, 16, 30, 60])
def test_the_rate_is_kept_with_an_irregular_producer(
    kind: type[PyavEncoder], producer: Callable[[int, int], list[int]], fps: int
) -> None:
    encoder = kind(fps=30, bitrate=RATE)
    sizes = encode_busy(encoder, producer(fps, 8))
    assert rate_between(sizes, 0, 8) == pytest.approx(RATE, rel=0.2)
    assert rate_between(sizes, 2, 8) == pytest.approx(RATE, rel=0.2)
    encoder.close()


@EVERY
@pytest.mark.parametrize("fps", [10, 30])
@pytest.mark.parametrize(("before", "after"), [(200_000, 120_000), (120_000, 200_000), (300_000, 100_000)])
def test_a_new_rate_is_met_within_3_seconds(kind: type[PyavEncoder], fps: int, before: int, after: int) -> None:
    encoder = kind(fps=30, bitrate=before)
    times = steady(fps, 14)
    encode_busy(encoder, times[: 6 * fps])
    encoder.set_bitrate(after)
    sizes = encode_busy(encoder, times[6 * fps :])
    assert rate_between(sizes, 9, 14) == pytest.approx(after, rel=0.1)
    encoder.close()


@pytest.mark.parametrize("kind", [H264Encoder, Vp8Encoder])
def test_a_keyframe_of_a_hard_picture_takes_a_quarter_of_a_second_at_most(kind: type[PyavEncoder]) -> None:
    noise = np.random.default_rng(3).normal(110, 25, (8, 360, 640)).clip(0, 255).astype(np.uint8)
    planes = [to_i420(luminance[..., None].repeat(3, axis=2)) for luminance in noise]
    encoder = kind(bitrate=750_000)
    times = steady(30, 2)
    for number, at in enumerate(times):
        (packet,) = encoder.encode(planes[number % len(planes)], number == len(times) - 1, at_ns=at)
    assert packet.is_keyframe and 8 * packet.size < 750_000 / 4
    encoder.close()


def test_vp8_does_not_save_for_an_overdraft_for_long() -> None:
    encoder = Vp8Encoder(bitrate=100_000)
    times = steady(60, 24)
    encode_busy(encoder, times[:60])
    encoder.set_bitrate(25_000)
    assert rate_between(encode_busy(encoder, times[60 : 18 * 60]), 1, 18) > 40_000  # these pictures take no less
    encoder.set_bitrate(100_000)
    sizes = encode_busy(encoder, times[18 * 60 :])
    assert rate_between(sizes, 20, 24) == pytest.approx(100_000, rel=0.1)
    encoder.close()


def keyframes_of(encoder: VideoEncoder, bitrates: list[int], seconds: int) -> list[int]:
    """Where keyframes are when each rate lasts for so many seconds at 30 pictures in one."""
    keys, times = [], steady(30, seconds * len(bitrates))
    for number, at in enumerate(times):
        encoder.set_bitrate(bitrates[number // (30 * seconds)])
        keys += [number for packet in encoder.encode(BUSY[number % len(BUSY)], at_ns=at) if packet.is_keyframe]
    return keys


@pytest.mark.parametrize("kind", [H264Encoder, Vp8Encoder])
def test_software_changes_its_rate_in_the_running_stream(kind: type[PyavEncoder]) -> None:
    assert keyframes_of(kind(), [300_000, 100_000, 300_000, 400_000], 1) == [0]


@pytest.mark.parametrize("kind", [H264Encoder, Vp8Encoder])
def test_a_rate_out_of_range_reopens_the_stream_but_not_often(kind: type[PyavEncoder]) -> None:
    assert keyframes_of(kind(), [100_000, 400_000, 900_000, 500_000], 1) == [0, 60]


@pytest.mark.parametrize("kind", [H264Encoder, Vp8Encoder])
def test_a_steep_fall_of_the_rate_reopens_the_stream_soon(kind: type[PyavEncoder]) -> None:
    assert keyframes_of(kind(), [900_000, 100_000, 90_000], 1) == [0, 30]


# -- the bitstream


def parameter_set(packet: av.Packet) -> bytes:
    """profile_idc, constraint flags and level_idc (ITU-T H.264, 7.3.2.1.1)."""
    data = bytes(packet)
    begin = next(i + 4 for i in range(len(data)) if data[i : i + 3] == b"\0\0\1" and data[i + 3] & 0x1F == 7)
    return data[begin : begin + 3]


async def answered_profile() -> bytes:
    """profile-level-id of the payload type that a viewer who takes every H264 is sent."""
    receiver = WebRtcReceiver()
    peer = await ViewerPeer.from_offer(
        await receiver.offer(), source=shared(FramePublisher()), on_controls=lambda text: [], codecs=(Codec.H264,)
    )
    match = re.search(r"m=video \d+ \S+ (\d+)", peer.answer)
    assert match is not None
    profile = re.search(rf"a=fmtp:{match[1]} .*profile-level-id=(\w+)", peer.answer)
    assert profile is not None
    await peer.close()
    await receiver.close()
    return bytes.fromhex(profile[1])


def is_constrained_baseline(profile: bytes) -> bool:
    """RFC 6184, table 5."""
    return profile[0] == 0x42 and bool(profile[1] & 0x40)


@EVERY_H264
@pytest.mark.parametrize("size", [(160, 90), (640, 360), (1280, 720)])
async def test_profile_and_level_are_those_of_the_answer(kind: type[PyavEncoder], size: tuple[int, int]) -> None:
    answered = await answered_profile()
    assert answered.hex() == "42e01f"
    encoder = kind(fps=30)
    for force in (False, True):
        (packet,) = feed(encoder, picture(0, *size), force)
        sent = parameter_set(packet)
        assert is_constrained_baseline(sent)
        assert is_constrained_baseline(answered)
        assert sent[2] == answered[2]
    encoder.close()


@EVERY_H264
def test_larger_pictures_have_a_higher_level(kind: type[PyavEncoder]) -> None:
    encoder = kind(fps=30)
    (packet,) = feed(encoder, picture(0, 1920, 1080))
    assert is_constrained_baseline(parameter_set(packet))
    assert parameter_set(packet)[2] == 40
    encoder.close()


@EVERY_H264
def test_h264_repeats_parameter_sets_and_labels_its_colors(kind: type[PyavEncoder]) -> None:
    encoder = kind()
    packets = [feed(encoder, picture(i), force_keyframe=i == 3)[0] for i in range(6)]
    for packet in (packets[0], packets[3]):
        assert {7, 8, 5} <= set(nal_types(packet))
    assert nal_types(packets[1]) == [1]
    (first, *_) = decode(kind, packets)
    assert (first.colorspace, first.color_primaries, first.color_trc) == (SMPTE170M,) * 3
    encoder.close()


@pytest.mark.parametrize("kind", [H264Encoder, Vp8Encoder])
@pytest.mark.parametrize("fps", [0.0001, 0.1, 240.0])
@pytest.mark.parametrize("bitrate", [10_000, None, 250_000_000])
def test_every_valid_rate_opens(kind: type[PyavEncoder], fps: float, bitrate: int | None) -> None:
    encoder = kind(fps, bitrate)
    packets = [encoder.encode(to_i420(picture(0, 64, 48)), at_ns=round(number / fps * 1e9)) for number in range(2)]
    assert [len(each) for each in packets] == [1, 1]


def test_vp8_keeps_its_rate_at_low_bitrates() -> None:
    """With the coarsest quantisers each picture spoilt the next one's prediction: twice the bits for 8 dB less."""
    shift = np.linspace(0, 6 * np.pi, 640)
    rows = np.arange(360)[:, None]
    encoder, context = SOFTWARE_ENCODERS(Codec.VP8, 30.0, 125_000), decoder("VP8")
    bits, quality = 0, []
    for number in range(120):
        waves = 110 + 90 * np.sin(shift + number / 5 + rows / 17) * np.cos(rows / 23 - number / 9)
        pixels = np.repeat(waves.astype(np.uint8)[..., None], 3, axis=2)
        for packet in feed(encoder, pixels):
            (shown,) = context.decode(av.Packet(bytes(packet)))
            if number >= 60:
                bits += 8 * packet.size
                quality.append(psnr(shown.to_ndarray(format="yuv420p")[:360], to_i420(pixels)[:360]))
    encoder.close()
    assert bits / 2 < 1.25 * 125_000
    assert np.mean(quality) > 30

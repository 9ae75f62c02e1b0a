"""How hardware encoders follow the rate, on libx264 in the place of a device."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from av.video.codeccontext import VideoCodecContext

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding.hardware import HARDWARE_ENCODERS, HardwareEncoder, NvencEncoder, VaapiEncoder

from ..webrtc.support import picture

NS = 1_000_000_000
PLANES = to_i420(picture(0, 64, 48))


class _OnX264(HardwareEncoder):
    library = "libx264"

    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        super()._configure(context, rate)
        self.rates = [*getattr(self, "rates", []), rate]

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {"tune": "zerolatency", "forced-idr": "1"}


class Retuned(_OnX264, NvencEncoder):
    library = "libx264"


class Reopened(_OnX264):
    pass


def keyframes_at(encoder: HardwareEncoder, fps: int, seconds: float, begin_s: float = 0.0) -> list[float]:
    """Seconds of the keyframes of a stream."""
    keys = []
    for number in range(int(fps * seconds)):
        at_s = begin_s + number / fps
        packets = encoder.encode(PLANES, at_ns=round(at_s * NS))
        keys += [round(at_s, 2) for packet in packets if packet.is_keyframe]
    return keys


def test_a_steady_stream_is_not_reopened() -> None:
    encoder = Reopened(30, 400_000)
    assert keyframes_at(encoder, 30, 5) == [0.0]
    assert encoder.rates == [400_000]


def test_the_rate_follows_the_measured_frame_rate() -> None:
    encoder = Reopened(30, 400_000)
    keys = keyframes_at(encoder, 15, 8)
    assert keys[0] == 0.0
    assert len(keys) == 2
    assert 2.0 <= keys[1] < 2.1
    assert encoder.rates[-1] == pytest.approx(2 * 400_000, rel=0.1)  # 15 pictures get the bits of 30


def test_small_changes_do_not_reopen_the_stream() -> None:
    encoder = Reopened(30, 400_000)
    keyframes_at(encoder, 30, 3)
    encoder.set_bitrate(420_000)
    assert keyframes_at(encoder, 30, 3, begin_s=3.0) == []
    encoder.set_bitrate(500_000)
    assert keyframes_at(encoder, 30, 3, begin_s=6.0) == [6.0]


def test_new_rates_are_spaced_except_for_steep_falls() -> None:
    encoder = Reopened(30, 400_000)
    keyframes_at(encoder, 30, 1)
    encoder.set_bitrate(600_000)
    assert keyframes_at(encoder, 30, 0.5, begin_s=1.0) == []
    encoder.set_bitrate(100_000)
    assert keyframes_at(encoder, 30, 0.5, begin_s=1.5) == [1.5]


def test_a_stream_that_can_be_retuned_is_not_reopened() -> None:
    encoder = Retuned(30, 400_000)
    keyframes_at(encoder, 30, 3)
    encoder.set_bitrate(800_000)
    assert keyframes_at(encoder, 30, 3, begin_s=3.0) == []  # the keyframe would be FFmpeg's own
    assert encoder.rates == [400_000]
    context = encoder._context
    assert context is not None and context.bit_rate == 800_000


def test_vaapi_levels_have_no_trailing_zero() -> None:
    options = VaapiEncoder()._options(1920, 1080, 4_000_000)
    assert options["level"] == "4"
    assert options["profile"] == "constrained_baseline"


@pytest.mark.parametrize("kind", HARDWARE_ENCODERS, ids=lambda kind: kind.library)
def test_every_encoder_sets_baseline_and_a_level(kind: type[HardwareEncoder]) -> None:
    options = kind()._options(640, 360, 1_000_000)
    assert "baseline" in options["profile"]
    assert options["level"] == "3.1"

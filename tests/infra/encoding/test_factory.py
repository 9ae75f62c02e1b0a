from __future__ import annotations

import errno
import logging
from typing import Any

import av
import numpy as np
import pytest

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding.base import Codec, PyavEncoder
from realtime_engine.infra.encoding.factory import ENCODER_CHOICES, FallbackEncoder, choose_encoders, probe
from realtime_engine.infra.encoding.h264 import H264Encoder
from realtime_engine.infra.encoding.hardware import HARDWARE_ENCODERS
from realtime_engine.infra.encoding.vp8 import Vp8Encoder

from ..webrtc.support import picture

PLANES = to_i420(picture(0))


class Working(H264Encoder):
    """Passes for hardware."""


class Absent(H264Encoder):
    library = "h264_unknown"


class Broken(H264Encoder):
    def encode(self, *args: Any, **named: Any) -> list[av.Packet]:
        raise av.error.PermissionError(errno.EPERM, "Operation not permitted", "avcodec_open2")


class IgnoresKeyframes(H264Encoder):
    """Makes no keyframe when asked."""

    def encode(self, planes: np.ndarray, force_keyframe: bool = False, *, at_ns: int) -> list[av.Packet]:
        return super().encode(planes, at_ns=at_ns)


class Late(H264Encoder):
    """Holds a picture back."""

    def encode(self, planes: np.ndarray, force_keyframe: bool = False, *, at_ns: int) -> list[av.Packet]:
        packets = super().encode(planes, force_keyframe, at_ns=at_ns)
        return packets if force_keyframe else []


class Wrapped(H264Encoder):
    """Is not Annex B."""

    def encode(self, planes: np.ndarray, force_keyframe: bool = False, *, at_ns: int) -> list[av.Packet]:
        made = []
        for packet in super().encode(planes, force_keyframe, at_ns=at_ns):
            made.append(av.Packet(b"\0\0\2\0" + bytes(packet)))
            made[-1].is_keyframe = packet.is_keyframe
        return made


class OneStream(H264Encoder):
    """Fails from the third picture on."""

    def encode(self, planes: np.ndarray, force_keyframe: bool = False, *, at_ns: int) -> list[av.Packet]:
        if at_ns >= 2:
            raise av.error.ExternalError(errno.EIO, "the device is gone")
        return super().encode(planes, force_keyframe, at_ns=at_ns)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Absent, "not in this build of FFmpeg"),
        (Broken, "not permitted"),
        (IgnoresKeyframes, "ignores forced keyframes"),
        (Late, "[0, 1] packets"),
        (Wrapped, "Annex B"),
    ],
)
def test_a_probe_names_the_fault(kind: type[PyavEncoder], fault: str) -> None:
    text = probe(kind)
    assert text is not None
    assert fault in text


def test_a_probe_passes_a_working_encoder() -> None:
    assert probe(Working) is None


@pytest.mark.parametrize("kind", HARDWARE_ENCODERS, ids=lambda kind: kind.library)
def test_probing_real_hardware_does_not_raise(kind: type[PyavEncoder]) -> None:
    fault = probe(kind)
    assert fault is None or fault


def test_auto_chooses_the_first_that_works(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    encoders = choose_encoders("auto", hardware=(Absent, Working))
    assert encoders.h264 is Working
    assert isinstance(encoders(Codec.H264), FallbackEncoder)
    assert isinstance(encoders(Codec.VP8), Vp8Encoder)
    assert len(caplog.records) == 1


def test_without_hardware_the_reasons_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    encoders = choose_encoders("auto", hardware=(Absent, IgnoresKeyframes))
    assert isinstance(encoders(Codec.H264, 30.0, 400_000), H264Encoder)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "libx264" in record.message
    assert "h264_unknown: not in this build of FFmpeg" in record.message
    assert "ignores forced keyframes" in record.message


def test_a_configured_encoder_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    encoders = choose_encoders("h264_unknown", hardware=(Working, Absent))
    assert encoders.h264 is H264Encoder
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Working" not in record.message


def test_software_probes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert choose_encoders("software", hardware=(Broken,)).h264 is H264Encoder
    assert not caplog.records


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, software, h264_nvenc, h264_vaapi, h264_videotoolbox, got 'x265'"):
        choose_encoders("x265")
    assert "h264_nvenc" in ENCODER_CHOICES


def test_a_failing_device_is_replaced_in_mid_stream(caplog: pytest.LogCaptureFixture) -> None:
    encoder = FallbackEncoder(OneStream(), H264Encoder())
    encoder.set_bitrate(500_000)
    packets = [encoder.encode(PLANES, at_ns=at_ns) for at_ns in range(5)]
    assert [packet.is_keyframe for (packet,) in packets] == [True, False, True, False, False]
    (record,) = caplog.records
    assert "libx264 failed" in record.message
    encoder.close()
    with pytest.raises(ValueError, match="closed"):
        encoder.encode(PLANES, at_ns=6)


def test_a_failure_in_software_is_raised() -> None:
    encoder = FallbackEncoder(Broken(), Broken())
    with pytest.raises(av.error.PermissionError):
        encoder.encode(PLANES, at_ns=0)

from __future__ import annotations

from typing import Any

import pytest
from aiortc.rtp import (
    RTCP_PSFB_APP,
    RTCP_PSFB_FIR,
    RTCP_PSFB_PLI,
    RTCP_RTPFB_NACK,
    RtcpByePacket,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpRtpfbPacket,
    pack_remb_fci,
)

from realtime_engine.infra.webrtc.feedback import Feedback, is_intra_request
from realtime_engine.infra.webrtc.sent import SentPackets
from realtime_engine.infra.webrtc.viewer import Loss
from realtime_engine.testing import ManualClock

SSRC = 0x01020304


class FakeViewer:
    def __init__(self) -> None:
        self.waits = False
        self.told: list[Any] = []

    def report_loss(self, loss: Loss = Loss.REPORTED) -> None:
        self.told.append(loss)
        self.waits = True

    def report_rate(self, bits_per_second: int) -> None:
        self.told.append(bits_per_second)

    def report_round_trip(self, seconds: float) -> None:
        self.told.append(f"{seconds} s")

    def report_missing(self, share: float) -> None:
        self.told.append(share)


@pytest.fixture
def viewer() -> FakeViewer:
    return FakeViewer()


@pytest.fixture
def feedback(viewer: FakeViewer) -> Feedback:
    sent = SentPackets(ManualClock())
    for number in range(200):
        sent.note(number)
    return Feedback(viewer, SSRC, sent, lambda report: report.dlsr or None)  # type: ignore[arg-type]


def intra_request(*ssrcs: int) -> RtcpPsfbPacket:
    fci = b"".join(ssrc.to_bytes(4, "big") + b"\1\0\0\0" for ssrc in ssrcs)
    return RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=0, fci=fci)


def nack(*lost: int) -> RtcpRtpfbPacket:
    return RtcpRtpfbPacket(fmt=RTCP_RTPFB_NACK, ssrc=1, media_ssrc=SSRC, lost=list(lost))


@pytest.mark.parametrize("packet", [RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=SSRC), intra_request(7, SSRC)])
def test_a_picture_loss_and_an_intra_request_are_losses(viewer: FakeViewer, feedback: Feedback, packet: Any) -> None:
    assert feedback.hear(packet) is packet
    assert viewer.told == [Loss.REPORTED]


def test_an_intra_request_is_for_whom_it_names() -> None:
    assert is_intra_request(intra_request(7, SSRC), SSRC)
    assert not is_intra_request(intra_request(7), SSRC)
    assert not is_intra_request(RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=SSRC), SSRC)
    assert not is_intra_request(nack(1), SSRC)


def test_an_estimate_is_told_to_whom_it_names(viewer: FakeViewer, feedback: Feedback) -> None:
    for fci in (pack_remb_fci(800_000, [SSRC]), pack_remb_fci(900_000, [7]), b"", b"REMB\xff\0\0\0", b"other app"):
        feedback.hear(RtcpPsfbPacket(fmt=RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=fci))
    assert viewer.told == [800_000]


def test_the_share_of_lost_packets_is_told(viewer: FakeViewer, feedback: Feedback) -> None:
    reports = [RtcpReceiverInfo(ssrc, lost, 0, 0, 0, 0, 0) for ssrc, lost in ((7, 200), (SSRC, 64))]
    packet = RtcpRrPacket(ssrc=1, reports=reports)
    assert feedback.hear(packet) is packet
    assert viewer.told == [0.25]


def test_the_time_of_a_round_trip_is_told_if_it_is_known(viewer: FakeViewer, feedback: Feedback) -> None:
    feedback.hear(RtcpRrPacket(ssrc=1, reports=[RtcpReceiverInfo(SSRC, 0, 0, 0, 0, 0, 7)]))
    assert viewer.told == [0, "7 s"]


def test_while_an_answer_is_on_its_way_it_is_not_sent_once_more(viewer: FakeViewer, feedback: Feedback) -> None:
    assert feedback.hear(nack(190)) == nack(190)
    assert feedback.hear(nack(190, 195)) == nack(195)


def test_what_can_be_sent_again_is_left_to_the_sender(viewer: FakeViewer, feedback: Feedback) -> None:
    assert feedback.hear(nack(190, 195, 201)) == nack(190, 195)
    assert feedback.hear(nack(201)) is None
    assert viewer.told == []


def test_what_cannot_be_sent_again_is_a_loss_at_once(viewer: FakeViewer, feedback: Feedback) -> None:
    assert feedback.hear(nack(10, 195)) is None
    assert viewer.told == [Loss.UNSERVED]
    assert feedback.hear(nack(195)) is None  # it waits for a keyframe


def test_a_number_beyond_the_last_is_the_first(viewer: FakeViewer, feedback: Feedback) -> None:
    assert feedback.hear(nack(0x10000 + 195)) == nack(195)


def test_without_knowledge_of_what_was_sent_requests_are_passed_on(viewer: FakeViewer) -> None:
    feedback = Feedback(viewer, SSRC, None, lambda report: None)  # type: ignore[arg-type]
    assert feedback.hear(nack(10)) == nack(10)
    goodbye = RtcpByePacket(sources=[1])
    assert feedback.hear(goodbye) is goodbye
    assert viewer.told == []

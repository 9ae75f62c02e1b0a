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

from realtime_engine.infra.webrtc.rtcp_feedback import Feedback, NackDecision, RetransmissionHistory, is_intra_request
from realtime_engine.infra.webrtc.send_queue import Loss
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
    sent = RetransmissionHistory(ManualClock())
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


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.sent = RetransmissionHistory(self.clock, kept=16)
        self._next = first

    def send(self, count: int, *, key: bool = False) -> list[int]:
        """Send so many packets, one each 10 ms, the first of which begins a keyframe if that is wanted."""
        numbers = [(self._next + index) & 0xFFFF for index in range(count)]
        self._next += count
        for index, number in enumerate(numbers):
            self.clock.advance(0.01)
            assert self.sent.note(number, begins_keyframe=key and index == 0)
        return numbers


@pytest.fixture(params=[100, 0xFFFF - 5])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_young_packets_are_sent_again(bench: Bench) -> None:
    numbers = bench.send(12)
    assert bench.sent.judge(numbers[3:6]) == NackDecision(numbers[3:6], False)


@pytest.mark.parametrize(("round_trip_s", "way_s"), [(0.01, 0.04), (0.2, 0.2)])
def test_a_packet_is_not_sent_again_while_it_may_be_on_its_way(bench: Bench, round_trip_s: float, way_s: float) -> None:
    numbers = bench.send(5)
    bench.sent.round_trip_s = round_trip_s
    assert bench.sent.judge(numbers[:2]) == NackDecision(numbers[:2], False)
    bench.clock.advance(0.9 * way_s)
    assert bench.sent.judge(numbers[:3]) == NackDecision(numbers[2:3], False)
    bench.clock.advance(0.2 * way_s)
    assert bench.sent.judge(numbers[:3]) == NackDecision(numbers[:2], False)


def test_packets_that_the_sender_has_forgotten_are_lost(bench: Bench) -> None:
    numbers = bench.send(17)
    assert bench.sent.judge(numbers[1:3]) == NackDecision(numbers[1:3], False)
    assert bench.sent.judge(numbers[:3]) == NackDecision([], True)


def test_old_packets_are_lost_and_nothing_with_them_is_sent_again(bench: Bench) -> None:
    old = bench.send(2)
    bench.clock.advance(0.6)
    young = bench.send(2)
    assert bench.sent.judge(young) == NackDecision(young, False)
    assert bench.sent.judge([*young, *old]) == NackDecision([], True)


def test_what_came_before_the_last_keyframe_is_of_no_use(bench: Bench) -> None:
    before = bench.send(20)
    key = bench.send(3, key=True)
    after = bench.send(3)
    assert bench.sent.judge([*before, key[0], after[1]]) == NackDecision([key[0], after[1]], False)
    bench.clock.advance(1)
    assert bench.sent.judge(before) == NackDecision([], False)
    assert bench.sent.judge(key) == NackDecision([], True)


def test_packets_that_were_never_sent_are_ignored(bench: Bench) -> None:
    assert bench.sent.judge([5]) == NackDecision([], False)
    numbers = bench.send(2)
    assert bench.sent.judge([(numbers[-1] + 1) & 0xFFFF]) == NackDecision([], False)


def test_a_packet_that_is_sent_again_is_not_new(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.note(numbers[0]) is False and bench.sent.note(numbers[-1]) is False


def test_a_keyframe_of_long_ago_is_forgotten(bench: Bench) -> None:
    bench.send(1, key=True)
    for _ in range(4):
        numbers = bench.send(10_000)
    assert bench.sent.judge(numbers[:1]) == NackDecision([], True)


def test_a_request_that_repeats_itself_is_answered_once(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.judge(numbers * 1000) == NackDecision(numbers, False)
    assert bench.sent.judge(numbers) == NackDecision([], False)
    bench.clock.advance(0.04)
    assert bench.sent.judge(numbers) == NackDecision(numbers, False)


def test_no_packet_is_sent_again_without_an_end(bench: Bench) -> None:
    (number,) = bench.send(1)
    answers = 0
    for _ in range(20):
        bench.clock.advance(0.041)
        answers += len(bench.sent.judge([number]).again)
    assert answers == 4

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

from realtime_engine.infra.webrtc.rtcp_feedback import (
    NackDecision,
    RetransmissionHistory,
    RtcpFeedback,
    is_intra_request,
)
from realtime_engine.infra.webrtc.send_queue import Loss
from realtime_engine.testing import ManualClock

SSRC = 0x01020304


class FakeViewer:
    def __init__(self) -> None:
        self.needs_keyframe = False
        self.reported: list[Any] = []

    def report_loss(self, loss: Loss = Loss.REPORTED) -> None:
        self.reported.append(loss)
        self.needs_keyframe = True

    def report_rate(self, bits_per_second: int) -> None:
        self.reported.append(bits_per_second)

    def report_round_trip(self, seconds: float) -> None:
        self.reported.append(f"{seconds} s")

    def report_missing(self, share: float) -> None:
        self.reported.append(share)


@pytest.fixture
def viewer() -> FakeViewer:
    return FakeViewer()


@pytest.fixture
def feedback(viewer: FakeViewer) -> RtcpFeedback:
    sent = RetransmissionHistory(ManualClock())
    for number in range(200):
        sent.record(number)
    return RtcpFeedback(viewer, SSRC, sent, lambda report: report.dlsr or None)  # type: ignore[arg-type]


def intra_request(*ssrcs: int) -> RtcpPsfbPacket:
    fci = b"".join(ssrc.to_bytes(4, "big") + b"\1\0\0\0" for ssrc in ssrcs)
    return RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=0, fci=fci)


def nack(*lost: int) -> RtcpRtpfbPacket:
    return RtcpRtpfbPacket(fmt=RTCP_RTPFB_NACK, ssrc=1, media_ssrc=SSRC, lost=list(lost))


@pytest.mark.parametrize("packet", [RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=SSRC), intra_request(7, SSRC)])
def test_a_picture_loss_and_an_intra_request_are_losses(
    viewer: FakeViewer, feedback: RtcpFeedback, packet: Any
) -> None:
    assert feedback.on_packet(packet) is packet
    assert viewer.reported == [Loss.REPORTED]


def test_an_intra_request_names_its_stream() -> None:
    assert is_intra_request(intra_request(7, SSRC), SSRC)
    assert not is_intra_request(intra_request(7), SSRC)
    assert not is_intra_request(RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=SSRC), SSRC)
    assert not is_intra_request(nack(1), SSRC)


def test_an_estimate_counts_for_the_stream_that_it_names(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    for fci in (pack_remb_fci(800_000, [SSRC]), pack_remb_fci(900_000, [7]), b"", b"REMB\xff\0\0\0", b"other app"):
        feedback.on_packet(RtcpPsfbPacket(fmt=RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=fci))
    assert viewer.reported == [800_000]


def test_the_share_of_lost_packets_is_passed_on(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    reports = [RtcpReceiverInfo(ssrc, lost, 0, 0, 0, 0, 0) for ssrc, lost in ((7, 200), (SSRC, 64))]
    packet = RtcpRrPacket(ssrc=1, reports=reports)
    assert feedback.on_packet(packet) is packet
    assert viewer.reported == [0.25]


def test_a_known_round_trip_time_is_passed_on(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    feedback.on_packet(RtcpRrPacket(ssrc=1, reports=[RtcpReceiverInfo(SSRC, 0, 0, 0, 0, 0, 7)]))
    assert viewer.reported == [0, "7 s"]


def test_nothing_is_retransmitted_twice_within_a_round_trip(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    assert feedback.on_packet(nack(190)) == nack(190)
    assert feedback.on_packet(nack(190, 195)) == nack(195)


def test_available_packets_are_left_to_the_sender(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    assert feedback.on_packet(nack(190, 195, 201)) == nack(190, 195)
    assert feedback.on_packet(nack(201)) is None
    assert viewer.reported == []


def test_a_nack_for_a_lost_packet_is_a_loss(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    assert feedback.on_packet(nack(10, 195)) is None
    assert viewer.reported == [Loss.UNSERVED]
    assert feedback.on_packet(nack(195)) is None  # the viewer needs a keyframe first


def test_sequence_numbers_wrap(viewer: FakeViewer, feedback: RtcpFeedback) -> None:
    assert feedback.on_packet(nack(0x10000 + 195)) == nack(195)


def test_without_a_history_nacks_are_passed_on(viewer: FakeViewer) -> None:
    feedback = RtcpFeedback(viewer, SSRC, None, lambda report: None)  # type: ignore[arg-type]
    assert feedback.on_packet(nack(10)) == nack(10)
    goodbye = RtcpByePacket(sources=[1])
    assert feedback.on_packet(goodbye) is goodbye
    assert viewer.reported == []


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.sent = RetransmissionHistory(self.clock, size=16)
        self._next = first

    def send(self, count: int, *, key: bool = False) -> list[int]:
        """Send packets at intervals of 10 ms; with ``key``, the first of them starts a keyframe."""
        numbers = [(self._next + index) & 0xFFFF for index in range(count)]
        self._next += count
        for index, number in enumerate(numbers):
            self.clock.advance(0.01)
            assert self.sent.record(number, starts_keyframe=key and index == 0)
        return numbers


@pytest.fixture(params=[100, 0xFFFF - 5])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_recent_packets_are_retransmitted(bench: Bench) -> None:
    numbers = bench.send(12)
    assert bench.sent.decide(numbers[3:6]) == NackDecision(numbers[3:6], False)


@pytest.mark.parametrize(("round_trip_s", "way_s"), [(0.01, 0.04), (0.2, 0.2)])
def test_a_packet_is_retransmitted_after_a_round_trip_at_the_earliest(
    bench: Bench, round_trip_s: float, way_s: float
) -> None:
    numbers = bench.send(5)
    bench.sent.round_trip_s = round_trip_s
    assert bench.sent.decide(numbers[:2]) == NackDecision(numbers[:2], False)
    bench.clock.advance(0.9 * way_s)
    assert bench.sent.decide(numbers[:3]) == NackDecision(numbers[2:3], False)
    bench.clock.advance(0.2 * way_s)
    assert bench.sent.decide(numbers[:3]) == NackDecision(numbers[:2], False)


def test_packets_outside_the_history_are_lost(bench: Bench) -> None:
    numbers = bench.send(17)
    assert bench.sent.decide(numbers[1:3]) == NackDecision(numbers[1:3], False)
    assert bench.sent.decide(numbers[:3]) == NackDecision([], True)


def test_nothing_is_retransmitted_together_with_a_stale_packet(bench: Bench) -> None:
    old = bench.send(2)
    bench.clock.advance(0.6)
    young = bench.send(2)
    assert bench.sent.decide(young) == NackDecision(young, False)
    assert bench.sent.decide([*young, *old]) == NackDecision([], True)


def test_packets_before_the_last_keyframe_are_not_retransmitted(bench: Bench) -> None:
    before = bench.send(20)
    key = bench.send(3, key=True)
    after = bench.send(3)
    assert bench.sent.decide([*before, key[0], after[1]]) == NackDecision([key[0], after[1]], False)
    bench.clock.advance(1)
    assert bench.sent.decide(before) == NackDecision([], False)
    assert bench.sent.decide(key) == NackDecision([], True)


def test_packets_that_were_never_sent_are_ignored(bench: Bench) -> None:
    assert bench.sent.decide([5]) == NackDecision([], False)
    numbers = bench.send(2)
    assert bench.sent.decide([(numbers[-1] + 1) & 0xFFFF]) == NackDecision([], False)


def test_a_retransmission_is_not_recorded_as_new(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.record(numbers[0]) is False and bench.sent.record(numbers[-1]) is False


def test_an_old_keyframe_is_forgotten_before_numbers_wrap(bench: Bench) -> None:
    bench.send(1, key=True)
    for _ in range(4):
        numbers = bench.send(10_000)
    assert bench.sent.decide(numbers[:1]) == NackDecision([], True)


def test_a_repeated_request_is_answered_once(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.decide(numbers * 1000) == NackDecision(numbers, False)
    assert bench.sent.decide(numbers) == NackDecision([], False)
    bench.clock.advance(0.04)
    assert bench.sent.decide(numbers) == NackDecision(numbers, False)


def test_retransmissions_of_a_packet_are_limited(bench: Bench) -> None:
    (number,) = bench.send(1)
    answers = 0
    for _ in range(20):
        bench.clock.advance(0.041)
        answers += len(bench.sent.decide([number]).retransmit)
    assert answers == 4

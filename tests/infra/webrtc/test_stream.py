from __future__ import annotations

import asyncio

import pytest

from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.publisher import FramePublisher, Subscription
from realtime_engine.infra.webrtc.send_queue import Loss, StreamEnded
from realtime_engine.infra.webrtc.shared_video import SharedVideo
from realtime_engine.infra.webrtc.tiers import Tier

from .bench import Bench, seqs
from .support import frame, until


@pytest.fixture
async def bench():  # type: ignore[no-untyped-def]
    bench = Bench()
    yield bench
    await bench.close()


async def test_without_viewers_nothing_is_read_or_encoded(bench: Bench) -> None:
    bench.source.publish(frame(0))
    await asyncio.sleep(0)
    assert bench.encoders == [] and bench.source.viewers == 0


async def test_two_viewers_share_one_encode(bench: Bench) -> None:
    one, two = bench.video.add_viewer(Codec.VP8), bench.video.add_viewer(Codec.VP8)
    for _ in range(3):
        await bench.show()
    assert await seqs(one, 3) == await seqs(two, 3) == [0, 1, 2]
    assert len(bench.encoders) == 1 and len(bench.keyframes) == 3
    assert bench.stats.viewers == 2 and bench.source.viewers == 1


async def test_packets_are_stamped_with_the_arrival_of_their_frame(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    for after_ms in (0, 40, 100, 0):
        await bench.show(after_ms)
    packets = [(await viewer.next()).packet for _ in range(4)]
    assert [packet.pts for packet in packets] == [0, 3600, 12600, 12601]
    assert all(packet.time_base * 90_000 == 1 for packet in packets)


async def test_a_late_viewer_starts_with_a_new_keyframe(bench: Bench) -> None:
    bench.video.add_viewer(Codec.VP8)
    await bench.show()
    await bench.show()
    late = bench.video.add_viewer(Codec.VP8)
    await bench.show(after_ms=300)
    await bench.show()
    assert bench.keyframes == [True, False, True, False]
    first = await late.next()
    assert first.id.seq == 2 and first.packet.is_keyframe


async def test_viewers_added_close_together_share_a_keyframe(bench: Bench) -> None:
    bench.video.add_viewer(Codec.VP8)
    await bench.show()
    late = []
    for _ in range(3):
        late.append(bench.video.add_viewer(Codec.VP8))
        await bench.show(after_ms=80)
    await bench.show(after_ms=80)
    assert bench.keyframes == [True, False, False, False, True]
    assert [(await viewer.next()).id.seq for viewer in late] == [4, 4, 4]


async def test_a_viewer_added_during_an_encode_waits_for_a_keyframe(bench: Bench) -> None:
    gate = bench.gate_encoder()
    first = bench.video.add_viewer(Codec.VP8)
    for number in range(2):
        bench.source.publish(frame(number))
        await until(lambda: gate.waiting)
        if number == 0:
            gate.open()
            assert (await first.next()).packet.is_keyframe
    late = bench.video.add_viewer(Codec.VP8)
    bench.clock.advance(1)
    gate.open()
    assert not (await first.next()).packet.is_keyframe
    bench.source.publish(frame(2))
    await until(lambda: gate.waiting)
    gate.open()
    encoded = await late.next()
    assert encoded.packet.is_keyframe and encoded.id.seq == 2


async def test_a_viewer_added_while_the_source_is_idle_gets_the_newest_frame(bench: Bench) -> None:
    bench.video.add_viewer(Codec.VP8)
    await bench.show()
    late = bench.video.add_viewer(Codec.VP8)
    bench.clock.advance(1)
    encoded = await late.next()
    assert encoded.id.seq == 0 and encoded.packet.is_keyframe
    assert bench.stats.frames_repeated == 1


async def test_a_cleared_frame_is_not_repeated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.video.add_viewer(Codec.VP8)
    await bench.show()
    bench.source.clear()
    late = bench.video.add_viewer(Codec.VP8)
    bench.clock.advance(1)
    rewind = Subscription.rewind
    rewound = asyncio.Event()
    monkeypatch.setattr(Subscription, "rewind", lambda subscription: (rewind(subscription), rewound.set()))
    await rewound.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.stats.frames_encoded == 1
    await bench.show()
    encoded = await late.next()
    assert encoded.id.seq == 1 and encoded.packet.is_keyframe


async def test_losses_bring_at_most_one_keyframe_in_250_ms(bench: Bench) -> None:
    one, two, lucky = (bench.video.add_viewer(Codec.VP8) for _ in range(3))
    await bench.show()
    for number in range(17):
        if (await lucky.next()).packet.is_keyframe:
            assert await seqs(one, 1) == await seqs(two, 1) == [number]
        one.report_loss()
        two.report_loss(Loss.UNSERVED)
        await bench.show(after_ms=40)
    assert [i for i, key in enumerate(bench.keyframes) if key] == [0, 7, 14]
    assert bench.stats.losses == {Loss.REPORTED: 3, Loss.UNSERVED: 3}


async def test_after_a_loss_a_viewer_gets_nothing_before_a_keyframe(bench: Bench) -> None:
    unlucky, lucky = bench.video.add_viewer(Codec.VP8), bench.video.add_viewer(Codec.VP8)
    await bench.show()
    await bench.show()
    assert await seqs(unlucky, 1) == [0]
    unlucky.report_loss()
    for _ in range(3):
        await bench.show(after_ms=90)
        await lucky.next()
    encoded = await unlucky.next()
    assert encoded.packet.is_keyframe and encoded.id.seq == 4


async def test_a_queued_keyframe_serves_a_loss(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    viewer.report_loss()
    await bench.show(after_ms=300)
    assert await seqs(viewer, 2) == [0, 1]
    assert bench.keyframes == [True, False]


async def test_a_blind_viewer_gets_keyframes_at_intervals(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8, blind=True)
    for _ in range(9):
        await bench.show(after_ms=500)
        await viewer.next()
    assert [i for i, key in enumerate(bench.keyframes) if key] == [0, 4, 8]


async def test_an_overflowed_queue_continues_with_a_keyframe_without_effect_on_others(bench: Bench) -> None:
    slow, quick = bench.video.add_viewer(Codec.VP8), bench.video.add_viewer(Codec.VP8)
    for _ in range(12):
        await bench.show(after_ms=100)
        await quick.next()
    assert not any(bench.keyframes[1:]) and not bench.stats.losses
    late = asyncio.create_task(slow.next())
    await until(lambda: bench.stats.losses == {Loss.OVERFLOW: 1})
    await bench.show(after_ms=100)
    encoded = await late
    assert encoded.packet.is_keyframe and encoded.id.seq == 12


async def test_frames_are_skipped_while_no_queue_has_room(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    for _ in range(4):
        await bench.show()
    for number in (4, 5, 6):
        bench.source.publish(frame(number))
        for _ in range(10):
            await asyncio.sleep(0)
    assert bench.stats.frames_encoded == 4
    assert await seqs(viewer, 5) == [0, 1, 2, 3, 6]
    assert bench.keyframes == [True, False, False, False, False] and not bench.stats.losses


async def test_the_stream_stops_with_the_last_viewer_and_starts_with_the_next(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    viewer.close()
    viewer.close()
    await until(lambda: bench.encoders[0].closed)
    assert bench.source.viewers == 0
    again = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    assert (await again.next()).packet.is_keyframe
    assert len(bench.encoders) == 2


async def test_a_closed_source_ends_every_viewer(bench: Bench) -> None:
    viewers = [bench.video.add_viewer(Codec.VP8), bench.video.add_viewer(Codec.VP8)]
    await bench.show()
    bench.source.close()
    await until(lambda: bench.encoders[0].closed)
    for viewer in [*viewers, bench.video.add_viewer(Codec.VP8)]:
        with pytest.raises(StreamEnded) as ended:
            await viewer.next()
        assert ended.value.error is None


async def test_an_error_ends_the_viewers_and_the_next_one_gets_a_new_stream(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    await viewer.next()
    error = bench.encoders[0].error = RuntimeError("broken on purpose")
    bench.source.publish(frame(1))
    with pytest.raises(StreamEnded) as ended:
        await viewer.next()
    assert ended.value.error is error
    assert "broken on purpose" in caplog.text
    await until(lambda: bench.encoders[0].closed)

    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    assert (await viewer.next()).packet.is_keyframe


async def test_a_published_frame_is_encoded_in_the_next_turn_of_the_loop(bench: Bench) -> None:
    gate = bench.gate_encoder()
    viewer = bench.video.add_viewer(Codec.VP8)
    for number in range(3):
        bench.source.publish(frame(number))
        await asyncio.sleep(0)
        if number:  # the first one finds a stream that is starting
            assert gate.waiting
        await until(lambda: gate.waiting)
        gate.open()
        await viewer.next()
        for _ in range(5):
            await asyncio.sleep(0)  # the stream waits for the next frame now
        assert sum("video" in task.get_name() for task in asyncio.all_tasks()) == 1


async def test_a_frame_is_stamped_with_its_arrival_while_the_encoder_is_busy(bench: Bench) -> None:
    gate = bench.gate_encoder()
    viewer = bench.video.add_viewer(Codec.VP8)
    bench.source.publish(frame(0))
    await until(lambda: gate.waiting)
    bench.clock.advance(0.01)
    arrived_ns = bench.clock.now_ns()
    bench.source.publish(frame(1))
    bench.clock.advance(0.03)
    gate.open()
    await viewer.next()
    await until(lambda: gate.waiting)
    gate.open()
    assert (await viewer.next()).paced_ns == arrived_ns


async def test_only_the_newest_frame_is_encoded(bench: Bench) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    for number in range(1, 5):
        bench.source.publish(frame(number))
    await bench.show()
    assert len(bench.keyframes) == 2
    assert [(await viewer.next()).packet.is_keyframe for _ in range(2)] == [True, False]


async def test_a_frame_whose_epoch_ends_during_its_encode_is_not_sent(bench: Bench) -> None:
    gate = bench.gate_encoder()
    viewer = bench.video.add_viewer(Codec.VP8)
    for number in range(3):
        bench.source.publish(frame(number, epoch=3 if number == 2 else 2))
        await until(lambda: gate.waiting)
        if number == 1:
            bench.source.begin_epoch(3)
        gate.open()
        if number != 1:
            encoded = await viewer.next()
            assert encoded.packet.is_keyframe and encoded.id.seq == number


async def test_a_frame_whose_epoch_ends_before_its_encode_is_not_encoded(bench: Bench) -> None:
    gate = bench.gate_encoder()
    viewer = bench.video.add_viewer(Codec.VP8)
    bench.source.publish(frame(0))
    await until(lambda: gate.waiting)
    bench.source.publish(frame(1))
    await asyncio.sleep(0.01)
    bench.source.begin_epoch(3)
    gate.open()
    await asyncio.sleep(0.01)
    bench.source.publish(frame(2, epoch=3))
    await until(lambda: gate.waiting)
    gate.open()
    assert (await viewer.next()).id.seq == 2
    assert bench.keyframes == [True, True]


@pytest.mark.parametrize("late_by", [0, 1])
async def test_queued_packets_end_with_their_epoch(bench: Bench, late_by: int) -> None:
    viewer = bench.video.add_viewer(Codec.VP8)
    await bench.show()
    await viewer.next()
    await bench.show()
    await bench.show()
    bench.source.begin_epoch(3)
    for number in range(10, 10 + late_by):  # reaches the viewer, but refers to what it is not sent
        bench.source.publish(frame(number, epoch=3))
        await until(lambda: bench.stats.frames_encoded == 4)
    waiting = asyncio.create_task(viewer.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.source.publish(frame(20, epoch=3))
    encoded = await waiting
    assert encoded.packet.is_keyframe and encoded.id.epoch == 3 and encoded.id.seq == 20


async def test_a_closed_source_ends_a_new_viewer_without_an_error(bench: Bench) -> None:
    bench.source.close()
    with pytest.raises(StreamEnded) as ended:
        await bench.video.add_viewer(Codec.VP8).next()
    assert ended.value.error is None


async def test_codecs_have_encoders_of_their_own(bench: Bench) -> None:
    h264, vp8 = bench.video.add_viewer(Codec.H264), bench.video.add_viewer(Codec.VP8)
    await bench.show()
    assert await seqs(h264, 1) == await seqs(vp8, 1) == [0]
    assert len(bench.encoders) == 2
    assert bench.video.stats[Codec.H264, Tier.FULL].viewers == 1


async def test_a_closed_video_ends_a_new_viewer() -> None:
    video = SharedVideo(FramePublisher())
    video.add_viewer(Codec.H264)
    await video.close()
    await video.close()
    with pytest.raises(StreamEnded):
        await video.add_viewer(Codec.H264).next()

from __future__ import annotations

from collections import Counter

from realtime_engine.infra.webrtc import Loss, StreamStats, Tier
from realtime_engine.server.counters import Counts


def test_counts_add_up_field_by_field() -> None:
    losses = Counter({(Tier.FULL, Loss.UNSERVED): 1})
    one = Counts(published=1, dropped=2, encodes=Counter({Tier.FULL: 5}), losses=losses)
    two = Counts(published=10, recordings=1, encodes=Counter({Tier.FULL: 50, Tier.HALF: 1}))
    assert one.plus(two) == Counts(
        published=11,
        dropped=2,
        recordings=1,
        encodes=Counter({Tier.FULL: 55, Tier.HALF: 1}),
        losses=losses,
    )


def test_the_tiers_of_all_codecs_add_up_and_nothing_else_changes() -> None:
    stats = StreamStats(frames_encoded=7, keyframes=2, losses=Counter({Loss.OVERFLOW: 3}))
    before = Counts(published=9)
    counts = before.with_video([(Tier.HALF, stats), (Tier.HALF, stats), (Tier.FULL, StreamStats())])
    assert counts.published == 9 and before == Counts(published=9)
    assert counts.encodes[Tier.HALF] == 14 and counts.keyframes[Tier.HALF] == 4
    assert counts.losses == {(Tier.HALF, Loss.OVERFLOW): 6}
    assert counts.encodes[Tier.FULL] == 0

import asyncio

from realtime_engine.server.sessions.run_state import PauseReason, RunState


async def test_the_engine_is_told_when_the_first_hold_comes_and_the_last_one_goes() -> None:
    told: list[bool] = []
    activity = RunState(told.append)
    activity.hold(PauseReason.PLAYER, True)
    activity.hold(PauseReason.UNWATCHED, True)
    activity.hold(PauseReason.UNWATCHED, True)
    activity.hold(PauseReason.PLAYER, False)
    assert told == [False] and not activity.active
    activity.hold(PauseReason.AHEAD, False)
    activity.hold(PauseReason.UNWATCHED, False)
    assert told == [False, True] and activity.active


async def test_it_is_settled_when_every_word_is_answered() -> None:
    activity = RunState(lambda active: None)
    await activity.settled()
    activity.hold(PauseReason.PLAYER, True)
    activity.hold(PauseReason.PLAYER, False)
    waiting = asyncio.create_task(activity.settled())
    activity.answered()
    await asyncio.sleep(0)
    assert not waiting.done()
    activity.answered()
    await waiting


async def test_nobody_waits_for_one_that_is_closed() -> None:
    activity = RunState(lambda active: None)
    activity.hold(PauseReason.PLAYER, True)
    activity.close()
    await activity.settled()

import asyncio

from realtime_engine.server.sessions.run_state import Activity, Hold


async def test_the_engine_is_told_when_the_first_hold_comes_and_the_last_one_goes() -> None:
    told: list[bool] = []
    activity = Activity(told.append)
    activity.hold(Hold.PLAYER, True)
    activity.hold(Hold.UNWATCHED, True)
    activity.hold(Hold.UNWATCHED, True)
    activity.hold(Hold.PLAYER, False)
    assert told == [False] and not activity.active
    activity.hold(Hold.AHEAD, False)
    activity.hold(Hold.UNWATCHED, False)
    assert told == [False, True] and activity.active


async def test_it_is_settled_when_every_word_is_answered() -> None:
    activity = Activity(lambda active: None)
    await activity.settled()
    activity.hold(Hold.PLAYER, True)
    activity.hold(Hold.PLAYER, False)
    waiting = asyncio.create_task(activity.settled())
    activity.answered()
    await asyncio.sleep(0)
    assert not waiting.done()
    activity.answered()
    await waiting


async def test_nobody_waits_for_one_that_is_closed() -> None:
    activity = Activity(lambda active: None)
    activity.hold(Hold.PLAYER, True)
    activity.close()
    await activity.settled()

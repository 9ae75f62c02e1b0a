from ..support import FREE, HELD, frame_where, in_process


async def test_one_message_or_several_steer_and_are_answered() -> None:
    async with in_process() as served:
        place = await served.take()
        session = served.session(place)
        assert await place.send(1, keys=["KeyW"]) == []
        walking = await frame_where(session, lambda colour: colour[1] == HELD)
        assert walking.id.action_id == 1
        several = [{"v": 1, "type": "ping", "seq": 8}, {"v": 1, "type": "blur", "seq": 2}, {"v": 1, "type": "dance"}]
        replies = (await place.request("POST", "actions", json=several)).json()
        assert [reply["type"] for reply in replies] == ["pong", "error"]
        assert (await frame_where(session, lambda colour: colour[1] == FREE)).id.action_id == 2


async def test_a_body_of_another_kind_is_refused() -> None:
    async with in_process() as served:
        place = await served.take()
        for body in (5, [5], "text"):
            assert (await place.request("POST", "actions", json=body)).status_code == 422
        assert (await place.request("POST", "actions", content=b"{")).status_code == 400


async def test_there_is_a_limit_to_the_messages_of_a_request() -> None:
    async with in_process() as served:
        place = await served.take()
        pings = [{"v": 1, "type": "ping", "seq": seq} for seq in range(65)]
        assert len((await place.request("POST", "actions", json=pings[:64])).json()) == 64
        for body in (pings, [1] * 1000):
            refused = await place.request("POST", "actions", json=body)
            assert refused.status_code == 422 and len(refused.content) < 5000
        assert (await place.request("POST", "actions", json=[1] * 200_000)).status_code == 413

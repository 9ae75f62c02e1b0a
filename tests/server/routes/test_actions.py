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

"""Video through a real TURN server, where neither side shows the other an address of its own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import (
    IceConfig,
    IceServer,
    NoCandidatesError,
    PeerOptions,
    ReachabilityKind,
    TurnSecret,
    ViewerPeer,
    WebRtcReceiver,
    find_reachability,
)

from ...coturn import Coturn, coturn
from .support import Player, shared

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def with_users() -> Iterator[Coturn]:
    with coturn("--user=ann:pass") as server:
        yield server


@pytest.fixture(scope="module")
def with_secret() -> Iterator[Coturn]:
    """With the options of the compose file, but for its ports."""
    composed = yaml.safe_load((ROOT / "docker" / "compose.turn.yml").read_text())
    options = [_substituted(option, TURN_SECRET="north", PUBLIC_ADDRESS="127.0.0.1") for option in _command(composed)]
    assert "--static-auth-secret=north" in options and "--allowed-peer-ip=127.0.0.1" in options
    with coturn(*options) as server:
        yield server


def _command(composed: dict[str, Any]) -> list[str]:
    options: list[str] = composed["services"]["turn"]["command"]
    return [option for option in options if "-port=" not in option and not option.startswith("--log-file")]


def _substituted(option: str, **variables: str) -> str:
    """As compose does it: ``${NAME:?why}`` and ``${NAME:-default}``, innermost first."""
    while found := re.search(r"\$\{(\w+)(?::([?-])([^${}]*))?\}", option):
        name, _, default = found.groups()
        option = option.replace(found[0], variables.get(name, default or ""))
    return option


@asynccontextmanager
async def relayed(
    source: FramePublisher, server_side: IceConfig, viewer_side: IceConfig
) -> AsyncIterator[WebRtcReceiver]:
    receiver = WebRtcReceiver(ice=viewer_side)
    peer = None
    try:
        offer = await receiver.offer()
        peer = await ViewerPeer.from_offer(
            offer, source=shared(source), on_controls=lambda text: [text], options=PeerOptions(ice=server_side)
        )
        for description in (offer, peer.answer):
            candidates = [line for line in description.splitlines() if line.startswith("a=candidate")]
            assert candidates and all(" typ relay raddr 0.0.0.0 rport 9" in line for line in candidates)
        await receiver.set_answer(peer.answer)
        yield receiver
    finally:
        await receiver.close()
        if peer is not None:
            await peer.close()


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_video_and_controls_use_only_the_relay(with_users: Coturn, transport: str) -> None:
    """By TCP, as where a viewer's network lets no UDP through."""
    ice = IceConfig([IceServer(with_users.url, "ann", "pass")], relay_only=True)
    viewer_url = with_users.url.replace("udp", transport)
    source = FramePublisher()
    async with (
        Player(source),
        relayed(source, ice, IceConfig([IceServer(viewer_url, "ann", "pass")], relay_only=True)) as receiver,
    ):
        for _ in range(3):
            await receiver.next_frame()
        await receiver.channel_open()
        receiver.send("hello")
        assert await receiver.next_message() == "hello"


async def test_the_relay_accepts_credentials_made_from_the_secret(with_secret: Coturn) -> None:
    """The server makes its own credentials when it connects, the viewer's when it sends the servers."""
    ice = IceConfig([IceServer(with_secret.url)], turn_secret=TurnSecret("north"), relay_only=True)
    viewer_ice = IceConfig(ice.servers_for("viewer"), relay_only=True)
    source = FramePublisher()
    async with Player(source), relayed(source, ice, viewer_ice) as receiver:
        await receiver.next_frame()


@pytest.mark.parametrize("secret", [TurnSecret("south"), TurnSecret("north", lifetime_s=-10)], ids=["wrong", "expired"])
async def test_wrong_credentials_are_refused_with_an_error(with_secret: Coturn, secret: TurnSecret) -> None:
    receiver = WebRtcReceiver()
    ice = IceConfig([IceServer(with_secret.url)], turn_secret=secret, relay_only=True)
    with pytest.raises(NoCandidatesError, match="no address of the TURN server.*try again later"):
        await ViewerPeer.from_offer(
            await receiver.offer(),
            source=shared(FramePublisher()),
            on_controls=lambda text: [],
            options=PeerOptions(ice=ice),
        )
    await receiver.close()


async def test_the_relay_is_reported_as_reachability(with_users: Coturn) -> None:
    turn = IceServer(with_users.url, "ann", "pass")
    stun = IceServer(f"stun:127.0.0.1:{with_users.port}")
    assert (await find_reachability(IceConfig([turn]))).kind is ReachabilityKind.RELAY
    refused = await find_reachability(IceConfig([IceServer(turn.url, "ann", "wrong")], relay_only=True))
    assert (refused.kind, refused.silent) == (ReachabilityKind.NONE, (turn.url,))
    assert (await find_reachability(IceConfig([stun, turn], relay_only=True))).silent == ()


async def test_a_reflexive_address_is_reported(with_users: Coturn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: ["127.0.0.1"])
    route = await find_reachability(IceConfig([IceServer(f"stun:127.0.0.1:{with_users.port}")]))
    assert (route.kind, route.silent) == (ReachabilityKind.REFLEXIVE, ())

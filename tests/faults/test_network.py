"""Video over a network that loses, delays, narrows and goes away, in namespaces of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ..network import Network, network
from .cases import CASES
from .scene import PORT, Process, scene

PUBLIC_ADDRESS = "203.0.113.5"


@pytest.fixture(scope="module")
def wire() -> Iterator[Network]:
    with network() as made:
        yield made


def unreachable_relay(wire: Network, **options: object) -> dict[str, object]:
    """What becomes of an offer while no UDP passes, though a TURN server is asked."""
    servers = [[f"stun:{wire.client.address}"], [f"turn:{wire.client.address}", "ann", "pass"]]
    settings = {"udp_ports": str(PORT), "servers": servers, **options}
    server = Process(wire.server, "faults.scene_server", json.dumps(settings))
    viewer = Process(wire.client, "faults.scene_viewer", "VP8")
    try:
        with wire.without_udp():
            server.tell(viewer.wait_for("offer")["offer"])
            return server.wait_for("answer", "refused")
    finally:
        server.end()
        viewer.end()


def test_blocked_udp_does_not_hold_up_the_answer(wire: Network) -> None:
    answered = unreachable_relay(wire)
    assert f" {wire.server.address} {PORT} typ host" in str(answered["answer"])
    assert answered["took_s"] < 2


def test_blocked_udp_to_the_only_relay_is_told_in_time(wire: Network) -> None:
    answered = unreachable_relay(wire, relay_only=True)
    assert "try again later" in str(answered["refused"])
    assert answered["took_s"] < 2


def test_a_viewer_comes_by_the_public_address_through_a_nat(wire: Network) -> None:
    with wire.translated(PUBLIC_ADDRESS), scene(wire, public_address=PUBLIC_ADDRESS) as playing:
        assert not playing.is_over()


@pytest.mark.parametrize("name", ["10 % loss", "50 ms each way, 2 % loss", "1 Mb/s, queue of 100 ms"])
def test_a_bad_network_costs_no_more_than_its_budget(
    wire: Network, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``scripts/fault_check`` has more cases, and holds them to the budgets themselves."""
    measures = CASES[name](wire, "VP8")
    with capsys.disabled():
        print("", *(f"{name}: {measure}" for measure in measures), sep="\n")  # noqa: T201
    assert [measure for measure in measures if measure.value > measure.slack * measure.budget] == []

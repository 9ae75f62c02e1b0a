"""A real browser that may connect through the TURN server only."""

from __future__ import annotations

from playwright.sync_api import expect

from ..coturn import coturn
from .conftest import Opener
from .maze import MazeServer

KEEP_CONNECTIONS = """(() => {
  window.connections = [];
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...given) {
      super(...given);
      window.connections.push(this);
    }
  };
})()"""
SELECTED = """async () => {
  const report = [...(await window.connections.at(-1).getStats()).values()];
  const pair = report.find((entry) => entry.type === "candidate-pair" && entry.nominated);
  const typeOf = (id) => report.find((entry) => entry.id === id).candidateType;
  return [typeOf(pair.localCandidateId), typeOf(pair.remoteCandidateId)];
}"""


def test_both_sides_use_the_relay_with_their_own_credentials(chromium: str, visit: Opener) -> None:
    with coturn("--use-auth-secret", "--static-auth-secret=north") as turn:
        flags = ["--ice-server", turn.url, "--turn-secret", "north", "--relay-only"]
        with MazeServer(*flags) as server:
            walker = visit(server, script=KEEP_CONNECTIONS).until_live()
            expect(walker.page.locator("#video")).to_be_visible()
            assert walker.page.evaluate(SELECTED) == ["relay", "relay"]
            walker.page.context.close()

"""How soon is the picture there, and does it ever stand still?

    python benchmarks/watching.py [--seconds 60] [--json FILE]

Chromium watches the model of benchmarks/latency.py, 640x360 at 30 frames per second, on our page by WebRTC and at the
same time on a page of plain aiortc, once with VP8 and once with H264. A join runs from the offer to the first frame
that is handed to the compositor. A freeze is what the browser counts as one (``freezeCount`` of W3C's webrtc-stats);
gaps are those between presented frames.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from latency import FLAGS
from latency_rig import ours, plain
from latency_rig.process import ServerProcess

SETTLE_MS = 2000
JOIN_BUDGET_MS = 500
WITNESS = """({codec}) => {
  const witness = (window.witness = { connections: [], offered: 0, joined: 0, times: [] });
  const Connection = window.RTCPeerConnection;
  window.RTCPeerConnection = class extends Connection {
    constructor(...given) {
      super(...given);
      witness.connections.push(this);
    }
    addTransceiver(...given) {
      const transceiver = super.addTransceiver(...given);
      const known = RTCRtpReceiver.getCapabilities("video").codecs;
      const wanted = known.filter(({ mimeType }) => mimeType === `video/${codec}` || mimeType === "video/rtx");
      transceiver.setCodecPreferences(wanted);
      return transceiver;
    }
    createOffer(...given) {
      witness.offered ||= performance.now();
      return super.createOffer(...given);
    }
  };
  const watch = (video) => {
    const note = (now, { presentationTime }) => {
      witness.joined ||= presentationTime;
      witness.times.push(presentationTime);
      video.requestVideoFrameCallback(note);
    };
    video.requestVideoFrameCallback(note);
  };
  document.addEventListener("DOMContentLoaded", () => watch(document.querySelector("video")));
}"""
COUNTS = """async () => {
  const reports = await Promise.all(witness.connections.map((connection) => connection.getStats()));
  const all = reports.flatMap((report) => [...report.values()]);
  const video = all.findLast((entry) => entry.type === "inbound-rtp" && entry.kind === "video");
  const codec = all.find((entry) => entry.id === video.codecId)?.mimeType;
  const { freezeCount, totalFreezesDuration, framesDecoded, framesDropped } = video;
  return { freezeCount, totalFreezesDuration, framesDecoded, framesDropped, codec };
}"""


def open_page(browser: Browser, url: str, codec: str) -> Page:
    page = browser.new_context(bypass_csp=True).new_page()
    page.add_init_script(f"({WITNESS})({json.dumps({'codec': codec})})")
    page.goto(url)
    page.wait_for_function("witness.times.length > 0", timeout=20_000)
    return page


def judge(name: str, page: Page, before: dict[str, Any], after: dict[str, Any], seconds: float) -> dict[str, Any]:
    times = page.evaluate("witness.times")
    gaps = sorted(later - sooner for sooner, later in zip(times, times[1:], strict=False))
    return {
        "name": name,
        "codec": after["codec"],
        "join_ms": page.evaluate("witness.joined - witness.offered"),
        "freezes": after["freezeCount"] - before["freezeCount"],
        "frozen_s": after["totalFreezesDuration"] - before["totalFreezesDuration"],
        "fps": (after["framesDecoded"] - before["framesDecoded"]) / seconds,
        "dropped": after["framesDropped"] - before["framesDropped"],
        "gap_p99_ms": gaps[int(0.99 * len(gaps))],
        "gap_max_ms": gaps[-1],
    }


def watch(browser: Browser, urls: dict[str, str], codec: str, seconds: float) -> list[dict[str, Any]]:
    pages = {name: open_page(browser, url, codec) for name, url in urls.items()}
    first = next(iter(pages.values()))
    first.wait_for_timeout(SETTLE_MS)
    for page in pages.values():
        page.evaluate("witness.times = []")
    before = {name: page.evaluate(COUNTS) for name, page in pages.items()}
    first.wait_for_timeout(seconds * 1000)
    after = {name: page.evaluate(COUNTS) for name, page in pages.items()}
    rows = [judge(f"{name} {codec}", page, before[name], after[name], seconds) for name, page in pages.items()]
    for page in pages.values():
        page.context.close()
    return rows


def print_table(rows: list[dict[str, Any]], seconds: float) -> None:
    print(f"watched for {seconds:.0f} s in Chromium, 640x360 at 30 fps")
    heads = {"join ms": 9, "freezes": 9, "frozen s": 10, "fps": 7, "dropped": 9, "gap p99 ms": 12, "max ms": 8}
    print(" " * 14 + "".join(f"{head:>{width}}" for head, width in heads.items()))
    for row in rows:
        print(
            f"{row['name']:<14}{row['join_ms']:>9.0f}{row['freezes']:>9}{row['frozen_s']:>10.2f}{row['fps']:>7.1f}"
            f"{row['dropped']:>9}{row['gap_p99_ms']:>12.1f}{row['gap_max_ms']:>8.1f}"
        )
    print(f"budget: join <= {JOIN_BUDGET_MS} ms, 0 freezes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each codec")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium on the PATH: install it (on Debian: apt-get install chromium)")
    rows: list[dict[str, Any]] = []
    with ServerProcess(ours.main) as our_server, ServerProcess(plain.main) as plain_server, sync_playwright() as driver:
        urls = {"ours": f"{our_server.url}?transport=webrtc", "aiortc": plain_server.url}
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        for codec in ("VP8", "H264"):
            rows += watch(browser, urls, codec, options.seconds)
        browser.close()
    print_table(rows, options.seconds)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()

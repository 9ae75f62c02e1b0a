"""How soon does the page appear on loopback, and what does it weigh?

Starts the maze, opens its page in a new profile of Chromium several times, and prints the first paint, the first
picture of the video, and the bytes that were sent. Needs Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
TIMINGS = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  const files = [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
    .filter((entry) => /\\.(js|css|html)$|\\/$/.test(new URL(entry.name).pathname));
  return { paint, files: files.length, bytes: files.reduce((sum, entry) => sum + entry.transferSize, 0) };
}"""


def measure(browser: Browser, url: str) -> dict[str, Any]:
    context = browser.new_context()
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url)
    expect(page.locator("#status")).to_have_text("Live", timeout=60_000)
    live_ms = (time.perf_counter() - began) * 1000
    timings: dict[str, Any] = page.evaluate(TIMINGS)
    context.close()
    return {**timings, "live": live_ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=10)
    visits = parser.parse_args().visits
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
        command = [sys.executable, "-m", "realtime_engine", "serve", "maze", "--port", "0", "--max-sessions", "64"]
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = wait_for_url(Path(log.name))
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
                measure(browser, url)  # waits for the model
                measured = [measure(browser, url) for _ in range(visits)]
                browser.close()
        finally:
            server.terminate()
            server.wait(30)
    print(f"{'':14}    p50    max")
    for name, label in (("paint", "first paint, ms"), ("live", "video, ms")):
        values = [each[name] for each in measured]
        print(f"{label:16} {statistics.median(values):5.0f}  {max(values):5.0f}")
    print(f"{measured[-1]['files']} files, {measured[-1]['bytes'] / 1000:.0f} kB sent")


def wait_for_url(log: Path) -> str:
    """The address that the server prints."""
    for _ in range(600):
        words = log.read_text().split()
        if "open" in words and words[-1] != "open":
            return words[words.index("open") + 1]
        time.sleep(0.1)
    raise TimeoutError(f"the server did not start: {log.read_text()}")


if __name__ == "__main__":
    main()

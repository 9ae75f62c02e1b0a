import assert from "node:assert/strict";
import { test } from "node:test";
import { parseIdentity } from "../../web/js/mjpeg.js";
import { formatDuration, formatSize, newestFiles } from "../../web/js/recorder.js";
import { formatValue, labelOf } from "../../web/js/stats.js";
import { candidateFragment } from "../../web/js/webrtc.js";

for (const [name, label] of [
  ["queue_depth", "Queue depth"],
  ["service_p50_ms", "Service p50, ms"],
  ["frame_rate_fps", "Frame rate, fps"],
  ["steps", "Steps"],
]) {
  test(`the label of ${name} is ${label}`, () => {
    assert.equal(labelOf(name), label);
  });
}

for (const [value, text] of /** @type {[any, string][]} */ ([
  [3, "3"],
  [4.26, "4.3"],
  ["no input", "no input"],
  [null, "–"],
  [undefined, "–"],
])) {
  test(`the value ${value} is shown as ${text}`, () => {
    assert.equal(formatValue(value), text);
  });
}

test("durations and sizes", () => {
  assert.deepEqual([0, 64.5, 3600].map(formatDuration), ["0:00", "1:04", "60:00"]);
  assert.deepEqual([10, 45_000, 2_345_678].map(formatSize), ["1 kB", "45 kB", "2.3 MB"]);
});

test("the files of the newest recording", () => {
  const files = ["recording-1.mp4", "recording-2.mp4", "recording-2-2.mp4"].map((name) => ({
    name,
    bytes: 1,
    href: name,
  }));
  assert.deepEqual(
    newestFiles(files).map(({ name }) => name),
    ["recording-2.mp4", "recording-2-2.mp4"],
  );
  assert.deepEqual(newestFiles([]), []);
});

test("the identity in an X-Frame header", () => {
  const identity = { epoch: 1, seq: 7, index: 2 };
  assert.deepEqual(parseIdentity("session=a;epoch=1;seq=7;index=2;action=12"), { ...identity, actionSeq: 12 });
  assert.deepEqual(parseIdentity("session=a;epoch=1;seq=7;index=2;action="), { ...identity, actionSeq: null });
  assert.equal(parseIdentity(""), null);
});

test("the SDP fragment with ICE candidates", () => {
  const media = ["m=video 9 UDP/TLS/RTP/SAVPF 96", "a=ice-ufrag:abc", "a=ice-pwd:secret", "a=mid:0"];
  const sdp = ["v=0", ...media, "m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "a=mid:1", ""].join("\r\n");
  assert.equal(
    candidateFragment(sdp, ["candidate:1 1 udp 1 10.0.0.1 5000 typ host", "end-of-candidates"]),
    "a=ice-ufrag:abc\r\na=ice-pwd:secret\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n" +
      "a=candidate:1 1 udp 1 10.0.0.1 5000 typ host\r\na=end-of-candidates\r\n",
  );
});

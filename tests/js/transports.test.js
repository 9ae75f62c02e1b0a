import assert from "node:assert/strict";
import { test } from "node:test";
import { TRANSPORT_LABELS, TRANSPORTS, transportNamed, unsupportedReason } from "../../web/js/transports.js";
import { replace } from "./support.js";

test("every transport has a label", () => {
  assert.deepEqual(Object.keys(TRANSPORT_LABELS), TRANSPORTS);
});

test("a transport is found by its name", () => {
  assert.equal(transportNamed("webcodecs"), "webcodecs");
  assert.equal(transportNamed("carrier pigeon"), null);
  assert.equal(transportNamed(null), null);
});

test("the reason why a browser cannot use a transport", () => {
  replace(globalThis, "isSecureContext", true);
  assert.equal(unsupportedReason("webrtc"), "This browser does not support WebRTC");
  assert.equal(unsupportedReason("webcodecs"), "This browser does not support WebCodecs");
  replace(globalThis, "isSecureContext", false);
  assert.equal(unsupportedReason("webcodecs"), "WebCodecs requires HTTPS or localhost");
  assert.equal(unsupportedReason("mjpeg"), null);
  replace(globalThis, "RTCPeerConnection", class {});
  replace(globalThis, "VideoDecoder", class {});
  assert.deepEqual(TRANSPORTS.map(unsupportedReason), [null, null, null]);
});

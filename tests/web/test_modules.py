"""Modules of the page that can be tried apart, in the browser that runs them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page

from realtime_engine.infra.webcodecs import VideoPacket

from .mock_demo import FIELDS
from .mock_server import Behaviour, MockServer


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    """The page, held at its first step, so that only the modules under test run."""
    with MockServer(Behaviour(load_error="the modules are tried apart")) as server:
        page = browser.new_page()
        page.goto(server.url)
        yield page
        page.close()


def run(page: Page, module: str, body: str, argument: object = None) -> Any:
    """``body`` is the inside of a function of ``module``, the module's exports, and ``given``."""
    script = f"async (given) => {{ const module = await import('./js/{module}.js'); {body} }}"
    return page.evaluate(script, argument)


# -- multipart

SPLIT = """
    const reader = new module.MultipartReader();
    const parts = given.flatMap((piece) => reader.push(new Uint8Array(piece)));
    return parts.map(({ headers, body }) => [headers.get("x-frame") ?? null, [...body]]);
"""


def stream_of(bodies: list[bytes]) -> bytes:
    head = "Content-Type: image/jpeg\r\nContent-Length: {}\r\nX-Frame: seq={}\r\n\r\n"
    parts = [head.format(len(body), index).encode() + body + b"\r\n--frame\r\n" for index, body in enumerate(bodies)]
    return b"--frame\r\n" + b"".join(parts)


@pytest.mark.parametrize("seed", range(5))
def test_parts_are_found_however_the_stream_is_cut(blank: Page, seed: int) -> None:
    chance = random.Random(seed)
    bodies = [b"", b"\r\n\r\n--frame\r\n", chance.randbytes(300), chance.randbytes(3)]
    stream = stream_of(bodies)
    cuts = sorted(chance.sample(range(len(stream)), 40))
    pieces = [list(stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = [[f"seq={index}", list(body)] for index, body in enumerate(bodies)]
    assert run(blank, "multipart", SPLIT, pieces) == expected


def test_a_part_is_complete_with_its_last_byte(blank: Page) -> None:
    stream = stream_of([b"picture"])
    end = stream.index(b"picture") + len(b"picture")
    assert run(blank, "multipart", SPLIT, [list(stream[:end])]) == [["seq=0", list(b"picture")]]
    assert run(blank, "multipart", SPLIT, [list(stream[: end - 1])]) == []


# -- packets of the video WebSocket

PARSE = """
    const { data, ...head } = module.parsePacket(new Uint8Array(given).buffer);
    return { ...head, data: [...data] };
"""
BIGGEST = VideoPacket(2**32 - 1, True, 2**53 - 1, 2**32 - 1, 2**53 - 1, 2**16 - 1, 2**53 - 1, b"\0\1")


@pytest.mark.parametrize("packet", [BIGGEST, VideoPacket(0, False, 0, 1, 0, 0, None, b"")])
def test_a_packet_is_read_as_the_server_writes_it(blank: Page, packet: VideoPacket) -> None:
    assert run(blank, "packet", PARSE, list(packet.encode())) == {
        "number": packet.number,
        "keyframe": packet.keyframe,
        "timestamp": packet.timestamp_us,
        "epoch": packet.epoch,
        "seq": packet.seq,
        "index": packet.index,
        "actionSeq": packet.action_seq,
        "data": list(packet.data),
    }


@pytest.mark.parametrize("message", [[], [2, *[0] * 40]])
def test_a_packet_of_another_version_is_refused(blank: Page, message: list[int]) -> None:
    with pytest.raises(Error, match="another version"):
        run(blank, "packet", PARSE, message)


@pytest.mark.parametrize(
    ("data", "codec"),
    [
        ([0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x1E, 9, 0, 0, 0, 1, 0x68, 1], "avc1.42C01E"),
        ([0, 0, 1, 9, 0xF0, 0, 0, 1, 0x27, 0x4D, 0, 0x0A], "avc1.4D000A"),
        ([0, 0, 0, 1, 0x65, 1, 2, 3, 4, 5, 6], None),
        ([0, 0, 1, 0x67, 0x42], None),
    ],
)
def test_the_codec_is_that_of_the_parameter_set(blank: Page, data: list[int], codec: str | None) -> None:
    assert run(blank, "packet", "return module.codecOf(new Uint8Array(given));", data) == codec


DECODE = """
    const decoders = [];
    class Decoder {
        constructor({ output, error }) {
            Object.assign(this, { output, error, state: "unconfigured", decodeQueueSize: 0, chunks: [] });
            decoders.push(this);
        }
        configure({ codec }) { this.state = "configured"; this.chunks.push(codec); }
        reset() { this.state = "unconfigured"; this.decodeQueueSize = 0; this.chunks.push("reset"); }
        decode({ type, timestamp }) { this.decodeQueueSize += 1; this.chunks.push(`${type} ${timestamp}`); }
        close() { this.state = "closed"; }
        show(timestamp) { this.decodeQueueSize -= 1; this.output({ timestamp, close() {} }); }
        break() { this.state = "closed"; this.error(new Error("broken")); }
    }
    const [Real, told] = [window.VideoDecoder, []];
    window.VideoDecoder = Decoder;
    const decoder = new module.PacketDecoder({
        onPicture: (_picture, packet) => told.push(packet.timestamp),
        onLost: () => told.push("lost"),
        onError: (error) => told.push(error.message),
    });
    const data = new Uint8Array([0, 0, 1, 0x67, 0x42, 0xC0, 0x1E]);
    for (const [what, timestamp] of given) {
        if (what === "key" || what === "delta") decoder.decode({ keyframe: what === "key", timestamp, data });
        else decoders.at(-1)[what](timestamp);
    }
    window.VideoDecoder = Real;
    return { told, given: decoders.map(({ chunks }) => chunks), dropped: decoder.dropped };
"""


def test_decoding_begins_with_a_keyframe(blank: Page) -> None:
    done = run(blank, "decoder", DECODE, [["delta", 0], ["key", 1], ["show", 1], ["delta", 2], ["show", 2], ["key", 3]])
    assert done == {"told": [1, 2], "given": [["avc1.42C01E", "key 1", "delta 2", "key 3"]], "dropped": 1}


def test_a_decoder_that_falls_behind_goes_on_with_a_keyframe(blank: Page) -> None:
    deltas = [["delta", n] for n in range(2, 8)]
    done = run(blank, "decoder", DECODE, [["key", 1], *deltas, ["key", 8], ["show", 8]])
    fed = ["avc1.42C01E", "key 1", "delta 2", "delta 3", "delta 4", "reset", "avc1.42C01E", "key 8"]
    assert done == {"told": ["lost", 8], "given": [fed], "dropped": 4 + 3}


def test_a_decoder_that_breaks_is_replaced_once(blank: Page) -> None:
    shown = [["key", 1], ["show", 1], ["break"], ["delta", 2], ["key", 3]]
    done = run(blank, "decoder", DECODE, [*shown, ["break"]])
    assert done["told"] == [1, "lost", "broken"]
    assert done["given"] == [["avc1.42C01E", "key 1"], ["avc1.42C01E", "key 3"]]


# -- addresses


@pytest.mark.parametrize(
    ("address", "root"),
    [
        ("http://a.example/", "http://a.example/"),
        ("http://a.example/index.html?transport=mjpeg", "http://a.example/index.html?transport=mjpeg"),
        ("http://a.example/demos/pond/", "http://a.example/"),
        ("http://a.example/demos/pond/index.html", "http://a.example/"),
        ("http://a.example/demos/pond/deep/er/", "http://a.example/"),
        ("http://a.example/behind/demos/pond/", "http://a.example/behind/"),
        ("http://a.example/demos/", "http://a.example/demos/"),
    ],
)
def test_a_demos_own_page_finds_the_root(blank: Page, address: str, root: str) -> None:
    assert run(blank, "api", "return module.rootOf(given).href;", address) == root


# -- key to pixel

MEASURE = """
    const latency = new module.KeyToPixel();
    given.forEach(([method, ...values]) => latency[method](...values));
    return [latency.median, latency.p95];
"""


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([["press", 7, 100], ["show", 6, 120], ["show", 9, 150]], 50, id="an older frame does not answer"),
        pytest.param([["press", 7, 100], ["show", 7, 150], ["show", 8, 190]], 50, id="answered once"),
        pytest.param([["press", 7, 100], ["show", None, 150]], None, id="a frame without an action"),
        pytest.param([["press", 7, 100], ["show", 6, 9000], ["show", 7, 9001]], None, id="too late to count"),
        pytest.param([["press", 7, 100], ["forget"], ["show", 7, 150]], None, id="forgotten at a reset"),
    ],
)
def test_a_press_is_answered_by_the_first_frame_that_it_shaped(
    blank: Page, told: list[list[Any]], expected: float | None
) -> None:
    assert run(blank, "latency", MEASURE, told) == [expected, expected]


def test_the_median_is_that_of_the_newest_presses(blank: Page) -> None:
    old = [step for n in range(40) for step in (["press", n, 0], ["show", n, 500])]
    new = [step for n in range(40, 71) for step in (["press", n, 1000], ["show", n, 1000 + n])]
    assert run(blank, "latency", MEASURE, old + new) == [55, 69]


def test_the_oldest_press_that_a_frame_answers_is_told(blank: Page) -> None:
    body = """
        const latency = new module.KeyToPixel();
        given.forEach(([seq, time]) => latency.press(seq, time));
        return [latency.show(6, 50), latency.show(8, 60), latency.show(9, 70), latency.show(null, 80)];
    """
    assert run(blank, "latency", body, [[7, 10], [8, 20]]) == [None, {"seq": 7, "time": 10}, None, None]


# -- frames

MATCH = """
    const matched = [];
    const frames = new module.FrameMatcher((identity, picture) => matched.push([identity.seq, picture.time]));
    given.forEach(([method, ...values]) => frames[method](...values));
    return matched;
"""


def identity(seq: int) -> list[Any]:
    return ["identify", {"rtp": 100 + seq, "epoch": 1, "seq": seq, "index": 0, "action_seq": 4}]


def picture(seq: int) -> list[Any]:
    return ["present", {"rtp": 100 + seq, "time": 10 * seq}]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([identity(1), picture(1)], [[1, 10]], id="identity first"),
        pytest.param([picture(1), identity(1)], [[1, 10]], id="picture first"),
        pytest.param([identity(1), picture(2), picture(1), identity(2)], [[1, 10], [2, 20]], id="mixed"),
        pytest.param([identity(1), picture(1), identity(1)], [[1, 10]], id="sent again"),
        pytest.param([identity(1), ["forget"], picture(1)], [], id="forgotten"),
        pytest.param([*map(identity, range(241)), picture(0), picture(1)], [[1, 10]], id="bounded"),
    ],
)
def test_pictures_find_their_identity(blank: Page, told: list[list[Any]], expected: list[list[int]]) -> None:
    assert run(blank, "frames", MATCH, told) == expected


# -- the server's clock

ESTIMATE = """
    const clock = new module.ServerClock();
    given.pongs.forEach(([sent, server, received]) => clock.pong(sent, server * 1e6, received));
    return clock.estimate(given.now);
"""


@pytest.mark.parametrize(
    ("pongs", "now", "offset", "uncertainty"),
    [
        pytest.param([(0, 5001, 2)], 2, 5000, 1, id="the middle of a round trip"),
        pytest.param([(0, 5009, 10), (20, 5020.5, 21), (40, 5048, 50)], 50, 5000, 0.5 + 29e-4, id="the shortest"),
        pytest.param([(0, 5001, 2), (60_000, 65_005, 60_004)], 60_004, 5003, 2, id="not one that is too old"),
        pytest.param([(0, 5001, 2), (1000, 9000, 1010)], 1010, 7995, 5, id="not one of before a jump"),
        pytest.param(
            [(0, 5000.5, 1)] + [(n, n + 5003, n + 4) for n in range(20)], 30, 5001, 2 + 7e-4, id="the newest 16"
        ),
    ],
)
def test_the_servers_clock_is_found_by_pings(
    blank: Page, pongs: list[tuple[float, float, float]], now: float, offset: float, uncertainty: float
) -> None:
    found = run(blank, "clock", ESTIMATE, {"pongs": pongs, "now": now})
    assert found == {"offset": pytest.approx(offset), "uncertainty": pytest.approx(uncertainty)}


def test_nothing_is_known_of_a_clock_before_a_pong(blank: Page) -> None:
    assert run(blank, "clock", ESTIMATE, {"pongs": [], "now": 5}) is None


# -- acknowledgements

ACKNOWLEDGE = """
    const { ServerClock } = await import("./js/clock.js");
    const [clock, sent] = [new ServerClock(), []];
    const acknowledger = new module.Acknowledger(clock, (body) => sent.push(body));
    if (given.known) clock.pong(0, 1e9, 1);
    acknowledger.wantsTiming = true;
    given.frames.forEach(([viewer, seq]) => acknowledger.show(viewer, { seq }));
    if (!given.known) {
        clock.pong(0, 1e9, 1);
        acknowledger.show(null, { seq: 70 });
    }
    if (given.clear) acknowledger.clear();
    await new Promise((done) => setTimeout(done, 300));
    return sent.map(({ viewer, timing, frames }) => [viewer, timing, frames.map(({ seq }) => seq)]);
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"frames": [["a", n] for n in range(10)]}, [["a", True, [*range(8)]], ["a", False, [8, 9]]], id="8"
        ),
        pytest.param({"frames": [["a", 1], ["b", 2]]}, [["a", True, [1]], ["b", False, [2]]], id="each viewer's own"),
        pytest.param({"frames": [["a", 1]], "clear": True}, [], id="cleared"),
        pytest.param(
            {"frames": [[None, n] for n in range(70)], "known": False},
            [[None, True, [*range(7, 71)]]],
            id="no clock yet",
        ),
    ],
)
def test_frames_are_acknowledged_in_batches(blank: Page, given: dict[str, Any], expected: list[Any]) -> None:
    assert run(blank, "acknowledger", ACKNOWLEDGE, {"known": True, "clear": False, **given}) == expected


# -- schema

READ = "return module.readFields(given.schema, given.required, given.defaults);"


def read(page: Page, schema: object, required: tuple[str, ...] = (), **defaults: object) -> dict[str, Any]:
    given = {"schema": schema, "required": list(required), "defaults": defaults}
    return {field["name"]: field for field in run(page, "schema", READ, given)}


def test_a_schema_as_pydantic_writes_it_is_read(blank: Page) -> None:
    fields = read(blank, FIELDS, ("seed",))
    kinds = {name: field["kind"] for name, field in fields.items()}
    assert kinds == {
        "prompt": "prompt",
        "theme": "choice",
        "fog": "number",
        "seed": "number",
        "sprites": "boolean",
        "picture": "image",
    }
    assert fields["theme"]["choices"] == ["stone", "ice", "lava"]
    assert (fields["theme"]["initial"], fields["theme"]["title"]) == ("stone", "Theme")
    assert (fields["fog"]["min"], fields["fog"]["max"], fields["fog"]["step"]) == (0, 1, 0.01)
    assert [name for name, field in fields.items() if field["required"]] == ["seed"]


def test_bounds_that_are_excluded_are_left_out_of_a_range_of_integers(blank: Page) -> None:
    bounds = {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}
    field = read(blank, {"properties": {"number_of_things": bounds}})["number_of_things"]
    assert (field["min"], field["max"], field["step"], field["title"]) == (1, 9, 1, "Number of things")


def test_a_default_that_the_schema_does_not_name_comes_from_the_defaults(blank: Page) -> None:
    assert read(blank, {"properties": {"name": {"type": "string"}}}, name="Ada")["name"]["initial"] == "Ada"


def test_no_schema_means_no_fields(blank: Page) -> None:
    assert read(blank, None) == {}


# -- input

HANDS = """
    const input = new module.Input();
    given.forEach(([method, ...values]) => input[method](...values));
    return JSON.stringify(input.snapshot());
"""


def hands(page: Page, *told: list[Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(page, "input", HANDS, list(told)))
    return result


def test_movement_is_summed_up_but_never_past_another_edge(blank: Page) -> None:
    edges = hands(blank, ["move", 1, 2, 10], ["move", 3, 4, 11], ["press", "KeyW", 12], ["move", 5, 6, 13])["edges"]
    assert edges == [
        {"seq": 0, "t": 11, "kind": "pointer_move", "dx": 4, "dy": 6},
        {"seq": 1, "t": 12, "kind": "key_down", "code": "KeyW"},
        {"seq": 2, "t": 13, "kind": "pointer_move", "dx": 5, "dy": 6},
    ]


def test_edges_without_a_way_are_dropped_and_fields_wait(blank: Page) -> None:
    told = [["press", "KeyW", 1], ["setField", "fog", 0.5], ["sent", False]]
    state = hands(blank, *told)
    assert (state["edges"], state["fields"], state["keys"]) == ([], {"fog": 0.5}, ["KeyW"])


def test_a_message_never_carries_more_edges_than_the_protocol_allows(blank: Page) -> None:
    edges = hands(blank, *[["wheel", 0, n, n] for n in range(300)])["edges"]
    assert [edge["dy"] for edge in edges] == list(range(44, 300))

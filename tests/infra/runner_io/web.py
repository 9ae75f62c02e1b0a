"""A web server on loopback that answers as it is told."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """Attributes: ``url`` with a slash at its end, ``answers`` by path, and the ``asked`` paths in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []

    def put(self, path: str, content: bytes, length: int | None = None) -> str:
        """Serve ``content`` and return its URL; ``length`` is what the header says, none if below 0."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            if length is None or length >= 0:
                request.send_header("Content-Length", str(len(content) if length is None else length))
            request.end_headers()
            request.wfile.write(content)

        return self.say(path, answer)

    def redirect(self, path: str, target: str) -> str:
        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header("Location", target)
            request.send_header("Content-Length", "0")
            request.end_headers()

        return self.say(path, answer)

    def say(self, path: str, answer: Answer) -> str:
        self.answers["/" + path] = answer
        return self.url + path


@contextlib.contextmanager
def web() -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            site.asked.append(path)
            if path in site.answers:
                with contextlib.suppress(ConnectionError):  # a client that has had enough
                    site.answers[path](self)
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Quietly."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Web(f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

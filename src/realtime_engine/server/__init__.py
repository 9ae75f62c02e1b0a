"""Demos over HTTP: REST, WebRTC, MJPEG and WebSockets. Knows no model."""

from .app import create_app
from .config import ServerConfig
from .gallery import create_gallery_app
from .problems import Problem
from .uvicorn_server import DemoServer

__all__ = ["DemoServer", "Problem", "ServerConfig", "create_app", "create_gallery_app"]

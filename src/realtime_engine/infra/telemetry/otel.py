"""Exports frames as OpenTelemetry spans.

Needs ``opentelemetry-api``, which the extra ``otel`` installs with an exporter.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from .timing import PATH, FrameRecord

_SCOPE = "realtime_engine"


class SpanSender:
    """Creates a span for each frame, from its first to its last known milestone, with a child span for each stage.

    Args:
        provider: an OpenTelemetry ``TracerProvider``; by default the global one.

    Raises:
        ImportError: OpenTelemetry is not installed; the message names the extra.
    """

    def __init__(self, provider: Any = None) -> None:
        self._api = _import("opentelemetry.trace")
        self._tracer = self._api.get_tracer(_SCOPE, tracer_provider=provider)
        # Spans use the wall clock, frames the monotonic clock. The offset is measured once, so that an adjustment of
        # the wall clock cannot distort a frame.
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    @classmethod
    def exporting(cls) -> SpanSender:
        """Use the global provider, or else an OTLP exporter over HTTP, configured by the ``OTEL_*`` variables."""
        api = _import("opentelemetry.trace")
        if not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
            return cls()
        sdk, export = _import("opentelemetry.sdk.trace"), _import("opentelemetry.sdk.trace.export")
        otlp = _import("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        provider = sdk.TracerProvider()
        provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        return cls(provider)

    def send(self, record: FrameRecord) -> None:
        """Create the spans of a frame. A frame with fewer than two known times is ignored."""
        known_ns = [time_ns for time_ns in record.times if time_ns is not None]
        if len(known_ns) < 2:
            return
        frame = record.id
        attributes = {
            "realtime_engine.session_id": frame.session_id,
            "realtime_engine.epoch": frame.epoch,
            "realtime_engine.seq": frame.seq,
            "realtime_engine.frame_index": frame.frame_index,
            "realtime_engine.transport": record.transport,
            "realtime_engine.answers_input": record.is_answer,
            "realtime_engine.clock_uncertainty_s": record.uncertainty_ns / 1e9,
        }
        begin_ns, end_ns = min(known_ns) + self._offset_ns, max(known_ns) + self._offset_ns
        root = self._tracer.start_span("frame", start_time=begin_ns, attributes=attributes)
        if root.is_recording():
            context = self._api.set_span_in_context(root)
            for stage in PATH:
                span = record.span(stage)
                if span is not None:
                    child = self._tracer.start_span(stage.name, context, start_time=span[0] + self._offset_ns)
                    child.end(span[1] + self._offset_ns)
        root.end(end_ns)


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError("spans need OpenTelemetry: pip install 'realtime-engine[otel]'") from error

"""Frames as OpenTelemetry spans, for whoever collects them with the rest of a system's traces.

The package ``opentelemetry-api`` is needed (the extra ``otel`` brings it with an exporter), and imported only here.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from .timing import PATH, FrameRecord

_SCOPE = "realtime_engine"


class SpanSender:
    """Makes a span of each frame, from its first to its last known moment, with a child for each stage.

    Args:
        provider: an OpenTelemetry ``TracerProvider``; by default the one that the process has set.

    Raises:
        ImportError: OpenTelemetry is not installed; it says what to install.
    """

    def __init__(self, provider: Any = None) -> None:
        self._api = _import("opentelemetry.trace")
        self._tracer = self._api.get_tracer(_SCOPE, tracer_provider=provider)
        # Spans are stamped by the wall clock, frames by the monotonic one; their distance is taken once, so that no
        # correction of the wall clock tears a frame apart.
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    @classmethod
    def exporting(cls) -> SpanSender:
        """To the provider that the process has set; without one, by OTLP over HTTP as the ``OTEL_*`` variables say."""
        api = _import("opentelemetry.trace")
        if not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
            return cls()
        sdk, export = _import("opentelemetry.sdk.trace"), _import("opentelemetry.sdk.trace.export")
        otlp = _import("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        provider = sdk.TracerProvider()
        provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        return cls(provider)

    def send(self, record: FrameRecord) -> None:
        """Give a frame to the tracer, whose provider samples and exports. Nothing for one without two moments."""
        moments = [moment for moment in record.times if moment is not None]
        if len(moments) < 2:
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
        begin_ns, end_ns = min(moments) + self._offset_ns, max(moments) + self._offset_ns
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

"""Test doubles and a conformance suite, for tests of your own engines and demos."""

from .clock import ManualClock
from .conformance import ConformanceError, check_engine
from .engine import ScriptedChunk, ScriptedEngine
from .engine_case import EngineCase
from .faults import FaultPlan, FaultyEngine, FaultyModel
from .sink import RecordingSink

__all__ = [
    "ConformanceError",
    "EngineCase",
    "FaultPlan",
    "FaultyEngine",
    "FaultyModel",
    "ManualClock",
    "RecordingSink",
    "ScriptedChunk",
    "ScriptedEngine",
    "check_engine",
]

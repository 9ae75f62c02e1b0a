"""Test support for engines and models: conformance suite, fault injection, scripted engine, manual clock, sink."""

from .clock import ManualClock
from .conformance import EngineCase, check_engine
from .engine import ScriptedChunk, ScriptedEngine
from .faults import FaultPlan, FaultyEngine, FaultyModel
from .sink import RecordingSink

__all__ = [
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

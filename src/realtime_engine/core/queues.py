"""The two queues between a caller and an engine. Both may be used from any thread and from any event loop."""

from .inbox import Inbox
from .outbox import Outbox, OutboxItem, OutboxSession, OutboxStatistics

__all__ = ["Inbox", "Outbox", "OutboxItem", "OutboxSession", "OutboxStatistics"]

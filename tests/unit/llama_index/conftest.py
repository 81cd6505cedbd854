"""What LlamaIndex's instrumentation hears."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler


@pytest.fixture
def heard() -> Iterator[list[BaseEvent]]:
    """The events of the test, in order."""
    seen: list[BaseEvent] = []

    class Listener(BaseEventHandler):
        def handle(self, event, **kwargs):
            seen.append(event)

    root, listener = get_dispatcher(), Listener()
    root.add_event_handler(listener)
    yield seen
    root.event_handlers.remove(listener)

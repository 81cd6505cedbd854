"""Libraries that report their use to their makers are told not to.

ONNX Runtime sends what graphs are made of, OpenVINO that it is imported and what it converts, NNCF what it is called
for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1", "NNCF_CI": "1"}
_NO_REPORTS = "CI"
_one_at_a_time = threading.RLock()


def switch_off() -> None:
    """For the libraries that look when they are loaded: call it before. Switches that are set stay as they are."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)


@contextmanager
def switched_off() -> Iterator[None]:
    """For OpenVINO, which reports when it is imported and when it converts, and knows the switch of build servers only.

    That switch is the environment's ``CI``, which means something to others too, so it is put back.
    """
    with _one_at_a_time:
        before = os.environ.get(_NO_REPORTS)
        os.environ[_NO_REPORTS] = "true"
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(_NO_REPORTS, None)
            else:
                os.environ[_NO_REPORTS] = before

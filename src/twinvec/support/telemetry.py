"""Switch off the telemetry of ONNX Runtime (content of graphs), OpenVINO (imports, conversions) and NNCF (calls)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1", "NNCF_CI": "1"}
_NO_REPORTS = "CI"
_one_at_a_time = threading.RLock()


def switch_off() -> None:
    """Set the variables that switch telemetry off, before libraries read them; a variable that is set is left alone."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)


@contextmanager
def switched_off() -> Iterator[None]:
    """Switch off OpenVINO's telemetry inside the block, for its import and its conversions.

    Its only switch is the environment variable ``CI``, which other programs read too, so the old value is restored.
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

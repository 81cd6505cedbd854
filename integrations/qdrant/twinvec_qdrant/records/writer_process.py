"""The identity of a writing process, and whether the process has ended.

A process id is unique on one machine, in one pid namespace, until the system reuses it. Containers with the same host
name may have different pid namespaces.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Writer:
    """A process on a machine.

    Attributes:
        host: Name of the machine.
        boot: Id of the machine's last start; "" on a system without ``/proc``.
        namespace: Pid namespace of the process; "" on a system without ``/proc``.
        started: Start of the process, in clock ticks since the machine's start; "" if unknown.
        process: Id of the process.
    """

    host: str
    boot: str
    namespace: str
    started: str
    process: int

    @classmethod
    def this(cls) -> Writer:
        """Return the current process."""
        pid = os.getpid()
        boot = _readable(lambda: Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        namespace = _readable(lambda: os.readlink("/proc/self/ns/pid"))
        return cls(socket.gethostname(), boot, namespace, _started(pid), pid)

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Writer:
        """Return the process with these fields, which ``as_payload`` has made."""
        host, boot, namespace, started = (
            str(payload.get(name, "")) for name in ("host", "boot", "namespace", "started")
        )
        return cls(host, boot, namespace, started, int(payload["process"]))

    def as_payload(self) -> dict[str, Any]:
        """Return the process as fields of a payload."""
        return asdict(self)

    def gone(self) -> bool | None:
        """Return whether the process has ended; None if this process cannot check it."""
        here = Writer.this()
        if (self.host, self.boot, self.namespace) != (here.host, here.boot, here.namespace):
            return None
        try:
            os.kill(self.process, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:
            pass  # the process exists, but belongs to another user
        return _started(self.process) not in ("", self.started)


def _started(pid: int) -> str:
    """Return when the process started, in clock ticks since the machine's boot; "" if that is unknown."""
    stat = _readable(lambda: Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode())
    return stat.split()[19] if stat else ""  # the command name, which may have spaces, is cut off


def _readable(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError:
        return ""

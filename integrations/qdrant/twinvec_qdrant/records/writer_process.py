"""Who writes: what tells one process from all others, and whether it can be seen to be gone.

A process id says something on one machine, in one pid namespace and until it is given to another process only. What
containers share may be the host's name and not the ids.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Writer:
    """A process.

    Attributes:
        host: Name of its machine.
        boot: Of the machine's run since it was started; empty where there is no ``/proc``, as are the next ones.
        namespace: In which its id has a meaning.
        started: When it was, by the machine's clock ticks.
        process: Its id.
    """

    host: str
    boot: str
    namespace: str
    started: str
    process: int

    @classmethod
    def this(cls) -> Writer:
        """The process that asks."""
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), _namespace(), _started(pid), pid)

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Writer:
        """The process that ``as_payload`` described."""
        host, boot, namespace, started = (
            str(payload.get(name, "")) for name in ("host", "boot", "namespace", "started")
        )
        return cls(host, boot, namespace, started, int(payload["process"]))

    def as_payload(self) -> dict[str, Any]:
        """The process, for others to look for it."""
        return asdict(self)

    def gone(self) -> bool | None:
        """Whether it has ended; None where that cannot be seen from here."""
        here = Writer.this()
        if (self.host, self.boot, self.namespace) != (here.host, here.boot, here.namespace):
            return None
        try:
            os.kill(self.process, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:
            pass  # another user's
        return _started(self.process) not in ("", self.started)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Empty where it cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return stat[stat.rindex(b")") :].split()[20].decode()  # the name in front may hold anything

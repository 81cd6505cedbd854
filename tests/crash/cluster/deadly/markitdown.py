"""markitdown, but processes die of some files: those that a test marks, as they do of a bug in a native parser.

Workers import it instead of markitdown if this folder comes first in their ``PYTHONPATH``. A file that holds
"deadly: NAME" kills each process that converts it; "deadly once: NAME" only the first one. ``TWINVEC_DEATHS`` is a
folder for a note of each death, which is called NAME-PROCESS.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_DEATHS = Path(os.environ["TWINVEC_DEATHS"])
_MARK = re.compile(rb"deadly( once)?: (\w+)")

_here = str(Path(__file__).parent)
del sys.modules["markitdown"]
sys.path.remove(_here)
try:
    real: Any = import_module("markitdown")
finally:
    sys.path.insert(0, _here)


converters: Any = import_module("markitdown.converters")
convert = converters.HtmlConverter.convert


def _deadly(self, stream, info, **options):
    mark = _MARK.search(stream.getvalue())
    if mark and not (mark[1] and list(_DEATHS.glob(f"{mark[2].decode()}-*"))):
        (_DEATHS / f"{mark[2].decode()}-{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return convert(self, stream, info, **options)


converters.HtmlConverter.convert = _deadly

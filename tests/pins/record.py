"""Records what the pins compare with. Run by hand only: ``python tests/pins/record.py [--overwrite] [NAME...]``.

All values were recorded from version 0.1.0, before the modules moved to where they are now. They are what users have on
their disks and in their code, so a pin that fails is a bug of the change and no reason to record again. Record only
what is new, or what a new version changes on purpose and names in the changelog; hence ``--overwrite``.

A module may have ``make(folder)`` too, which packs what it makes in ``folder`` into ``fixtures``.

Needs ``src``, ``integrations/*`` and ``tests`` on the path, which an editable install and PYTHONPATH=tests give.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent


def main() -> None:
    """Record the named pins, or all that are not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as spaces, for test_spaces.py; all by default")
    parser.add_argument("--overwrite", action="store_true", help="replace values that are recorded already")
    parser.add_argument("--values-only", action="store_true", help="leave the archives as they are")
    given = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    modules = {path.stem.removeprefix("test_"): path.stem for path in sorted(HERE.glob("test_*.py"))}
    for name in given.names or modules:
        module = import_module(f"pins.{modules[name]}")
        target = HERE / "recorded" / f"{name}.json"
        if target.exists() and not given.overwrite:
            print(f"{name}: is recorded already; --overwrite replaces it")
            continue
        if hasattr(module, "make") and not given.values_only:
            with TemporaryDirectory() as folder:
                module.make(Path(folder))
        with TemporaryDirectory() as folder:
            values = module.values(Path(folder))
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{name}: {len(values)} entries, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

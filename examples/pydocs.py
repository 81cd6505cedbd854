"""Write the documentation of Python's standard library as JSON lines, from the running interpreter.

    python examples/pydocs.py pydocs.jsonl
    twinvec ingest pydocs.jsonl --collection pydocs

Each line has the docstring of a public module, class, function or method. Its id is the qualified name, and its title
the name with the signature. The same interpreter writes the same bytes every time.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# modules that print, or open windows or browsers when imported, or are not libraries
LEFT_OUT = {"antigravity", "idlelib", "lib2to3", "pydoc_data", "test", "this", "turtledemo"}
LEFT_OUT_BELOW = {"distutils", "encodings", "ensurepip"}  # their submodules are not documented for users
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
LONGEST_SIGNATURE = 160


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("output", type=Path, help="the .jsonl file to write")
    parser.add_argument(
        "--modules", nargs="*", help="only these modules (default: all public ones of the standard library)"
    )
    arguments = parser.parse_args()
    if arguments.output.is_dir():
        parser.error(f"{arguments.output} is a folder; name a file in it")
    for name in arguments.modules or []:
        if load(name) is None:
            parser.error(f"the module {name} cannot be imported")
    passages = sorted(collect(arguments.modules or public_modules()), key=lambda passage: passage["id"])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    partial.write_text("".join(json.dumps(passage, ensure_ascii=False) + "\n" for passage in passages), "utf-8")
    partial.replace(arguments.output)
    print(f"{arguments.output}: {len(passages):,} docstrings of Python {sys.version.split()[0]}")


def public_modules() -> list[str]:
    """Return the public modules."""
    return sorted(name for name in sys.stdlib_module_names if not name.startswith("_") and name not in LEFT_OUT)


def collect(modules: list[str]) -> Iterator[dict[str, str]]:
    """Yield the passages of modules and their submodules; a repeated text or name is left out."""
    seen: set[str] = set()
    names: set[str] = set()
    waiting = list(modules)
    for name in waiting:
        module = load(name)
        if module is None:
            continue
        waiting.extend(submodules(module))
        for kind, qualified, thing in members(module):
            text = inspect.cleandoc(thing.__doc__).strip()
            if text and text not in seen and qualified not in names:
                seen.add(text)
                names.add(qualified)
                title = qualified if kind == "module" else qualified + signature(thing)
                yield {"id": qualified, "title": title, "text": text, "kind": kind, "module": name}


def load(name: str) -> ModuleType | None:
    """Import a module quietly; return None if it is for another platform or a dependency is missing."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception:
            return None


def submodules(module: ModuleType) -> list[str]:
    """Return the public modules directly below a package."""
    if module.__name__ in LEFT_OUT_BELOW:
        return []
    names = sorted(found.name for found in pkgutil.iter_modules(getattr(module, "__path__", [])))
    return [f"{module.__name__}.{name}" for name in names if not name.startswith("_") and "test" not in name]


def members(module: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """Yield (kind, qualified name, object) of a module, its functions, classes and methods that are documented."""
    prefix = "" if module.__name__ == "builtins" else f"{module.__name__}."
    if module.__doc__:
        yield "module", module.__name__, module
    for name in public_names(module):
        thing = getattr(module, name, None)
        if not documented(thing):
            continue
        if inspect.isclass(thing):
            yield "class", prefix + name, thing
            for key, member in sorted(vars(thing).items()):
                method = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if not key.startswith("_") and documented(method) and callable(method) and not inspect.isclass(method):
                    yield "method", f"{prefix}{name}.{key}", method
        elif inspect.isroutine(thing):
            yield "function", prefix + name, thing


def public_names(module: ModuleType) -> list[str]:
    """Return ``__all__``, or the public names that the module defines."""
    if hasattr(module, "__all__"):
        return sorted(set(module.__all__))
    own = {module.__name__, "_" + module.__name__}
    return [
        name
        for name, thing in sorted(vars(module).items())
        if not name.startswith("_") and getattr(thing, "__module__", None) in own
    ]


def documented(thing: object) -> bool:
    return isinstance(getattr(thing, "__doc__", None), str) and type(thing).__doc__ != thing.__doc__


def signature(thing: Any) -> str:
    """Return ``(a, b=1)``, or "" if unknown; leave out memory addresses, which change from run to run."""
    try:
        text = ADDRESS.sub("", str(inspect.signature(thing)))
    except (TypeError, ValueError, AttributeError):  # Python 3.13 raises the latter for select.epoll.register
        return ""
    return text if len(text) <= LONGEST_SIGNATURE else "(...)"


if __name__ == "__main__":
    main()

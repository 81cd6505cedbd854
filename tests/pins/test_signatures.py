"""Pins the public names with their signatures, members and fields, and every command with its options.

What users wrote against 0.1.0 keeps running: no name, parameter, default, method, field, command or flag goes away or
changes. Whatever is added passes. ``WHERE`` has the public modules, and the dotted names that the documentation and the
examples import; whoever takes one of these away names it in the changelog.
"""

from __future__ import annotations

import enum
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel
from typer.utils import get_params_from_function

from pins.pinning import lacking, plain, recorded
from twinvec.cli import build_app

WHERE: dict[str, tuple[str, ...] | None] = {  # None: what __all__ names
    "twinvec": None,
    "twinvec_qdrant": None,
    "langchain_twinvec": None,
    "llama_index.embeddings.twinvec": None,
    "llama_index.postprocessor.twinvec_rerank": None,
    "llama_index.retrievers.twinvec": None,
    "llama_index.vector_stores.twinvec": None,
    "twinvec.training.objectives": (
        "CONCATENATIONS",
        "Distance",
        "Similarity",
        "concatenation_parts",
        "contrastive",
        "cosine_regression",
        "info_nce",
        "online_contrastive",
        "pair_features",
        "softmax_classification",
        "triplet",
    ),
    "twinvec.cli": ("build_app", "main"),
    "twinvec.documents": ("as_document", "as_documents"),
    "twinvec.evaluation.beir": ("BeirSet", "load_beir"),
    "twinvec.evaluation.ir": ("as_run", "evaluate_ir", "measure_ir"),
    "twinvec.evaluation.mteb": ("MtebEncoder",),
    "twinvec.evaluation.pairs": ("load_questions",),
    "twinvec.evaluation.serving": ("evaluate_forms",),
    "twinvec.evaluation.sts": ("StsSet", "evaluate_sts", "load_sts", "pair_similarities", "pearson", "spearman"),
    "twinvec.evaluation.tuned_search": ("Setting", "TunedSearch", "save", "saved"),
    "twinvec.export": ("ExportReport", "export_model"),
    "twinvec.models": ("ModelFolder", "find_model"),
    "twinvec.quantization": ("BOUNDS",),
    "twinvec.retrieval": ("BatchReranker", "Hit", "MemoryIndex", "Mode", "Reranker", "RetrieveRerank", "Retriever"),
    "twinvec.similarity": ("cluster", "most_similar_pairs", "semantic_search"),
    "twinvec.training.building": ("PairClassifier",),
    "twinvec.training.config": ("TrainConfig", "check_config", "read_config"),
    "twinvec.training.sections": (
        "Batches",
        "Binary",
        "Contrastive",
        "Evaluation",
        "Graded",
        "InfoNCE",
        "Lora",
        "Objective",
        "Regression",
        "Schedule",
        "Softmax",
        "Source",
        "Triplet",
    ),
    "twinvec.training.trainer": ("TrainReport", "train"),
}
_OURS = re.compile(r"twinvec|langchain_twinvec|llama_index\..*twinvec")
_QUALIFIED = re.compile(r"\b(?:twinvec|twinvec_qdrant|langchain_twinvec|llama_index|pathlib|typing)(?:\.\w+)*\.(\w+)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NAME = re.compile(r"(?<![\w'-])[A-Z]\w*|(?<=['|\[ ])[A-Z]\w*")
_PARAMETER = re.compile(r", (?=\*, |\*{0,2}\w+: |\*{0,2}\w+(?:=|,|$))")
_KNOWN = {
    *("Annotated", "Any", "Callable", "False", "Ge", "Gt", "Iterable", "Iterator", "Le", "Literal", "Lt", "Mapping"),
    *("MinLen", "None", "Optional", "Path", "PydanticUndefined", "QdrantClient", "Sequence", "Tensor", "True", "Union"),
}
_LATER = {"IndexReport", "MigrationReport", "PushReport", "VerifyReport"}
"""Types that have become public since the recording, which has them as types that users do not write."""
_CHOICES = (" | MarginMSE", ", 'scores'")
"""Choices that unions and literals have got since the recording."""
RELAXED = {
    "ingest": {  # several sources at once since 0.3
        "arguments": [
            {"name": "sources", "type": "list[str]", "default": None, "required": True, "nargs": -1, "multiple": False}
        ]
    },
    "search": {  # searches all collections of a store without --collection since 0.3
        "options": {"--collection": {"type": "str | None", "required": False}}
    },
    "drop": {  # --collection NAME can replace the argument since 0.2.0
        "arguments": [
            {"name": "name", "type": "str | None", "default": None, "required": False, "nargs": 1, "multiple": False}
        ]
    },
}
"""What commands need no more, as the changelog says."""
_OPENED = ("Collection",)
"""Classes that users do not construct."""
_CALLED = {"__init__", "__call__", "__len__", "__iter__", "__enter__", "__exit__"}


def values(folder: Path) -> dict[str, Any]:
    """Names and commands."""
    del folder
    found: dict[str, Any] = {}
    for module, names in WHERE.items():
        home = import_module(module)
        for name in names or home.__all__:
            if name != "__version__":
                found[f"{module}.{name}"] = _described(getattr(home, name))
    errors = import_module("twinvec.errors")
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            found[f"twinvec.errors.{name}"] = [each.__name__ for each in value.__mro__]
    found["commands"] = {name: _command(each) for name, each in _commands().items()}
    return found


def _described(value: Any) -> Any:
    if inspect.isclass(value):
        return _class(value)
    if inspect.isfunction(value):
        return {"signature": _signature(value)}
    return {"value": _text(value)}


def _class(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    members: dict[str, str] = {}
    for each in reversed([base for base in kind.__mro__ if _OURS.match(base.__module__)]):
        for name, value in vars(each).items():
            if name in _CALLED or not name.startswith(("_", "model_")):
                members[name] = _member(kind, name, value)
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    if kind.__name__ in _OPENED:
        members.pop("__init__")
    elif not getattr(kind, "_is_protocol", False):
        found["signature"] = _signature(kind)
    found["members"] = {name: text for name, text in members.items() if name not in fields}
    if fields:
        found["fields"] = {name: _field(field) for name, field in fields.items()}
        found["order"] = list(fields)
    return found


def _member(kind: type, name: str, value: Any) -> str:
    if isinstance(value, classmethod | staticmethod):
        return f"{type(value).__name__} {_signature(getattr(kind, name))}"
    if inspect.iscoroutinefunction(value):
        return f"async {_signature(value)}"
    if inspect.isfunction(value):
        return _signature(value)
    return f"= {value!r}" if isinstance(value, str) else "attribute"


def _field(field: Any) -> str:
    default = field.default_factory() if field.default_factory else field.default
    limits = ", ".join(map(str, field.metadata))
    return _text_of(
        f"{field.annotation if not inspect.isclass(field.annotation) else field.annotation.__name__}"
        f" = {default!r} {limits}".rstrip()
    )


def _signature(value: Any) -> str:
    try:
        return _text_of(str(inspect.signature(value)))
    except ValueError:
        return ""


def grown(expected: Any, now: Any) -> Any:
    """What there is now, without the parameters that signatures have got since: by keyword only, and not required."""
    if isinstance(expected, dict) and isinstance(now, dict):
        return {key: grown(expected.get(key), each) for key, each in now.items()}
    if not isinstance(expected, str) or not isinstance(now, str) or ") -> " not in expected or ") -> " not in now:
        return now
    before = _PARAMETER.split(expected.rpartition(") -> ")[0].partition("(")[2])
    start, _, rest = now.partition("(")
    inside, arrow, result = rest.rpartition(") -> ")
    kept: list[str] = []
    for each in _PARAMETER.split(inside):
        optional = ("*" in kept and " = " in each) or each.startswith("**")
        new = optional and each.partition(":")[0] not in {old.partition(":")[0] for old in before}
        kept += [] if new else [each]
    for place, each in enumerate(kept):
        if each == "*" and all(later.startswith("**") for later in kept[place + 1 :]):  # no keyword needs it
            del kept[place]
            break
    return f"{start}({', '.join(kept)}{arrow}{result}"


def _text(value: Any) -> str:
    return _text_of(repr(value))


def _text_of(text: str) -> str:
    """Without the modules and addresses of things, later choices, and the names of types that users do not write."""
    text = _ADDRESS.sub("", _QUALIFIED.sub(r"\1", text))
    for choice in _CHOICES:
        text = text.replace(choice, "")
    return _NAME.sub(lambda match: match[0] if match[0] in _KNOWN | _public() else "_", text)


@cache
def _public() -> frozenset[str]:
    found = {name for module, names in WHERE.items() for name in names or import_module(module).__all__}
    return frozenset(found - _LATER)


def _commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(build_app())
    return {"": group, **group.commands}


def _command(command: Any) -> dict[str, Any]:
    """Options by flag, and arguments in order."""
    kinds = {name: each.annotation for name, each in get_params_from_function(command.callback.__wrapped__).items()}
    described = {each.name: _option(each, kinds[each.name]) for each in command.params if each.name in kinds}
    return {
        "arguments": [described[each.name] for each in command.params if each.param_type_name == "argument"],
        "options": {
            flag: described[each.name]
            for each in command.params
            if each.param_type_name == "option" and each.name in described
            for flag in (*each.opts, *each.secondary_opts)
        },
    }


def _option(parameter: Any, kind: Any) -> dict[str, Any]:
    default = parameter.default
    default = default.value if isinstance(default, enum.Enum) else default
    return {
        "name": parameter.name,
        "type": _text_of(kind.__name__ if inspect.isclass(kind) else str(kind)),
        "default": default if default is None or isinstance(default, bool | int | float | str) else str(default),
        "required": parameter.required,
        "nargs": parameter.nargs,
        "multiple": getattr(parameter, "multiple", False),
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return plain(values(tmp_path_factory.mktemp("signatures")))


def test_every_name_is_there_and_as_it_was(found):
    expected = {name: each for name, each in recorded("signatures").items() if name != "commands"}
    wrong = [text for name, each in expected.items() for text in lacking(each, grown(each, found.get(name)), name)]
    assert not wrong, "\n".join(wrong)


def test_only_keywords_that_are_not_required_may_come():
    then = "classmethod (name: 'str', *, url: 'dict[str, str] | None' = None) -> 'Collection'"
    assert grown(then, then) == then
    assert grown(then, then.replace("None)", "None, more: 'int | None' = 3)")) == then
    assert grown(then, then.replace("*, ", "*, more: 'dict[str, Any]' = {}, ")) == then
    assert grown(then, then.replace("None)", "None, **options: 'Any')")) == then
    for other in (
        then.replace("*, ", "*, more: 'int', "),
        then.replace("*, ", "more: 'int' = 3, *, "),
        then.replace("url", "uri"),
        then.replace("= None", "= 3"),
    ):
        assert grown(then, other) != then
    assert grown("(self) -> 'int'", "(self, *, more: 'int' = 3) -> 'int'") == "(self) -> 'int'"
    assert grown("(**a: 'int') -> 'int'", "(*, more: 'int' = 3, **a: 'int') -> 'int'") == "(**a: 'int') -> 'int'"
    assert grown("(self) -> 'int'", "(self, more: 'int' = 3) -> 'int'") != "(self) -> 'int'"


def merged(expected: Any, relaxed: Any) -> Any:
    """What is expected, with what is relaxed in its place."""
    if not isinstance(expected, dict):
        return relaxed
    return expected | {key: merged(expected.get(key), each) for key, each in relaxed.items()}


def test_every_command_takes_what_it_took(found):
    expected = recorded("signatures")["commands"]
    expected |= {name: merged(expected[name], relaxed) for name, relaxed in RELAXED.items()}
    wrong = lacking(expected, found["commands"], "twinvec")
    assert not wrong, "\n".join(wrong)

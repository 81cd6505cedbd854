"""``LoadedModel``: the verified folder, settings, tokenizer and digests of a model, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from twinvec.models.backbone import BackboneSpec
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.finding import ModelFolder
from twinvec.models.space import SPACE_PROBES, classifier_digest, graph_digest, network_digest, space_digest
from twinvec.support.cpu import thread_pool
from twinvec.tokens.tokenizer import TextTokenizer

Spec = TypeVar("Spec", bound=BackboneSpec, covariant=True)


@dataclass(frozen=True, slots=True)
class LoadedModel(Generic[Spec]):
    """A verified folder with its settings and its tokenizer.

    ``find_model(name)`` finds the same files again. ``graph`` is the digest of the network, by which exports and cached
    graphs are found.
    """

    name: str
    root: Path
    spec: Spec
    tokenizer: TextTokenizer
    graph: str


@dataclass(frozen=True, slots=True)
class LoadedEncoder(LoadedModel[ModelSpec]):
    """An encoder, with the digests of its network (tensors, backbone settings, pooling, head) and of its space."""

    network: str
    space: str


LoadedCrossEncoder = LoadedModel[ClassifierSpec]


def load_encoder(found: ModelFolder, spec: ModelSpec) -> LoadedEncoder:
    """Load the tokenizer and compute the digests; raise ModelIntegrityError if tokenizer or weights cannot be read."""
    with thread_pool(1, "hashing") as pool:  # hashing releases the interpreter lock
        hashing = pool.submit(network_digest, spec)
        tokenizer = load_tokenizer(spec)
        identity = tokenizer.identity(SPACE_PROBES)
    network = hashing.result()
    graph, space = graph_digest(spec, network), space_digest(spec, identity, network)
    return LoadedEncoder(found.name, found.path, spec, tokenizer, graph, network, space)


def load_cross_encoder(found: ModelFolder, spec: ClassifierSpec) -> LoadedCrossEncoder:
    """Load the tokenizer and compute the digest of the graph; raises as ``load_encoder``."""
    return LoadedModel(found.name, found.path, spec, load_tokenizer(spec), classifier_digest(spec))


def load_tokenizer(spec: BackboneSpec) -> TextTokenizer:
    """Load the tokenizer that goes with a model's settings."""
    size = spec.config.get("vocab_size")
    ids = size if isinstance(size, int) else None  # engines name a wrong vocab_size
    return TextTokenizer(spec.folder, spec.max_tokens, lower_case=spec.lower_case, model_ids=ids)

"""Rerankers: MaxSim over token states, and cross-encoders."""

from __future__ import annotations

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {}, modules="cross_encoder maxsim")

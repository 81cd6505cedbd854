"""Engines: a batch of token ids goes in, pooled vectors come out. ``base`` holds the protocol, ``select`` chooses."""

from __future__ import annotations

from typing import Literal

EngineName = Literal["auto", "torch", "openvino", "onnx"]
Precision = Literal["auto", "float32", "int8", "bfloat16", "float16"]
"""Number format of a computation."""

"""Lazy names: modules that a package names are found as its attributes, each at its first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import twinvec
import twinvec_qdrant


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "name",
    [
        *("twinvec.errors.TwinvecError", "twinvec.retrieval.Hit", "twinvec.rerankers.maxsim.MaxSimReranker"),
        *("twinvec.similarity.cluster", "twinvec.models.find_model", "twinvec.correlation.pearson"),
        *("twinvec.evaluation.ir.evaluate_ir", "twinvec.training.settings.Schedule", "twinvec.export.export_model"),
        *("twinvec.retrieval.documents.as_documents", "twinvec.retrieval.filters.parse_filter"),
        *("twinvec_qdrant.report.VerifyReport", "twinvec_qdrant.settings.ChunkSettings"),
    ],
)
def test_a_public_module_is_found(name):
    assert run(f"import {name.partition('.')[0]}; print({name})")


def test_no_module_is_loaded_before_its_use():
    program = (
        "import sys, twinvec; print([name for name in ('twinvec.errors', 'twinvec.similarity') if name in sys.modules])"
    )
    assert run(program) == "[]\n"


def test_names_that_are_not_there():
    for package in (twinvec, twinvec_qdrant):
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'absent'"):
            getattr(package, "absent")  # noqa: B009
        assert "errors" in dir(twinvec)
        assert "report" in dir(twinvec_qdrant)

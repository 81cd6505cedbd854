"""Stands for a machine without FastEmbed, which qdrant-client would import, though no worker uses it."""

raise ImportError("the workers of tests do without FastEmbed")

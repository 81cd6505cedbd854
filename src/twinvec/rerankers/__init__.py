"""Rerankers: MaxSim over token states, and cross-encoders."""

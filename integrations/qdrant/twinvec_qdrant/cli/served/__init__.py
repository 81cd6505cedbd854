"""Commands for a store that a ``twinvec serve`` process uses."""

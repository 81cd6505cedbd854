"""Commands on a store that a process serves."""

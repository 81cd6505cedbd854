"""Older reading: code that only reading version 1 uses, for collections of an older version of twinvec."""

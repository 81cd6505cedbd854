"""Older reading: what only version 1 of the reading does, for collections of an older version of twinvec."""

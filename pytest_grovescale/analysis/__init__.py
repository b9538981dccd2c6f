"""Turns a recording into a result. Pure: no cluster, no clock, no files but the recording."""

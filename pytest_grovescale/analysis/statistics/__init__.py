"""The arithmetic behind a comparison: arrays in, arrays out; the last axis of an array of figures is the pairs.

One implementation serves a single comparison and ten thousand resampled ones alike.
"""

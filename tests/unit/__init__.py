"""Tests of parts by themselves; a package, so that its folders may be called like those of other tests."""

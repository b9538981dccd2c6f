"""The recorder process, its sources and the journal that it writes."""

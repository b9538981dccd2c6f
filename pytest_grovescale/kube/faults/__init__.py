"""Faults between one program and the API server: which there are, when each happens, and the proxy that makes them."""

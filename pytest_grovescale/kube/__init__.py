"""HTTP client for the API server, its credentials and errors; the only package that sends requests to it."""

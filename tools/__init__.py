"""What the project itself needs and does not ship."""

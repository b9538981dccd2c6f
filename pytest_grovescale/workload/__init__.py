"""Makes and removes the objects that the operator works on."""

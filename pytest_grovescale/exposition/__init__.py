"""What a metrics endpoint says: the formats that it may be said in, and one shape for all of them."""

"""A container engine, kind and images, also where no registry can be reached: what ``make test-kind`` runs on."""

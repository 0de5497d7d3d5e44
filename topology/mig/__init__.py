"""How a GPU is cut into MIG instances: profiles, legal starts, layouts, order of creation."""

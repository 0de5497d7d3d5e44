"""What users write: the YAML spec, its strict loader, and the way from it to a problem."""

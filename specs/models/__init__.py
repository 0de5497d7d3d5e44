"""The spec's objects, one pydantic model each: types, units, keys; nothing across objects."""

"""Published clusters in their own formats, to specs."""

"""Who starts next: one scheduler per kind of queue order."""

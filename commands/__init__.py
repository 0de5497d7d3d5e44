"""One module per verb: load, call, render."""

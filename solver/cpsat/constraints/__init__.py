"""The rules that every plan obeys: one file, one entry function each."""

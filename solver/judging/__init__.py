"""The rules that a plan is judged by, each from its definition; `solver.verify` asks them all."""

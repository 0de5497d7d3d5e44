"""A Slurm cluster to a spec: what scontrol and squeue print, and topology.conf."""

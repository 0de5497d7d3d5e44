"""Hardware facts: GPU models, links between GPUs, NVLink islands, machine presets."""

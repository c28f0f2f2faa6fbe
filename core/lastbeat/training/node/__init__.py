"""A node: its GPUs, memory, processes, disks and network, what of them a run uses, and warnings about their health."""

"""How a node is: what its GPUs, memory, disks and network say, and what of that is worth a warning."""

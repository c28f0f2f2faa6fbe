"""The health of a node: samples its GPUs, memory, disks and network, and raises warnings."""

"""What may be used: discovery of cores, memory and devices, affinity."""

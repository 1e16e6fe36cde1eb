"""What the memory does: four actors that know no host."""

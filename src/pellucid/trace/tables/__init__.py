"""Tables of kernels that tools and people publish → a KernelTable or a Timeline."""

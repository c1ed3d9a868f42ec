"""Facts about kernels: names, generations of attention, labels of steps, inputs of operators."""

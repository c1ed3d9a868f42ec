"""One step of a model: a geometry and a batch → the work of each part, named as kernels are classified."""

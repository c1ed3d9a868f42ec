"""Traces of the torch profiler (Kineto): JSON, packed or not, CUDA or ROCm → a Timeline."""

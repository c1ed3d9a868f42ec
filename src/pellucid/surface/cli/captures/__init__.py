"""Commands about captures of kernels."""

"""What a trace says → rows of captures, capture_steps, kernels and kernel_metrics, in columns."""

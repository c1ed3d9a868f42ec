"""The span a diagnosis looks at and what it held: of steps, of metrics pages, of kernel captures."""

"""`pellucid predict`: what another setting or load would do (`what_if`), and on paper another model or GPU (`paper`)."""

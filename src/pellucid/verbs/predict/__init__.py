"""`pellucid predict`: another setting or load (`what_if`), and on paper another model or GPU (`paper`)."""

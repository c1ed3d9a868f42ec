"""`pellucid predict`: what another setting, another load, another machine would do."""

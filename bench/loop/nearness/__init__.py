"""How near real engines come to their roofs: recordings and public runs → src/pellucid/catalog/devices/seen.toml."""

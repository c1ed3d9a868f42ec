"""Engine core: KV blocks. What is held and free, whose blocks are whose, and what lies in an outer tier."""

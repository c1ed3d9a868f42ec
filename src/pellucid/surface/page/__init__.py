"""Pages that are one file each: no server, no network."""

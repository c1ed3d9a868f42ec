"""The store: a run is a folder of immutable Parquet segments plus one open Arrow tail per table."""

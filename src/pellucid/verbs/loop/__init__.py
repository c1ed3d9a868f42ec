"""The loop: traffic recorded and replayed, a change tried, judged, kept or taken back."""

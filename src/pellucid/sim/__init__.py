"""What an engine would do: its scheduling on virtual time, and how long a step of it takes."""

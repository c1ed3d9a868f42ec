"""An engine's scheduling on virtual time: requests and a step's duration in, moments of every request out."""

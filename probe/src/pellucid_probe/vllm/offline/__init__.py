"""Code that needs the engine's environment outside serving. A child process speaking JSON."""

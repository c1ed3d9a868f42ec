"""One trial: two engines beside each other, the same traffic in turn, and what came of it."""

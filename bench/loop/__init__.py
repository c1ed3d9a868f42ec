"""What the loop rests on: the client, the verdicts and the noise they are drawn from."""

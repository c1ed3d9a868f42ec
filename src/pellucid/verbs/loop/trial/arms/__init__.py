"""The two sides of a trial: engines beside each other with equal shares of the machine, or one that is set anew."""

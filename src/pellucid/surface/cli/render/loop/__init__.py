"""What the commands of the loop show."""

"""What the verdict on speed finds, how soon, and how often it keeps what is not better."""

"""What clients and gateways measured themselves."""

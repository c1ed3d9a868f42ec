"""What work a model asks for and what a device can do: pure formulae, for rooflines and predictions alike."""

"""Compulsory work of each operation by its shapes. Sources are with the formulae; a multiply-add is 2 flop."""

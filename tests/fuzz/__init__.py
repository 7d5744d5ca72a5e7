"""Fuzzing of every reader: `make fuzz`. What it finds goes to `found/` and is tried by the tests ever after."""

"""Published figures, measured again: one file per figure, its results in `results/`."""

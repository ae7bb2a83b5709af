"""The command `trainyard`: one file per group of commands, all listed in `main.py`."""

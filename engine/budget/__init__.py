"""A budget of memory: what is kept, moved or computed again, so that a pass fits and takes the least time.

Pure: numbers in, schedules and choices out. `sequence.py` and `chain.py` plan one chain of steps, as `instructions.py`
says; `frontier.py` chooses for the blocks of a model.
"""

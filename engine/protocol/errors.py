"""What goes wrong between parties."""


class OutOfStepError(Exception):
    """A party does not follow the protocol. The message says which, and what it sent."""

"""Why a model is not cut."""


class CannotCutError(Exception):
    """The model cannot be cut anywhere; the message says why."""

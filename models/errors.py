"""Errors about models, worded for the user."""

from __future__ import annotations


class ModelError(Exception):
    """The requested model can't be built; shown as one line, never as a traceback."""


class UnknownModel(ModelError):  # noqa: N818  what went wrong is in the name
    """No model has this name; the line lists similar names."""


class WrongOption(ModelError):  # noqa: N818
    """The model does not accept this option, or the option does not accept this value."""


class MissingRequirement(ModelError):  # noqa: N818
    """A package that the model needs is not installed; the line contains the command that installs it."""


class UserModelError(ModelError):
    """The user's own module or factory failed; its cause says where in the user's code."""

"""What can go wrong with a model, in words for the person who asked for it."""

from __future__ import annotations


class ModelError(Exception):
    """A model that can't be had as asked: shown as one line, never as a traceback."""


class UnknownModel(ModelError):  # noqa: N818  what went wrong is in the name
    """No model has this name; the line names those that look like it."""


class WrongOption(ModelError):  # noqa: N818
    """An option that the model does not take, or a value that the option does not."""


class MissingRequirement(ModelError):  # noqa: N818
    """A package that the model needs is not installed; the line holds the command that installs it."""


class UserModelError(ModelError):
    """The user's own module or factory failed; the error it is raised from says where in the user's code."""

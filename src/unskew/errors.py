"""Every error unskew raises on purpose; each message is one sentence: what is wrong, the value, what to do."""


class UnskewError(Exception):
    """Base of all our errors: catch this one to catch them all."""


class DataError(UnskewError, ValueError):
    """The data handed in cannot be used; names column, row and value where there are any."""


class ParameterError(UnskewError, ValueError):
    """A setting is unknown or out of range."""


class PlanError(UnskewError):
    """A method's plan does not fit together, or cannot be rewritten as asked."""


class DivergedError(UnskewError, ArithmeticError):
    """Training left the finite numbers; names stage, role and epoch."""


class FileError(UnskewError):
    """A file that unskew wrote is missing, truncated, altered, foreign or newer than this version."""


class ModelFileError(FileError):
    """A model cannot be saved, or one of its files is not what was saved."""


class CacheWarning(UserWarning):
    """The cache of a log cannot be used as it is and is built again."""

"""The exceptions of the package. The extension module raises them by name."""

from __future__ import annotations

__all__ = [
    "Error",
    "ConstraintError",
    "DeadlineError",
    "FuelError",
    "TokenizerError",
    "MatcherError",
    "SampleError",
    "OptionError",
    "InternalError",
]


class Error(Exception):
    """An error of unskew. Every other one is a kind of it."""


class ConstraintError(Error, ValueError):
    """A constraint that cannot be enforced exactly, or is none. The message is one line: the place, the reason and the way out."""

    #: Where it is: "line 1, column 3", a JSON pointer, a file or an option; None where it is in no one place.
    place: str | None

    def __init__(self, message: str = "", place: str | None = None) -> None:
        super().__init__(message)
        self.place = place


class DeadlineError(Error, TimeoutError):
    """A constraint that was not compiled in the time that the caller gave."""


class FuelError(DeadlineError):
    """A constraint that takes more work to compile than the caller gave fuel for. Unlike a deadline, it is the same in each process and on
    each machine."""


class TokenizerError(Error, ValueError):
    """A tokenizer that cannot be loaded exactly, or a text that it cannot spell."""


class MatcherError(Error, ValueError):
    """Wrong use of a matcher, or of memory for masks. Nothing has changed."""


class SampleError(Error, RuntimeError):
    """A sampler that has no output: the model's answer is no distribution, or all tries were refused."""


class OptionError(Error, ValueError):
    """An option that there is not, a value that it does not take, or parts that do not go together."""


class InternalError(Error, RuntimeError):
    """A fault of unskew, and not of its caller: a panic of the library. The object that was called is as it was before."""


for _class in (Error, ConstraintError, DeadlineError, FuelError, TokenizerError, MatcherError, SampleError, OptionError, InternalError):
    _class.__module__ = "unskew"
del _class

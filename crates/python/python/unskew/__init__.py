"""Constrained decoding that keeps the language model's own distribution.

A constraint (a type, a regex, a JSON Schema, a grammar, a list, a structural tag, tools) is compiled for the tokens of one model. A
`Matcher` then says which tokens may come next, as a bit mask that is exact: bit for bit the tokens that `accept` takes.
`sample` draws outputs of any model from P(output | constraint), which masking alone does not.
"""

from ._async import asample
from ._audit import Audit, audit
from ._errors import (
    ConstraintError,
    DeadlineError,
    Error,
    FuelError,
    InternalError,
    MatcherError,
    OptionError,
    SampleError,
    TokenizerError,
)
from ._masks import apply
from ._tools import Call, tool_list
from ._unskew import (
    COMPILE_FUEL,
    Capture,
    Compiled,
    Compiler,
    Constraint,
    Draw,
    Draws,
    Endpoint,
    Faithful,
    Matcher,
    Model,
    Rows,
    Stream,
    Tokenizer,
    Walk,
    __version__,
    accept_batch,
    fill_batch,
    methods,
    sample,
    known_walks,
    merge_stats,
    step_walks,
    stream,
)

__all__ = [
    "Audit",
    "COMPILE_FUEL",
    "Call",
    "Capture",
    "Compiled",
    "Compiler",
    "Constraint",
    "ConstraintError",
    "DeadlineError",
    "Draw",
    "Draws",
    "Endpoint",
    "Error",
    "Faithful",
    "FuelError",
    "InternalError",
    "Matcher",
    "MatcherError",
    "Model",
    "OptionError",
    "Rows",
    "SampleError",
    "Stream",
    "Tokenizer",
    "TokenizerError",
    "Walk",
    "__version__",
    "accept_batch",
    "apply",
    "asample",
    "audit",
    "fill_batch",
    "methods",
    "sample",
    "known_walks",
    "merge_stats",
    "step_walks",
    "stream",
    "tool_list",
]

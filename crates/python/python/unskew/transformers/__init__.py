"""unskew in `transformers`: masks for `generate`, and outputs from the model's own distribution.

`LogitsProcessor` masks: outputs are valid, and their distribution is that of masking. `faithful` is a `custom_generate` that draws
from P(output | constraint). `Model` is a causal language model as the function that `unskew.sample` and `unskew.audit` ask for
rows; it keeps keys and values of common beginnings.
"""

from ._faithful import FaithfulOutput, faithful
from ._model import Model
from ._processor import LogitsProcessor

__all__ = ["FaithfulOutput", "LogitsProcessor", "Model", "faithful"]

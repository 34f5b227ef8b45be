//! Samplers that keep the law of the language model under a constraint

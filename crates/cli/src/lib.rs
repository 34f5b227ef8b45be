//! Constrained decoding that keeps the language model's own distribution

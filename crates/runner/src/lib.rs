//! Runs decoder-only transformers of the Llama family with burn

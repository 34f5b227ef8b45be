//! The embedded language model of unskew: weights, tokenizer, configuration and model card

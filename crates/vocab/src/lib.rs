//! Loads tokenizer.json files into exact token bytes, merge tables and split patterns

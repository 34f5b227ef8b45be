//! Token ids, vocabularies, token masks and the traits of constrained decoding, with their laws as a test kit

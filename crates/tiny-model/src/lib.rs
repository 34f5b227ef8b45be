//! The embedded language models of unskew: weights, tokenizer, configurations and model card, and nothing else.
//!
//! # Should you use this crate?
//!
//! To try constrained decoding without a download, and in tests: yes. For outputs that anybody should read: no.
//!
//! Two small transformers of the Llama family with one tokenizer, trained by `cargo xtask train` on a synthetic corpus:
//! [`TINY`] writes plausible records, short English sentences, logs and sums; [`DRAFT`] is a quarter of its size and
//! proposes tokens to it. They are made to show and to test constrained decoding where no other model is at hand, and
//! know nothing about the world: for anything else, load a checkpoint of your own.
//!
//! The crate holds bytes and depends on nothing; `unskew-runner` runs them: `Llama::from_bytes(TINY.config_json,
//! TINY.safetensors)`.

/// The bytes of a model, as files of a Hugging Face checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedModel {
    /// The content of `config.json`.
    pub config_json: &'static str,
    /// The content of `model.safetensors`, in f16.
    pub safetensors: &'static [u8],
}

/// The model that the command line runs by default.
pub const TINY: EmbeddedModel = EmbeddedModel {
    config_json: include_str!("../model/tiny/config.json"),
    safetensors: include_bytes!("../model/tiny/model.safetensors"),
};

/// The smaller one, for drafts.
pub const DRAFT: EmbeddedModel = EmbeddedModel {
    config_json: include_str!("../model/draft/config.json"),
    safetensors: include_bytes!("../model/draft/model.safetensors"),
};

/// The content of the `tokenizer.json` of both.
pub const TOKENIZER_JSON: &str = include_str!("../model/tokenizer.json");

/// How they were made, and their uses and limits.
pub const MODEL_CARD: &str = include_str!("../model/MODEL_CARD.md");

#[cfg(test)]
mod tests {
    use super::*;

    /// The workspace promises a size in the repository.
    #[test]
    fn the_models_stay_small() {
        let draft = DRAFT.safetensors.len();
        let all = TINY.safetensors.len() + draft + TOKENIZER_JSON.len() + MODEL_CARD.len();
        assert!(draft < 1 << 20, "{draft} bytes");
        assert!(all < 8 << 20, "{all} bytes");
    }
}

//! Checkpoints with random weights, as a safetensors file.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_runner::ModelConfig;

/// Weights that are written at a time.
const CHUNK: usize = 1 << 20;

/// How weights are stored.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(feature = "burn"),
    allow(dead_code, reason = "passes are timed beside burn, in each of these")
)]
pub(crate) enum Stored {
    F32,
    F16,
    Bf16,
}

impl Stored {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Of a weight.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// A weight between 2^-5 and 2^-4, of either sign.
    fn push(self, random: u32, out: &mut Vec<u8>) {
        let sign = random & 0x8000_0000;
        match self {
            Self::F32 => out.extend((sign | (122 << 23) | (random & 0x007f_ffff)).to_le_bytes()),
            Self::F16 => out.extend(((sign >> 16 | (10 << 10) | (random & 0x03ff)) as u16).to_le_bytes()),
            Self::Bf16 => out.extend(((sign >> 16 | (122 << 7) | (random & 0x007f)) as u16).to_le_bytes()),
        }
    }
}

/// Writes a checkpoint of this shape, with a tied head.
pub(crate) fn checkpoint(config: &ModelConfig, stored: Stored, mut file: impl Write) -> io::Result<()> {
    let hidden = config.hidden_size;
    let query = config.num_attention_heads * config.head_dim;
    let value = config.num_key_value_heads * config.head_dim;
    let inner = config.intermediate_size;
    let mut tensors = vec![("model.embed_tokens".to_owned(), vec![config.vocab_size, hidden])];
    for layer in 0..config.num_hidden_layers {
        let parts: [(&str, Vec<usize>); 9] = [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![query, hidden]),
            ("self_attn.k_proj", vec![value, hidden]),
            ("self_attn.v_proj", vec![value, hidden]),
            ("self_attn.o_proj", vec![hidden, query]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
        ];
        tensors.extend(parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}"), shape)));
    }
    tensors.push(("model.norm".to_owned(), vec![hidden]));

    let mut header = "{".to_owned();
    let mut begin = 0;
    for (name, shape) in &tensors {
        let end = begin + shape.iter().product::<usize>() * stored.bytes();
        let comma = if begin == 0 { "" } else { "," };
        let dtype = stored.name().to_uppercase();
        let _ = write!(
            header,
            r#"{comma}"{name}.weight":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        );
        begin = end;
    }
    header += "}";
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut left, mut chunk) = (begin / stored.bytes(), Vec::new());
    while left > 0 {
        chunk.clear();
        let count = left.min(CHUNK);
        (0..count).for_each(|_| stored.push(random.next_u32(), &mut chunk));
        file.write_all(&chunk)?;
        left -= count;
    }
    file.flush()
}

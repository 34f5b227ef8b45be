//! GGUF files for tests: any metadata, and checkpoints of the Llama family as llama.cpp wants them.

use half::f16;
use safetensors::SafeTensors;
use serde_json::Value;

/// The alignment of the weights where no key names one.
const ALIGNMENT: usize = 32;

/// A GGUF file that is written from front to back.
#[derive(Clone, Debug, Default)]
pub struct GgufWriter {
    keys: u64,
    metadata: Vec<u8>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl GgufWriter {
    /// A file of version 3 without keys and tensors.
    pub fn new() -> Self {
        Self::default()
    }

    fn pair(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        self.keys += 1;
        text(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
        self
    }

    fn array(&mut self, key: &str, kind: u32, len: usize, items: &[u8]) -> &mut Self {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend((len as u64).to_le_bytes());
        value.extend(items);
        self.pair(key, 9, &value)
    }

    /// A text.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        let mut bytes = Vec::new();
        text(&mut bytes, value);
        self.pair(key, 8, &bytes)
    }

    /// A number of 32 bits.
    pub fn number(&mut self, key: &str, value: u32) -> &mut Self {
        self.pair(key, 4, &value.to_le_bytes())
    }

    /// A number with a fraction.
    pub fn float(&mut self, key: &str, value: f32) -> &mut Self {
        self.pair(key, 6, &value.to_le_bytes())
    }

    /// True or false.
    pub fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        self.pair(key, 7, &[u8::from(value)])
    }

    /// Texts.
    pub fn texts<T: AsRef<str>>(&mut self, key: &str, values: &[T]) -> &mut Self {
        let mut items = Vec::new();
        for value in values {
            text(&mut items, value.as_ref());
        }
        self.array(key, 8, values.len(), &items)
    }

    /// Numbers with a sign.
    pub fn numbers(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, 5, values.len(), &items)
    }

    /// Numbers with a fraction.
    pub fn floats(&mut self, key: &str, values: &[f32]) -> &mut Self {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, 6, values.len(), &items)
    }

    /// A tensor, with the number of its type in ggml. The first number of `shape` is that of the entries side by side.
    pub fn tensor(&mut self, name: &str, shape: &[u64], kind: u32, data: Vec<u8>) -> &mut Self {
        self.tensors.push((name.to_owned(), shape.to_vec(), kind, data));
        self
    }

    /// Changes the type and the bytes of the tensors for which `change` has other ones, by name.
    pub fn replace_tensors(&mut self, change: impl Fn(&str) -> Option<(u32, Vec<u8>)>) -> &mut Self {
        for (name, _, kind, data) in &mut self.tensors {
            if let Some(other) = change(name) {
                (*kind, *data) = other;
            }
        }
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.keys.to_le_bytes());
        bytes.extend(&self.metadata);
        let mut start = 0usize;
        for (name, shape, kind, data) in &self.tensors {
            text(&mut bytes, name);
            bytes.extend((shape.len() as u32).to_le_bytes());
            bytes.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend((start as u64).to_le_bytes());
            start += data.len().next_multiple_of(ALIGNMENT);
        }
        for (_, _, _, data) in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
            bytes.extend(data);
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }
}

/// How the matrices of a file are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weights {
    /// 32 bits.
    F32,
    /// 16 bits.
    F16,
    /// Blocks of 32 numbers of 8 bits and their scale.
    Q8,
}

impl Weights {
    fn kind(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8 => 8,
        }
    }

    fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
            Self::Q8 => values.chunks_exact(32).flat_map(block).collect(),
        }
    }
}

/// A block of `q8_0`: the largest magnitude is 127 times the scale.
fn block(values: &[f32]) -> Vec<u8> {
    let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    let mut bytes = f16::from_f32(scale).to_le_bytes().to_vec();
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    bytes.extend(values.iter().map(|value| (value * inverse).round() as i8 as u8));
    bytes
}

/// The weights that a file of `weights` stands for, in the order of the checkpoint: the checkpoint after a change of
/// precision.
pub fn rounded(values: &[f32], weights: Weights) -> Vec<f32> {
    match weights {
        Weights::F32 => values.to_vec(),
        Weights::F16 => values.iter().map(|value| f16::from_f32(*value).to_f32()).collect(),
        Weights::Q8 => values
            .chunks_exact(32)
            .flat_map(|values| {
                let bytes = block(values);
                let scale = f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
                bytes[2..].iter().map(move |quant| f32::from(*quant as i8) * scale).collect::<Vec<_>>()
            })
            .collect(),
    }
}

/// A checkpoint of the Llama family with a byte-level tokenizer of GPT-2's pattern, as a GGUF file.
///
/// llama.cpp turns neighbours in a row of queries and keys where transformers turns the two halves of a head, so that
/// the rows of these two matrices are in another order.
///
/// # Panics
///
/// Where the checkpoint is of another kind. It is for the embedded models.
pub fn llama(config_json: &str, tokenizer_json: &str, safetensors: &[u8], weights: Weights) -> Vec<u8> {
    let config: Value = serde_json::from_str(config_json).expect("config.json");
    let number = |key: &str| config[key].as_u64().unwrap_or_else(|| panic!("a number `{key}`"));
    let size = |key: &str| u32::try_from(number(key)).expect("a small number");
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama").text("general.name", "unskew");
    for (key, of) in [
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("block_count", "num_hidden_layers"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.value_length", "head_dim"),
        ("rope.dimension_count", "head_dim"),
        ("vocab_size", "vocab_size"),
    ] {
        file.number(&format!("llama.{key}"), size(of));
    }
    for (key, of) in [("attention.layer_norm_rms_epsilon", "rms_norm_eps"), ("rope.freq_base", "rope_theta")]
    {
        file.float(&format!("llama.{key}"), config[of].as_f64().expect("a number") as f32);
    }
    tokenizer(&mut file, tokenizer_json);

    let tensors = SafeTensors::deserialize(safetensors).expect("model.safetensors");
    let values = |name: &str| -> (Vec<u64>, Vec<f32>) {
        let tensor = tensors.tensor(name).unwrap_or_else(|_| panic!("a tensor `{name}`"));
        let halves = tensor.data().chunks_exact(2);
        let values = halves.map(|half| f16::from_le_bytes([half[0], half[1]]).to_f32()).collect();
        (tensor.shape().iter().rev().map(|size| *size as u64).collect(), values)
    };
    let mut put = |name: &str, of: &str, heads: Option<u64>| {
        let (shape, mut values) = values(of);
        if let Some(heads) = heads {
            values = interleaved(&values, heads as usize, shape[0] as usize);
        }
        let weights = if shape.len() == 1 { Weights::F32 } else { weights };
        file.tensor(name, &shape, weights.kind(), weights.encode(&values));
    };
    put("token_embd.weight", "model.embed_tokens.weight", None);
    put("output_norm.weight", "model.norm.weight", None);
    for layer in 0..number("num_hidden_layers") {
        for (name, of, heads) in [
            ("attn_norm", "input_layernorm", None),
            ("ffn_norm", "post_attention_layernorm", None),
            ("attn_q", "self_attn.q_proj", Some(number("num_attention_heads"))),
            ("attn_k", "self_attn.k_proj", Some(number("num_key_value_heads"))),
            ("attn_v", "self_attn.v_proj", None),
            ("attn_output", "self_attn.o_proj", None),
            ("ffn_gate", "mlp.gate_proj", None),
            ("ffn_up", "mlp.up_proj", None),
            ("ffn_down", "mlp.down_proj", None),
        ] {
            put(&format!("blk.{layer}.{name}.weight"), &format!("model.layers.{layer}.{of}.weight"), heads);
        }
    }
    file.bytes()
}

/// The rows of each head in the order in which the first half and the second take turns.
fn interleaved(values: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let half = values.len() / columns / heads / 2;
    let row = |row: usize| &values[row * columns..(row + 1) * columns];
    let rows = (0..heads)
        .flat_map(|head| (0..half).flat_map(move |at| [0, half].map(|by| head * 2 * half + by + at)));
    rows.flat_map(|at| row(at).to_vec()).collect()
}

/// The sizes of a model of the Llama family.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of a token's vector.
    pub width: u32,
    /// Layers.
    pub layers: u32,
    /// The inner width of a layer's feed-forward part.
    pub inner: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub shared: u32,
}

/// The shape of SmolLM2-135M, which has 49,152 tokens.
pub const SMOLLM2_135M: Shape = Shape { width: 576, layers: 30, inner: 1536, heads: 9, shared: 3 };

/// A model of the Llama family with one narrow layer and weights that mean nothing, for the tokenizer that `write`
/// writes; it answers with the number of tokens.
pub fn random_llama(write: impl FnOnce(&mut GgufWriter) -> usize) -> Vec<u8> {
    let narrow = Shape { width: 32, layers: 1, inner: 32, heads: 1, shared: 1 };
    random_llama_of(narrow, Weights::F32, write)
}

/// The same in another shape.
pub fn random_llama_of(
    shape: Shape,
    weights: Weights,
    write: impl FnOnce(&mut GgufWriter) -> usize,
) -> Vec<u8> {
    let Shape { width, layers, inner, heads, shared } = shape;
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama");
    for (key, value) in [
        ("context_length", 2048),
        ("embedding_length", width),
        ("block_count", layers),
        ("feed_forward_length", inner),
        ("attention.head_count", heads),
        ("attention.head_count_kv", shared),
        ("rope.dimension_count", width / heads),
    ] {
        file.number(&format!("llama.{key}"), value);
    }
    file.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let tokens = write(&mut file) as u64;
    let mut state = 1u32;
    let mut put = |name: &str, shape: &[u64]| {
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let values: Vec<f32> = (0..shape.iter().product::<u64>()).map(next).collect();
        let weights = if shape.len() == 1 { Weights::F32 } else { weights };
        file.tensor(name, shape, weights.kind(), weights.encode(&values));
    };
    let [width, inner] = [width, inner].map(u64::from);
    let narrow = width / u64::from(heads) * u64::from(shared);
    put("token_embd.weight", &[width, tokens]);
    put("output_norm.weight", &[width]);
    for layer in 0..layers {
        for (name, shape) in [
            ("attn_norm", &[width][..]),
            ("ffn_norm", &[width]),
            ("attn_q", &[width, width]),
            ("attn_k", &[width, narrow]),
            ("attn_v", &[width, narrow]),
            ("attn_output", &[width, width]),
            ("ffn_gate", &[width, inner]),
            ("ffn_up", &[width, inner]),
            ("ffn_down", &[inner, width]),
        ] {
            put(&format!("blk.{layer}.{name}.weight"), shape);
        }
    }
    file.bytes()
}

/// The keys of a tokenizer of SentencePiece's kind with `count` tokens that mean nothing, 259 at the least.
pub fn numbered(file: &mut GgufWriter, count: usize) -> usize {
    let mut names: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    names.extend((0..=255u8).map(|byte| format!("<{byte:#04X}>")));
    names.extend((names.len()..count).map(|id| format!("▁{id}")));
    let types: Vec<i32> =
        [2, 3, 3].into_iter().chain([6; 256]).chain([1].repeat(names.len() - 259)).collect();
    let scores: Vec<f32> = (0..names.len()).map(|id| -(id as f32)).collect();
    file.text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &names)
        .floats("tokenizer.ggml.scores", &scores)
        .numbers("tokenizer.ggml.token_type", &types);
    names.len()
}

/// The keys of a small tokenizer of SentencePiece's kind: an unknown, a begin and an end token, the bytes, tokens of
/// several characters by falling score, characters, one that is matched on the text, and one that is unused. Returns
/// the number of tokens.
pub fn sentence_piece(file: &mut GgufWriter, prefix: bool) -> usize {
    let mut tokens: Vec<(String, f32, i32)> =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(name, kind)| (name.to_owned(), 0.0, kind)).into();
    tokens.extend((0..=255u8).map(|byte| (format!("<{byte:#04X}>"), 0.0, 6)));
    let joined = [
        "▁▁",
        "▁t",
        "he",
        "in",
        "▁a",
        "er",
        "▁the",
        "on",
        "▁▁▁▁",
        "re",
        "aa",
        "nd",
        "▁and",
        "or",
        "es",
        "in▁",
        "aaa",
        "12",
        "345",
        "12345",
        "▁in",
        "▁line",
        "li",
        "ne",
        "line",
        "lines",
        "é▁",
        "fé",
        "漢字",
        "ca",
        "▁ca",
        "café",
        "aaaa",
        "ree",
        "th",
        "the",
    ];
    let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain("▁.,'!?{}é漢字".chars());
    let pieces = joined.into_iter().map(str::to_owned).chain(letters.map(String::from));
    tokens.extend(pieces.enumerate().map(|(rank, piece)| (piece, -(rank as f32), 1)));
    tokens.push(("<tag>".to_owned(), 0.0, 4));
    tokens.push(("[PAD1]".to_owned(), 0.0, 5));
    let names: Vec<&str> = tokens.iter().map(|(name, ..)| name.as_str()).collect();
    let scores: Vec<f32> = tokens.iter().map(|(_, score, _)| *score).collect();
    let types: Vec<i32> = tokens.iter().map(|(.., kind)| *kind).collect();
    file.text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &names)
        .floats("tokenizer.ggml.scores", &scores)
        .numbers("tokenizer.ggml.token_type", &types)
        .flag("tokenizer.ggml.add_space_prefix", prefix);
    tokens.len()
}

/// The keys of a byte-level tokenizer of GPT-2's pattern.
pub fn tokenizer(file: &mut GgufWriter, tokenizer_json: &str) {
    tokenizer_with(file, tokenizer_json, "gpt-2");
}

/// The same with another name of its pattern. Returns the number of tokens.
pub fn tokenizer_with(file: &mut GgufWriter, tokenizer_json: &str, pre: &str) -> usize {
    let json: Value = serde_json::from_str(tokenizer_json).expect("tokenizer.json");
    let model = &json["model"];
    let mut tokens: Vec<(&str, u64)> = model["vocab"]
        .as_object()
        .expect("a vocabulary")
        .iter()
        .map(|(token, id)| (token.as_str(), id.as_u64().expect("an id")))
        .collect();
    tokens.sort_unstable_by_key(|(_, id)| *id);
    assert!(tokens.iter().zip(0..).all(|((_, id), at)| *id == at), "ids without holes");
    let mut types = vec![1; tokens.len()];
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        let id = added["id"].as_u64().expect("an id") as usize;
        types[id] = if added["special"] == true { 3 } else { 4 };
    }
    let merge = |merge: &Value| match merge.as_array() {
        Some(pair) => {
            format!("{} {}", pair[0].as_str().expect("a token"), pair[1].as_str().expect("a token"))
        }
        None => merge.as_str().expect("a merge").to_owned(),
    };
    let merges: Vec<String> = model["merges"].as_array().expect("merges").iter().map(merge).collect();
    let tokens: Vec<&str> = tokens.into_iter().map(|(token, _)| token).collect();
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", &tokens)
        .numbers("tokenizer.ggml.token_type", &types)
        .texts("tokenizer.ggml.merges", &merges)
        .number("tokenizer.ggml.bos_token_id", 0)
        .number("tokenizer.ggml.eos_token_id", 0)
        .flag("tokenizer.ggml.add_bos_token", true);
    tokens.len()
}

//! The parts of a decoder that differ between families of models, as data.
//!
//! [`crate::network`] makes the description concrete for the decoders on the CPU and on burn, and no code is written
//! for a family. [`super::families`] fills the description from a `config.json`. Tried instead: a decoder for each
//! family. Ten copies of one loop differ in a few lines each, and a fault that is mended in one stays in the others.

/// The families of models that are read, by the names of their tensors and of the fields of their configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// Llama 2, 3, 3.1 and later, and the many models of their form, among them SmolLM 2.
    Llama,
    /// Mistral: a window in every layer.
    Mistral,
    /// Qwen 2 and 2.5: biases of queries, keys and values.
    Qwen2,
    /// Qwen 3: normalised queries and keys.
    Qwen3,
    /// SmolLM 3: some layers know no positions.
    SmolLm3,
    /// Gemma 2: soft caps, alternating windows, four norms in a layer.
    Gemma2,
    /// Gemma 3, text: two rotary bases, normalised queries and keys.
    Gemma3,
    /// Phi 3 and Phi 4 mini: fused weights, partial rotary embeddings, LongRoPE.
    Phi3,
    /// GPT-2: learned positions, layer normalisation, biases, no gate.
    Gpt2,
    /// OLMo 2: norms after the blocks and over whole rows of queries and keys.
    Olmo2,
}

/// A normalisation of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Norm {
    /// Division by the root mean square, then scales.
    Rms,
    /// The same, with scales that are stored without the one that is added to them.
    RmsPlusOne,
    /// Mean zero and variance one, then scales and biases.
    Layer,
}

/// Where the residual stream is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// The input of each block.
    Before,
    /// The output of each block, before it is added to the stream.
    After,
    /// Both.
    Both,
}

/// A normalisation of queries and keys, before they are turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadNorm {
    /// None.
    None,
    /// Each head, with the same scales.
    Head,
    /// All heads of a row together.
    Row,
}

/// The function inside the feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x` times the normal distribution's function, by the error function.
    Gelu,
    /// The same, approximated by a hyperbolic tangent.
    GeluTanh,
    /// `x / (1 + exp(-1.702 x))`
    QuickGelu,
    /// The larger of `x` and zero.
    Relu,
}

/// The linear maps that add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Those to queries, keys and values.
    pub attention_inputs: bool,
    /// That out of attention.
    pub attention_output: bool,
    /// Those of the feed-forward block.
    pub feed_forward: bool,
}

/// The rotary embedding of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerRotary {
    /// The model's own.
    #[default]
    Global,
    /// [`Architecture::local_rope`].
    Local,
    /// None: the layer does not know positions.
    None,
}

/// The parts of a layer that differ from layer to layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerKind {
    /// The most positions that a row sees, its own among them; `None`: all.
    pub window: Option<usize>,
    /// The rotary embedding.
    pub rotary: LayerRotary,
}

/// How rotary frequencies are changed for texts longer than those of training. The formulas are those of transformers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Scaling {
    /// Not at all.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// A larger base for sequences longer than `max_position_embeddings`. The base follows the length, so that every
    /// position beyond that length reads its whole text anew.
    Dynamic {
        /// The growth of the context.
        factor: f64,
    },
    /// Low frequencies divided, high ones kept, those between interpolated.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// The original context over the wavelength from which frequencies are low.
        low: f64,
        /// The same for high frequencies.
        high: f64,
        /// The context of training.
        original: usize,
    },
    /// A ramp over the coordinates between kept and divided frequencies.
    Yarn {
        /// The divisor.
        factor: f64,
        /// The factor of cosines and sines.
        attention: f64,
        /// Turns in the original context from which a frequency is kept.
        fast: f64,
        /// Turns below which it is divided.
        slow: f64,
        /// The context of training.
        original: usize,
        /// Whether the ends of the ramp are whole coordinates.
        truncate: bool,
    },
    /// A divisor for each frequency, and others for sequences longer than the original context.
    LongRope {
        /// Divisors up to the original context.
        short: Vec<f64>,
        /// Divisors beyond it.
        long: Vec<f64>,
        /// The factor of cosines and sines.
        attention: f64,
        /// The context of training.
        original: usize,
    },
}

/// A second rotary embedding, of layers with [`LayerRotary::Local`].
#[derive(Clone, Debug, PartialEq)]
pub struct LocalRope {
    /// The base of the wavelengths.
    pub theta: f64,
    /// The scaling; not one that follows the length.
    pub scaling: Scaling,
}

/// How a decoder computes, apart from its sizes.
///
/// [`Architecture::llama`] is the plain form. Fields may be changed, and a model checks that it can run the result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Architecture {
    /// The family, which decides the names of tensors and of the fields of `config.json`.
    pub family: Family,
    /// The normalisation of the residual stream.
    pub norm: Norm,
    /// Where it is normalised.
    pub placement: Placement,
    /// The maps that add a bias.
    pub biases: Biases,
    /// The normalisation of queries and keys.
    pub head_norm: HeadNorm,
    /// The function inside the feed-forward block.
    pub activation: Activation,
    /// Whether that function's output multiplies a second map of the input.
    pub gated: bool,
    /// Whether embeddings are multiplied by the root of the hidden size, rounded to the type in which they are stored.
    pub scaled_embedding: bool,
    /// Whether each position has an embedding of its own, which is added to that of the token. Layers turn nothing
    /// then.
    pub learned_positions: bool,
    /// Scores are divided by the root of this number; `None`: `head_dim`.
    pub attention_scalar: Option<f64>,
    /// Whether the factor of scores is divided by the number of the layer, from one on.
    pub scale_by_layer: bool,
    /// Scores `x` become `cap * tanh(x / cap)`.
    pub attention_softcap: Option<f64>,
    /// The same for logits.
    pub logit_softcap: Option<f64>,
    /// The coordinates of a head that are turned; `None`: all.
    pub rotary_width: Option<usize>,
    /// The scaling of the rotary embedding.
    pub scaling: Scaling,
    /// The second rotary embedding.
    pub local_rope: Option<LocalRope>,
    /// One for each layer, or none, where every layer is as [`LayerKind::default`].
    pub layers: Vec<LayerKind>,
}

impl Architecture {
    /// Llama without biases and scaling.
    #[must_use]
    pub fn llama() -> Self {
        Self::of(Family::Llama)
    }

    /// The plain form of a family, before its configuration is read.
    pub(super) fn of(family: Family) -> Self {
        use Family::{Gemma2, Gemma3, Gpt2, Olmo2, Qwen2, Qwen3};
        let gemma = matches!(family, Gemma2 | Gemma3);
        let gpt2 = family == Gpt2;
        Self {
            family,
            norm: match family {
                Gemma2 | Gemma3 => Norm::RmsPlusOne,
                Gpt2 => Norm::Layer,
                _ => Norm::Rms,
            },
            placement: match family {
                Gemma2 | Gemma3 => Placement::Both,
                Olmo2 => Placement::After,
                _ => Placement::Before,
            },
            biases: Biases {
                attention_inputs: gpt2 || family == Qwen2,
                attention_output: gpt2,
                feed_forward: gpt2,
            },
            head_norm: match family {
                Qwen3 | Gemma3 => HeadNorm::Head,
                Olmo2 => HeadNorm::Row,
                _ => HeadNorm::None,
            },
            activation: if gemma || gpt2 { Activation::GeluTanh } else { Activation::Silu },
            gated: !gpt2,
            scaled_embedding: gemma,
            learned_positions: gpt2,
            attention_scalar: None,
            scale_by_layer: false,
            attention_softcap: None,
            logit_softcap: None,
            rotary_width: None,
            scaling: Scaling::None,
            local_rope: None,
            layers: Vec::new(),
        }
    }

    /// The kind of a layer.
    #[must_use]
    pub fn layer(&self, layer: usize) -> LayerKind {
        self.layers.get(layer).copied().unwrap_or_default()
    }

    /// The first part that plain Llama does not have, for training, which knows no other: the field of
    /// `config.json`, its value, and the supported ones.
    #[cfg(feature = "train")]
    pub(crate) fn beyond_llama(&self) -> Option<(&'static str, String, &'static str)> {
        let plain = Self::llama();
        let found = |field, value: String, supported| Some((field, value, supported));
        match self {
            Self { family, .. } if *family != plain.family => {
                found("model_type", format!("{:?}", family.model_type()), "\"llama\" (in training)")
            }
            Self { biases, .. } if biases.attention_inputs || biases.attention_output => {
                found("attention_bias", "true".to_owned(), "false (in training)")
            }
            Self { biases, .. } if biases.feed_forward => {
                found("mlp_bias", "true".to_owned(), "false (in training)")
            }
            Self { activation, .. } if *activation != plain.activation => {
                found("hidden_act", format!("{activation:?}"), "\"silu\" (in training)")
            }
            Self { scaling, .. } if *scaling != plain.scaling => {
                found("rope_scaling", format!("{scaling:?}"), "none (in training)")
            }
            _ if *self != plain => found("model_type", format!("{self:?}"), "plain Llama (in training)"),
            _ => None,
        }
    }
}

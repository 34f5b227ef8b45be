//! A GGUF file as a [`LanguageModel`].
//!
//! A context of llama.cpp borrows its model, and a [`LanguageModel`] owns what it needs: `self_cell` puts the two
//! into one struct. Tried instead: a leaked model, which keeps its weights in memory for ever, and a thread that owns
//! the two, which is a message in each direction for every pass.

use std::{
    fmt,
    num::{NonZero, NonZeroU32},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use llama_cpp_2::{
    DecodeError, LogOptions,
    context::{
        LlamaContext,
        params::{KvCacheType, LlamaContextParams},
    },
    llama_backend::LlamaBackend,
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
    send_logs_to_tracing,
    token::LlamaToken,
};
use unskew_core::{Extension, LanguageModel, Logits};
use unskew_vocab::Gguf;

use crate::{
    LlamaCppError, LoadError, Sequence,
    messages::reported,
    schedule::{Entry, Failure, Memory, Schedule},
};

/// The context where neither the file nor the caller asks for less: a cache for the contexts of today's models would
/// take all memory.
const CONTEXT: usize = 4096;
/// The most sequences of llama.cpp (`LLAMA_MAX_SEQ`).
const MOST_SEQUENCES: usize = 256;

/// How a model is opened. Change the fields of [`Options::default`] where they do not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The most tokens of a sequence. `None`: the model's own, up to 4096.
    pub context: Option<usize>,
    /// The tokens whose keys and values the cache holds, over all sequences; tokens that forks share count once.
    /// `None`: twice the context. llama.cpp takes a multiple of 256. Where they run out, sequences are evaluated
    /// again.
    pub cells: Option<usize>,
    /// The sequences that are in the cache at a time, 1 to 256; others are evaluated again. 64 by default.
    pub sequences: usize,
    /// The most tokens of a pass. 512 by default.
    pub pass: usize,
    /// The threads on the CPU. `None`: those of the machine.
    pub threads: Option<usize>,
    /// The layers on a GPU, where the build has one. `None`: all.
    pub gpu_layers: Option<u32>,
    /// How keys and values are stored.
    pub cache: CacheType,
}

/// How keys and values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CacheType {
    /// In 16 bits, as llama.cpp does.
    #[default]
    F16,
    /// In 32 bits.
    F32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            context: None,
            cells: None,
            sequences: 64,
            pass: 512,
            threads: None,
            gpu_layers: None,
            cache: CacheType::default(),
        }
    }
}

/// A model that llama.cpp runs.
///
/// Rows do not depend on the rest of a batch but for rounding: llama.cpp chooses its products by the size of a pass.
///
/// # Example
///
/// ```no_run
/// use unskew_core::{Extension, LanguageModel, Logits, Rows};
/// use unskew_llama_cpp::{LlamaCpp, Options};
/// use unskew_vocab::Tokenizer;
///
/// let mut model = LlamaCpp::open("model.gguf", &Options::default())?;
/// let tokenizer = Tokenizer::from_file("model.gguf")?;
/// let prompt = tokenizer.encode("Once upon a time", true)?;
/// let (mut sequence, mut logits) = (model.start(), Logits::new());
/// model.extend(&mut [Extension { sequence: &mut sequence, tokens: &prompt, rows: Rows::Last }], &mut logits)?;
/// assert_eq!(logits.row(0).len(), model.vocab_len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LlamaCpp {
    schedule: Schedule<Context>,
    path: PathBuf,
}

impl fmt::Debug for LlamaCpp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaCpp").field("path", &self.path).finish_non_exhaustive()
    }
}

/// llama.cpp is initialised once in a process, and stays so.
fn backend() -> Result<&'static LlamaBackend, LoadError> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    let start = || {
        send_logs_to_tracing(LogOptions::default());
        LlamaBackend::init().ok()
    };
    BACKEND.get_or_init(start).as_ref().ok_or(LoadError::InUse)
}

impl LlamaCpp {
    /// Opens a GGUF file. Its header is read and checked by [`Gguf`] first; of a model in several files it is the
    /// first.
    ///
    /// # Errors
    ///
    /// [`LoadError`].
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let in_file = |source| LoadError::File { path: path.to_owned(), source };
        Gguf::open(path).map_err(in_file)?;
        let backend = backend()?;
        let refused = |reason| LoadError::Refused { path: path.to_owned(), reason };
        let params = match options.gpu_layers {
            None => LlamaModelParams::default(),
            Some(layers) => LlamaModelParams::default().with_n_gpu_layers(layers),
        };
        let model = reported(|| LlamaModel::load_from_file(backend, path, &params)).map_err(refused)?;
        let vocab_len = usize::try_from(model.n_vocab()).unwrap_or(0);
        let trained = usize::try_from(model.n_ctx_train()).unwrap_or(CONTEXT);
        let context = options.context.unwrap_or_else(|| trained.clamp(1, CONTEXT));
        let wrong = |reason: String| Err(LoadError::Options { reason });
        if context == 0 || options.pass == 0 {
            return wrong("`context` and `pass` are at least 1".to_owned());
        }
        let cells = options.cells.unwrap_or(context.saturating_mul(2));
        if cells < context {
            return wrong(format!("`cells` is {cells}, and one sequence may have {context} tokens"));
        }
        if !(1..=MOST_SEQUENCES).contains(&options.sequences) {
            return wrong(format!(
                "`sequences` is {}; 1 to {MOST_SEQUENCES} are possible",
                options.sequences
            ));
        }
        let context_of = |model| Context::new(backend, model, cells, options);
        let memory = reported(|| context_of(model)).map_err(|reason| LoadError::Context { cells, reason })?;
        Ok(Self { schedule: Schedule::new(memory, vocab_len, context), path: path.to_owned() })
    }

    /// llama.cpp's own tokens of a text, with the token that begins one: the judge of the tokenizer that is read from
    /// the file.
    pub fn llama_cpp_tokens(&self, text: &str) -> Vec<u32> {
        let of = |model: &LlamaModel| model.vocab().tokenize(text.as_bytes(), true, true);
        let tokens = self.schedule.memory.running.with_dependent(|model, _| of(model));
        tokens.into_iter().map(|LlamaToken(id)| u32::try_from(id).unwrap_or(u32::MAX)).collect()
    }

    /// llama.cpp's own bytes of a token, and whether it ends a sequence.
    pub fn llama_cpp_token(&self, id: u32) -> (Vec<u8>, bool) {
        let token = LlamaToken(i32::try_from(id).unwrap_or(-1));
        let of = |model: &LlamaModel| {
            (model.vocab().token_to_piece(token, false, None), model.vocab().is_eog(token))
        };
        self.schedule.memory.running.with_dependent(|model, _| of(model))
    }
}

self_cell::self_cell!(
    struct Running {
        owner: LlamaModel,
        #[not_covariant]
        dependent: LlamaContext,
    }
);

/// The cache and the evaluation of llama.cpp.
struct Context {
    running: Running,
    batch: LlamaBatch<'static>,
    slots: usize,
    pass_len: usize,
    cuts: bool,
    vocab_len: usize,
    /// The logits of the last pass, in the order of its entries that want them, and where those of an entry are.
    rows: Vec<f32>,
    row_of: Vec<usize>,
}

impl Context {
    fn new(
        backend: &LlamaBackend,
        model: LlamaModel,
        cells: usize,
        options: &Options,
    ) -> Result<Self, String> {
        let number = |value: usize| u32::try_from(value).map_err(|_| format!("{value} is too large"));
        let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(NonZero::get));
        let threads = i32::try_from(threads.unwrap_or(1)).map_err(|error| error.to_string())?;
        let cache = match options.cache {
            CacheType::F16 => KvCacheType::F16,
            CacheType::F32 => KvCacheType::F32,
        };
        let pass_len = options.pass.min(cells);
        // llama.cpp ends the process where a batch has no room for a token of each sequence.
        let room = number(pass_len.max(options.sequences))?;
        // Sequences share cells only in one cache, and tokens that a sliding window has left are still there when it
        // is cut.
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(number(cells.max(MOST_SEQUENCES))?))
            .with_n_batch(room)
            .with_n_ubatch(room)
            .with_n_seq_max(number(options.sequences)?)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_type_k(cache)
            .with_type_v(cache)
            .with_flash_attention_policy(llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED)
            .with_kv_unified(true)
            .with_swa_full(true)
            .with_no_perf(true);
        let cuts = !model.is_recurrent() && !model.is_hybrid();
        let vocab_len = usize::try_from(model.n_vocab()).unwrap_or(0);
        let running = Running::try_new(model, |model| model.new_context(backend, params))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            running,
            batch: LlamaBatch::new(pass_len, 1),
            slots: options.sequences,
            pass_len,
            cuts,
            vocab_len,
            rows: Vec::new(),
            row_of: Vec::new(),
        })
    }
}

fn small(number: usize) -> i32 {
    i32::try_from(number).expect("slots and positions are far below 2^31")
}

impl Memory for Context {
    fn slots(&self) -> usize {
        self.slots
    }

    fn pass_len(&self) -> usize {
        self.pass_len
    }

    fn cuts(&self) -> bool {
        self.cuts
    }

    fn copy(&mut self, from: usize, to: usize, len: usize) {
        let end = self.cuts.then(|| u32::try_from(len).unwrap_or(u32::MAX));
        self.running.with_dependent_mut(|_, context| {
            let copied = context.copy_kv_cache_seq(small(from), small(to), None, end);
            copied.expect("positions are far below 2^31");
        });
    }

    fn cut(&mut self, slot: usize, len: usize) -> bool {
        let [slot, len] = [slot, len].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        self.running.with_dependent_mut(|_, context| {
            context.clear_kv_cache_seq(Some(slot), Some(len), None).unwrap_or(false)
        })
    }

    fn evaluate(&mut self, pass: &[Entry]) -> Result<(), Failure> {
        self.batch.clear();
        for entry in pass {
            let token = LlamaToken(i32::try_from(entry.token.0).expect("a token of the model"));
            let added = self.batch.add(token, small(entry.position), &[small(entry.slot)], entry.wanted);
            added.expect("a pass is not longer than the batch");
        }
        let (batch, rows, row_of) = (&mut self.batch, &mut self.rows, &mut self.row_of);
        let vocab_len = self.vocab_len;
        self.running.with_dependent_mut(|_, context| {
            match reported(|| match context.decode(batch) {
                Err(DecodeError::NoKvCacheSlot) => Ok(false),
                Err(error) => Err(error),
                Ok(()) => Ok(true),
            }) {
                Ok(true) => {}
                Ok(false) => return Err(Failure::NoRoom),
                Err(reason) => return Err(Failure::Failed(reason)),
            }
            rows.clear();
            row_of.clear();
            for (index, entry) in pass.iter().enumerate() {
                row_of.push(rows.len());
                if entry.wanted {
                    rows.extend_from_slice(&context.get_logits_ith(small(index))[..vocab_len]);
                }
            }
            Ok(())
        })
    }

    fn row(&self, entry: usize) -> &[f32] {
        &self.rows[self.row_of[entry]..][..self.vocab_len]
    }
}

impl LanguageModel for LlamaCpp {
    type Sequence = Sequence;
    type Error = LlamaCppError;

    fn vocab_len(&self) -> usize {
        self.schedule.vocab_len()
    }

    fn context_len(&self) -> Option<usize> {
        self.schedule.context_len()
    }

    fn start(&mut self) -> Sequence {
        self.schedule.start()
    }

    fn len(&self, sequence: &Sequence) -> usize {
        self.schedule.len(sequence)
    }

    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        self.schedule.fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        self.schedule.truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), LlamaCppError> {
        self.schedule.extend(batch, logits)
    }
}

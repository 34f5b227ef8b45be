//! A language model with its tokens: by name, from a checkpoint, from a table, or one's own.

#[cfg(feature = "chat")]
use std::sync::OnceLock;
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use unskew_core::{LanguageModel, TableModel, TokenId};
use unskew_engine::{
    Compiled, Compiler, Spec, TokenSpace,
    read::{self, MAX_TABLE_BYTES},
};
#[cfg(feature = "runner")]
use unskew_runner::{Llama, LoadOptions, ModelConfig, Quantization};
use unskew_vocab::{Gguf, Tokenizer};

#[cfg(feature = "chat")]
use super::chat::ChatTemplate;
use super::{
    AnyModel, Chat,
    error::{Error, Result},
};

/// A language model with its tokens, shared: a clone is another handle to the same weights.
///
/// # Example
///
/// A model of one's own is any [`LanguageModel`]; its tokens are a vocabulary, or a tokenizer.
///
/// ```
/// use unskew::{Model, Spec, TokenSpace, core::TableModel};
///
/// let table = TableModel::uniform(["0", "1"]);
/// let tokens = TokenSpace::from_vocabulary(table.vocabulary().clone());
/// let model = Model::new(table, tokens)?;
/// let draws = model.prompt("").constrain(Spec::regex("1(01)*"))?.seed(1).sample("disc")?;
/// for output in draws.take(3) {
///     assert!(output?.text.starts_with('1'));
/// }
/// # Ok::<(), unskew::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    model: AnyModel,
    tokens: Arc<TokenSpace>,
    kind: Kind,
    /// Where its chat template is: the folder of a checkpoint, or a GGUF file.
    #[cfg(feature = "chat")]
    files: Option<PathBuf>,
    /// The template, once it is read: a run of many prompts reads it once.
    #[cfg(feature = "chat")]
    template: Arc<OnceLock<ChatTemplate>>,
    #[cfg(feature = "http")]
    remote: Option<Arc<super::endpoint::Remote>>,
}

/// The kind of a model, for the questions that its trait does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Its outputs can be enumerated, where they are few.
    Table,
    /// Its first row needs a token to start from.
    #[cfg(any(feature = "runner", feature = "llama-cpp", feature = "http"))]
    Transformer,
    Other,
}

/// Where a model is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelSource {
    /// The embedded model.
    Tiny,
    /// The smaller embedded model, with the same tokens.
    TinyDraft,
    /// A folder with a Hugging Face checkpoint.
    Folder(PathBuf),
    /// A GGUF file: any path that ends in `.gguf`.
    Gguf(PathBuf),
    /// A GGUF file that llama.cpp runs, whatever model it is: a path after `llama-cpp:`.
    LlamaCpp(PathBuf),
    /// A table of probabilities in a file.
    Table(PathBuf),
    /// The address of a server that runs the model: any text that begins with `http://` or `https://`.
    Endpoint(String),
}

impl From<&str> for ModelSource {
    fn from(text: &str) -> Self {
        if let Some(file) = text.strip_prefix("llama-cpp:") {
            return Self::LlamaCpp(file.into());
        }
        match text.strip_prefix("table:") {
            Some(file) => Self::Table(file.into()),
            None if text == "tiny" => Self::Tiny,
            None if text == "tiny-draft" => Self::TinyDraft,
            None if text.starts_with("http://") || text.starts_with("https://") => {
                Self::Endpoint(text.to_owned())
            }
            None if has_extension(text, "gguf") => Self::Gguf(text.into()),
            None => Self::Folder(text.into()),
        }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|own| own.eq_ignore_ascii_case(extension))
}

impl FromStr for ModelSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl Model {
    /// The model with this name: `tiny` or `tiny-draft` (embedded; features `tiny-model` and `runner`), the folder of a
    /// Hugging Face checkpoint or a GGUF file (feature `runner`), `table:FILE`, or the address of a server (feature
    /// `http`). Llama.cpp runs the GGUF files that our own decoder does not know, and `llama-cpp:FILE`, with the
    /// feature `llama-cpp`.
    ///
    /// # Errors
    ///
    /// [`Error`], where there is no such model, or it cannot be run exactly.
    pub fn open(name: &str) -> Result<Self> {
        Self::load(&ModelSource::from(name), None)
    }

    /// The model at a place, with a tokenizer other than its own.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn load(source: &ModelSource, tokenizer: Option<&Path>) -> Result<Self> {
        #[cfg(feature = "runner")]
        return Self::load_with(source, tokenizer, &mut LoadOptions::default());
        #[cfg(not(feature = "runner"))]
        Self::load_with(source, tokenizer)
    }

    /// The same, with options for the weights of a transformer: eight bits, reports of progress. A table has no
    /// weights.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(feature = "runner")]
    pub fn load_with(
        source: &ModelSource,
        tokenizer: Option<&Path>,
        options: &mut LoadOptions<'_>,
    ) -> Result<Self> {
        Self::of_source(source, tokenizer, options)
    }

    #[cfg(not(feature = "runner"))]
    fn load_with(source: &ModelSource, tokenizer: Option<&Path>) -> Result<Self> {
        Self::of_source(source, tokenizer)
    }

    fn of_source(
        source: &ModelSource,
        tokenizer: Option<&Path>,
        #[cfg(feature = "runner")] options: &mut LoadOptions<'_>,
    ) -> Result<Self> {
        match source {
            ModelSource::Table(path) => {
                let model = table(path)?;
                let tokens = match tokenizer {
                    Some(path) => TokenSpace::from_tokenizer(read_tokenizer(path)?, &[], model.vocab_len())?,
                    None => TokenSpace::from_vocabulary(Arc::clone(model.vocabulary())),
                };
                Ok(Self::of_parts(AnyModel::new(model), tokens, Kind::Table))
            }
            #[cfg(feature = "http")]
            ModelSource::Endpoint(address) => {
                Self::connect(address, tokenizer, &unskew_endpoint::Options::default())
            }
            #[cfg(not(feature = "http"))]
            ModelSource::Endpoint(_) => {
                Err(Error::NotBuilt { what: "the address of a server", feature: "http" })
            }
            ModelSource::LlamaCpp(path) => {
                #[cfg(feature = "runner")]
                refuse_quantization(path, options)?;
                Self::of_llama_cpp(path, tokenizer)
            }
            #[cfg(feature = "runner")]
            ModelSource::Gguf(path) => {
                // All that does not fit together is found before the weights are read.
                let config = match Llama::config_of_gguf(path) {
                    #[cfg(feature = "llama-cpp")]
                    Err(error) if error.is_beyond() => {
                        refuse_quantization(path, options)?;
                        return Self::of_llama_cpp(path, tokenizer);
                    }
                    other => other.map_err(Error::of_gguf)?,
                };
                let tokens = gguf_tokens(path, tokenizer, config.vocab_size)?;
                let llama = Llama::from_gguf_with(path, options).map_err(Error::of_gguf)?;
                Ok(Self::of_parts(AnyModel::new(llama), tokens, Kind::Transformer).with_files(path))
            }
            #[cfg(all(not(feature = "runner"), feature = "llama-cpp"))]
            ModelSource::Gguf(path) => Self::of_llama_cpp(path, tokenizer),
            #[cfg(feature = "runner")]
            ModelSource::Folder(folder) => {
                if !folder.is_dir() {
                    return Err(no_folder(folder));
                }
                // All that does not fit together is found before the weights are read.
                let config = Llama::config_of_dir(folder).map_err(|error| Error::Model(error.into()))?;
                let own = || read_tokenizer(&folder.join("tokenizer.json"));
                let stops = stops(folder, config.vocab_size)?;
                let own = tokenizer.map_or_else(own, read_tokenizer)?;
                let tokens = own_tokens(&config, own, &stops)?;
                let llama =
                    Llama::from_dir_with(folder, options).map_err(|error| Error::Model(error.into()))?;
                Ok(Self::of_parts(AnyModel::new(llama), tokens, Kind::Transformer).with_files(folder))
            }
            #[cfg(all(feature = "runner", feature = "tiny-model"))]
            ModelSource::Tiny | ModelSource::TinyDraft => {
                let full = *source == ModelSource::Tiny;
                let tiny = if full { unskew_tiny_model::TINY } else { unskew_tiny_model::DRAFT };
                let own = tokenizer.map_or_else(tiny_tokenizer, read_tokenizer)?;
                Self::of_bytes(tiny.config_json, own, tiny.safetensors, options)
            }
            #[cfg(all(feature = "runner", not(feature = "tiny-model")))]
            ModelSource::Tiny | ModelSource::TinyDraft => Err(no_embedded()),
            #[cfg(not(feature = "runner"))]
            _ => Err(Error::NotBuilt { what: "a transformer", feature: "runner" }),
        }
    }

    /// The model of a GGUF file in llama.cpp.
    #[cfg(feature = "llama-cpp")]
    fn of_llama_cpp(path: &Path, tokenizer: Option<&Path>) -> Result<Self> {
        let model = unskew_llama_cpp::LlamaCpp::open(path, &unskew_llama_cpp::Options::default());
        let model = model.map_err(|error| Error::Model(error.into()))?;
        let tokens = gguf_tokens(path, tokenizer, model.vocab_len())?;
        Ok(Self::of_parts(AnyModel::new(model), tokens, Kind::Transformer).with_files(path))
    }

    #[cfg(not(feature = "llama-cpp"))]
    fn of_llama_cpp(_: &Path, _: Option<&Path>) -> Result<Self> {
        Err(Error::NotBuilt { what: "`llama-cpp:FILE`", feature: "llama-cpp" })
    }

    pub(super) fn of_parts(model: AnyModel, tokens: impl Into<Arc<TokenSpace>>, kind: Kind) -> Self {
        Self {
            model,
            tokens: tokens.into(),
            kind,
            #[cfg(feature = "chat")]
            files: None,
            #[cfg(feature = "chat")]
            template: Arc::default(),
            #[cfg(feature = "http")]
            remote: None,
        }
    }

    /// The same with the place of its chat template.
    #[cfg(any(feature = "runner", feature = "llama-cpp"))]
    #[cfg_attr(
        not(feature = "chat"),
        allow(unused_variables, reason = "a build without templates reads none")
    )]
    fn with_files(self, path: &Path) -> Self {
        Self {
            #[cfg(feature = "chat")]
            files: Some(path.to_owned()),
            ..self
        }
    }

    /// The same with another way to its rows.
    pub(super) fn with_model(&self, model: AnyModel) -> Self {
        Self { model, ..self.clone() }
    }

    /// A model that a server runs: vLLM, SGLang, llama.cpp's, or any with OpenAI's interface. With its `tokenizer`,
    /// and where the server gives whole rows of log-probabilities, every sampler runs. Without, outputs are drawn
    /// whole: see `docs/endpoints.md`.
    ///
    /// # Errors
    ///
    /// [`Error::Model`] with an [`EndpointError`](unskew_endpoint::EndpointError), and those of the tokenizer.
    #[cfg(feature = "http")]
    pub fn connect(
        address: &str,
        tokenizer: Option<&Path>,
        options: &unskew_endpoint::Options,
    ) -> Result<Self> {
        let tokenizer = tokenizer.map(read_tokenizer).transpose()?;
        let (remote, model, tokens) = super::endpoint::connect(address, tokenizer, options)?;
        let kind = if remote.has_rows() { Kind::Transformer } else { Kind::Other };
        Ok(Self { remote: Some(Arc::new(remote)), ..Self::of_parts(model, tokens, kind) })
    }

    #[cfg(feature = "http")]
    pub(crate) fn remote(&self) -> Option<&Arc<super::endpoint::Remote>> {
        self.remote.as_ref()
    }

    /// Whether its outputs come from a server as a whole, with no rows of logits.
    pub fn is_texts(&self) -> bool {
        #[cfg(feature = "http")]
        return self.remote.as_ref().is_some_and(|remote| !remote.has_rows());
        #[cfg(not(feature = "http"))]
        false
    }

    /// Whether its outputs are sequences of its own tokens. A server without a tokenizer here gives texts.
    pub fn has_ids(&self) -> bool {
        #[cfg(feature = "http")]
        return self.remote.as_ref().is_none_or(|remote| remote.has_ids());
        #[cfg(not(feature = "http"))]
        true
    }

    /// Whether a server puts messages of chats into its template.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "http")]
        return self.remote.is_some();
        #[cfg(not(feature = "http"))]
        false
    }

    /// A model of one's own, with its tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] where the tokens are not as many as the entries of a row of the model.
    pub fn new<M>(model: M, tokens: impl Into<Arc<TokenSpace>>) -> Result<Self>
    where
        M: LanguageModel<Sequence: Send + 'static> + Send + 'static,
    {
        let tokens = tokens.into();
        let (ids, row) = (tokens.vocabulary().len(), model.vocab_len());
        if ids != row {
            return Err(Error::combination(format!(
                "the vocabulary has {ids} ids, and a row of the model {row} entries: they do not belong together"
            )));
        }
        Ok(Self::of_parts(AnyModel::new(model), tokens, Kind::Other))
    }

    /// Its tokens.
    pub fn tokens(&self) -> &Arc<TokenSpace> {
        &self.tokens
    }

    /// The constraint that `spec` describes over its tokens, kept for the next one who asks.
    ///
    /// # Errors
    ///
    /// [`Error`], where a file cannot be read, the constraint cannot be enforced exactly, or its parts do not go
    /// together.
    pub fn compile(&self, spec: &Spec) -> Result<Compiled> {
        Ok(Compiler::shared(&self.tokens).compile(spec)?)
    }

    /// The model itself.
    pub fn any_model(&self) -> &AnyModel {
        &self.model
    }

    /// Whether it is a table, whose outputs can be enumerated.
    pub fn is_table(&self) -> bool {
        self.kind == Kind::Table
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    ///
    /// As [`TokenSpace::encode_prompt`], and [`Error::Engine`] where a transformer has no token to start from.
    pub fn encode_prompt(&self, prompt: &str) -> Result<Vec<TokenId>> {
        let ids = self.tokens.encode_prompt(prompt)?;
        self.check_prompt(&ids)?;
        Ok(ids)
    }

    /// The tokens of a chat in the form of the model's chat template, up to where its answer begins.
    ///
    /// # Errors
    ///
    /// [`Error`], where the model is no checkpoint with a template, the template fails, or the tokens cannot spell
    /// its text.
    #[cfg(feature = "chat")]
    pub fn encode_chat(&self, chat: impl Into<Chat>) -> Result<Vec<TokenId>> {
        let template = match (self.template.get(), &self.files) {
            (Some(template), _) => Some(template),
            (None, None) => None,
            (None, Some(files)) => {
                let read = match files.is_dir() {
                    true => ChatTemplate::of_folder(files)?,
                    false => ChatTemplate::of_gguf(files)?,
                };
                read.map(|template| self.template.get_or_init(|| template))
            }
        };
        let Some(template) = template else {
            return Err(Error::combination(
                "this model has no chat template (`chat_template` of tokenizer_config.json, chat_template.jinja, or \
                 `tokenizer.chat_template` of a GGUF file); give the prompt as a text",
            ));
        };
        let ids = self.tokens.encode_whole(&template.render(&chat.into())?)?;
        self.check_prompt(&ids)?;
        Ok(ids)
    }

    #[cfg(not(feature = "chat"))]
    pub(crate) fn encode_chat(&self, _: Chat) -> Result<Vec<TokenId>> {
        Err(Error::NotBuilt { what: "the chat template of a model", feature: "chat" })
    }

    pub(crate) fn check_prompt(&self, prompt: &[TokenId]) -> Result<()> {
        let starts_anywhere = matches!(self.kind, Kind::Table | Kind::Other);
        if prompt.is_empty() && !starts_anywhere {
            return Err(Error::combination("this model names no token that begins a text; give a `prompt`"));
        }
        Ok(())
    }
}

impl ModelSource {
    /// The tokens of the model, or of the `tokenizer` in a file, without the weights, which masks and checks do not
    /// need.
    ///
    /// # Errors
    ///
    /// [`Error`] where there is no tokenizer, or it cannot be read.
    pub fn tokens(&self, tokenizer: Option<&Path>) -> Result<TokenSpace> {
        if let ModelSource::Gguf(path) | ModelSource::LlamaCpp(path) = self {
            return gguf_tokens(path, tokenizer, 0);
        }
        let (own, end) = match (self, tokenizer) {
            (ModelSource::Table(path), None) => {
                return Ok(TokenSpace::from_vocabulary(Arc::clone(table(path)?.vocabulary())));
            }
            // A folder says which tokens end a sequence, of another tokenizer too.
            (ModelSource::Folder(folder), Some(path)) => {
                let end = end_of_sequence(folder)?;
                (read_tokenizer(path)?, end)
            }
            (_, Some(path)) => (read_tokenizer(path)?, Vec::new()),
            (ModelSource::Tiny | ModelSource::TinyDraft, None) => (tiny_tokenizer()?, Vec::new()),
            (ModelSource::Folder(folder), None) => folder_tokenizer(folder)?,
            (ModelSource::Gguf(path) | ModelSource::LlamaCpp(path), None) => {
                (read_tokenizer(path)?, Vec::new())
            }
            (ModelSource::Endpoint(_), None) => return Ok(bytes()),
        };
        Ok(TokenSpace::from_tokenizer(own, &end, 0)?)
    }
}

/// The tokenizer in the folder of a checkpoint, and the tokens that end a sequence by its configuration; none where
/// there is no configuration.
///
/// # Errors
///
/// [`Error`], where a file cannot be read.
pub fn folder_tokenizer(folder: &Path) -> Result<(Tokenizer, Vec<TokenId>)> {
    let end = end_of_sequence(folder)?;
    Ok((read_tokenizer(&folder.join("tokenizer.json"))?, end))
}

/// Llama.cpp runs the weights as a file has them.
#[cfg(feature = "runner")]
fn refuse_quantization(path: &Path, options: &LoadOptions<'_>) -> Result<()> {
    match options.quantization {
        Quantization::None => Ok(()),
        _ => Err(Error::file(path, "llama.cpp runs the weights as they are; leave `quantize` out")),
    }
}

#[cfg(not(feature = "tiny-model"))]
fn no_embedded() -> Error {
    Error::combination(
        "this program has no embedded model: name a GGUF file, the folder of a checkpoint or the address of a server \
         (`--model` of the command line); masks and checks need a `tokenizer` alone",
    )
}

fn no_folder(folder: &Path) -> Error {
    Error::file(
        folder,
        "no such folder; give `tiny`, the folder of a checkpoint, a `.gguf` file, or `table:FILE`",
    )
}

/// The tokens of a transformer, by its configuration and the tokens that end its turns.
#[cfg(feature = "runner")]
pub(super) fn own_tokens(config: &ModelConfig, own: Tokenizer, stops: &[TokenId]) -> Result<TokenSpace> {
    let mut end: Vec<_> = config.eos_token_ids.iter().copied().map(TokenId).collect();
    end.extend(stops.iter().filter(|id| !config.eos_token_ids.contains(&id.0)));
    let begin = config.bos_token_id.map(TokenId);
    Ok(TokenSpace::from_tokenizer(own, &end, config.vocab_size)?.beginning_with(begin))
}

/// The tokens of a GGUF file, or of another `tokenizer`, for rows of `row` entries (0: of any length). The file says
/// which tokens begin and end a sequence, of another tokenizer too.
fn gguf_tokens(path: &Path, tokenizer: Option<&Path>, row: usize) -> Result<TokenSpace> {
    let gguf = Gguf::open(path).map_err(|error| Error::file(path, error))?;
    let id = |key: &str| gguf.number(key).and_then(|id| u32::try_from(id).ok()).map(TokenId);
    let (own, end) = match tokenizer {
        None => (read_tokenizer(path)?, Vec::new()),
        Some(other) => (read_tokenizer(other)?, id("tokenizer.ggml.eos_token_id").into_iter().collect()),
    };
    let begin = id("tokenizer.ggml.bos_token_id");
    Ok(TokenSpace::from_tokenizer(own, &end, row)?.beginning_with(begin))
}

/// The tokens that end a sequence by the configuration in the folder of a checkpoint, if there is one. Masks need no
/// more of it, so they are made for models too that do not run here.
#[cfg(feature = "runner")]
fn end_of_sequence(folder: &Path) -> Result<Vec<TokenId>> {
    let path = folder.join("config.json");
    if !folder.is_dir() {
        return Err(no_folder(folder));
    }
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = read::text(&path)?;
    let ids = ModelConfig::eos_token_ids_from_json(&text).map_err(|error| Error::Model(error.into()))?;
    let mut ids: Vec<TokenId> = ids.into_iter().map(TokenId).collect();
    let more = stops(folder, usize::MAX)?;
    ids.extend(more.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
    Ok(ids)
}

/// The tokens that end an output by `generation_config.json`, if there is one: models for chats end turns with other
/// tokens than texts.
#[cfg(feature = "runner")]
fn stops(folder: &Path, vocab_len: usize) -> Result<Vec<TokenId>> {
    let path = folder.join("generation_config.json");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let ids = ModelConfig::eos_token_ids_from_json(&read::text(&path)?)
        .map_err(|error| Error::file(&path, error.to_string().replace("config.json", "it")))?;
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_len) {
        return Err(Error::file(
            &path,
            format!("eos_token_id {id} is beyond the model's {vocab_len} tokens"),
        ));
    }
    Ok(ids.into_iter().map(TokenId).collect())
}

#[cfg(not(feature = "runner"))]
fn end_of_sequence(folder: &Path) -> Result<Vec<TokenId>> {
    match folder.is_dir() {
        false => Err(no_folder(folder)),
        true if !folder.join("config.json").is_file() => Ok(Vec::new()),
        true => Err(Error::NotBuilt { what: "the configuration of a checkpoint", feature: "runner" }),
    }
}

/// The bytes, as the tokens of a model whose own are not known: a constraint on texts is the same over any tokens.
pub(super) fn bytes() -> TokenSpace {
    let table = TableModel::uniform((0..=u8::MAX).map(|byte| [byte]));
    TokenSpace::from_vocabulary(Arc::clone(table.vocabulary()))
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer> {
    Tokenizer::from_file(path).map_err(Error::tokens)
}

fn table(path: &Path) -> Result<TableModel> {
    let text = read::utf8(path, MAX_TABLE_BYTES)?;
    TableModel::from_json(&text).map_err(|error| Error::file(path, error))
}

#[cfg(feature = "tiny-model")]
fn tiny_tokenizer() -> Result<Tokenizer> {
    Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).map_err(Error::tokens)
}

#[cfg(not(feature = "tiny-model"))]
fn tiny_tokenizer() -> Result<Tokenizer> {
    Err(no_embedded())
}

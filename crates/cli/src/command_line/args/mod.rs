//! The options of all commands. Their names are a contract: scripts and benchmarks rely on them.
//!
//! An option that refines a sampler or a constraint is a parameter of it (`--sampler smc:n=10`, `--with ascii`), so
//! that `--help` shows the options that every run needs.

mod convert;
mod format;
mod limits;
pub(crate) mod methods;
mod prompts;
mod tools;

use std::{ffi::OsString, num::NonZeroUsize, path::PathBuf, time::Duration};

use crate::ModelSource;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};

use crate::command_line::error::Failure;
pub(crate) use convert::{ConvertArgs, Notation};
pub(crate) use format::Format;
use limits::number;
use methods::parameter;
pub(crate) use prompts::PromptArgs;
pub(crate) use tools::{ToolArgs, tools};

/// Constrained decoding that keeps the language model's own distribution.
#[derive(Debug, Parser)]
#[command(name = "unskew", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    /// Write errors alone to standard error: no notes, no warnings and no progress
    #[arg(short, long, global = true, help_heading = "Messages")]
    pub(crate) quiet: bool,
    /// When help and errors are coloured (auto: on a terminal, where NO_COLOR is not set)
    #[arg(long, global = true, help_heading = "Messages", value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write outputs of a model that satisfy a constraint
    Generate(GenerateArgs),
    /// Measure how far samplers are from the model's own distribution under a constraint, and their cost
    Audit(AuditArgs),
    /// Show the tokens that may come next
    Mask(MaskArgs),
    /// Test whether texts or token sequences satisfy a constraint, token by token
    Check(CheckArgs),
    /// Say which constructs of a grammar, JSON Schema or regex are enforced
    Explain(ExplainArgs),
    /// Write a grammar, JSON Schema or regex as a grammar that llama.cpp reads
    Convert(ConvertArgs),
    /// Show a model's logits
    Logits(LogitsArgs),
    /// Show the tokens with which the model itself would have written a text
    Retokenize(RetokenizeArgs),
    /// Describe a checkpoint, or measure it
    #[command(subcommand)]
    Model(ModelCommand),
    /// Build a set of items for `--set`, or look into one
    #[command(subcommand)]
    Set(SetCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Its family, sizes and context; the weights are not read. A model that does not run here is an error that names
    /// the field
    Info(ModelInfoArgs),
    /// Tokens in a second, of a prompt and of steps at batch 1, 8 and 32, beside the speed of the memory
    Bench(ModelBenchArgs),
}

/// A model that a command is about: its own argument, or `--model` as elsewhere.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct NamedModel {
    /// `tiny` or `tiny-draft` (embedded), the folder of a Hugging Face checkpoint, or a `.gguf` file; also as `--model`
    #[arg(value_name = "MODEL")]
    own: Option<ModelSource>,
    /// The same
    #[arg(long = "model", value_name = "MODEL", hide = true)]
    named: Option<ModelSource>,
}

impl Command {
    /// The constraint that it is about.
    pub(crate) fn constraint(&self) -> Option<&ConstraintArgs> {
        match self {
            Self::Generate(args) => Some(&args.constraint),
            Self::Audit(args) => Some(&args.constraint),
            Self::Mask(args) => Some(&args.constraint),
            Self::Check(args) => Some(&args.constraint),
            Self::Explain(args) => Some(&args.constraint),
            Self::Convert(args) => Some(&args.constraint),
            Self::Logits(_) | Self::Retokenize(_) | Self::Model(_) | Self::Set(_) => None,
        }
    }
}

impl NamedModel {
    pub(crate) fn source(&self) -> &ModelSource {
        self.own.as_ref().or(self.named.as_ref()).expect("one of the two is required")
    }
}

#[derive(Debug, Args)]
pub(crate) struct ModelInfoArgs {
    #[command(flatten)]
    pub(crate) model: NamedModel,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ModelBenchArgs {
    #[command(flatten)]
    pub(crate) model: NamedModel,
    /// Keep weights in eight bits
    #[arg(long, value_enum, value_name = "TYPE")]
    pub(crate) quantize: Option<Quantize>,
    /// Steps of each batch
    #[arg(long, value_name = "N", default_value = "32", value_parser = number::<NonZeroUsize>("--steps"))]
    pub(crate) steps: NonZeroUsize,
    /// Tokens of the prompt
    #[arg(long, value_name = "N", default_value = "128", value_parser = number::<NonZeroUsize>("--prompt-tokens"))]
    pub(crate) prompt_tokens: NonZeroUsize,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// How weights are kept in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Quantize {
    /// Whole numbers of eight bits, with a scale for each 32 of them
    #[value(name = "q8_0")]
    Q8_0,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// From a text file with one item a line to a file that opens in milliseconds
    Build(SetBuildArgs),
    /// Describe a built set; reads all of it and compares its checksums
    Info(SetInfoArgs),
    /// Add items to a built set: they lie in a file beside it, SET.delta, and are read along
    Add(SetEditArgs),
    /// Remove items from a built set, likewise
    Remove(SetEditArgs),
    /// Make one set of a built set and the changes that lie beside it; subsets keep their items
    Compact(SetCompactArgs),
    /// Name some items of a built set, for `--subset`; or forget a name
    Subset(SetSubsetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SetBuildArgs {
    /// The items: UTF-8, one a line
    pub(crate) file: PathBuf,
    /// Where the set goes
    #[arg(short, long, value_name = "FILE", alias = "output")]
    pub(crate) out: PathBuf,
    /// How much memory the items may take, in megabytes, before they are sorted in temporary files
    #[arg(long, value_name = "MB", default_value = "2000", value_parser = number::<NonZeroUsize>("--memory"))]
    pub(crate) memory: NonZeroUsize,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetInfoArgs {
    /// A built set
    pub(crate) file: PathBuf,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct SetEditArgs {
    /// A built set
    #[arg(value_name = "SET")]
    pub(crate) file: PathBuf,
    /// The items: UTF-8, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: PathBuf,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetCompactArgs {
    /// A built set
    #[arg(value_name = "SET")]
    pub(crate) file: PathBuf,
    /// Where the new set goes (default: in the place of the old one, and the changes are gone)
    #[arg(short, long, value_name = "FILE", alias = "output")]
    pub(crate) out: Option<PathBuf>,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[group(id = "subset", required = true, multiple = false, args = ["lines", "forget"])]
pub(crate) struct SetSubsetArgs {
    /// A built set
    #[arg(value_name = "SET")]
    pub(crate) file: PathBuf,
    /// The name; a subset that has it is replaced
    #[arg(long)]
    pub(crate) name: String,
    /// The items: UTF-8, one a line, each of them an item of the set
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<PathBuf>,
    /// Take the subset of this name out of the file; its items stay in the set
    #[arg(long)]
    pub(crate) forget: bool,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// `tiny` or `tiny-draft` (embedded), the folder of a Hugging Face checkpoint, a `.gguf` file, `table:FILE`, or the
    /// address of a server (vLLM, SGLang, llama.cpp, OpenAI-compatible). With the feature `llama-cpp`, llama.cpp runs
    /// the files that our own decoder does not know, and `llama-cpp:FILE.gguf`
    #[arg(long, value_name = "tiny|DIR|FILE.gguf|table:FILE|http://HOST:PORT", default_value = "tiny")]
    pub(crate) model: ModelSource,
    /// A tokenizer.json, or a `.gguf` file; by default the model's own. With the one of a server, and whole rows from
    /// it, every sampler runs
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Keep the weights of a transformer in eight bits: a quarter of the memory of f32, and another model by the
    /// rounding
    #[arg(long, value_enum, value_name = "TYPE")]
    pub(crate) quantize: Option<Quantize>,
    /// Options of a server, joined by commas: `--endpoint timeout=60,retries=2`; --help lists them
    #[arg(long, value_name = "OPTION=VALUE,...", long_help = crate::command_line::help::ENDPOINT_OPTIONS)]
    pub(crate) endpoint: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Constraint (none: any text)")]
pub(crate) struct ConstraintArgs {
    /// The whole output matches this regex, as Python's `re.fullmatch` has it
    #[arg(long, value_name = "R", group = "constraint")]
    pub(crate) regex: Option<String>,
    /// The same, read from a file (a line break at its end is not part of it)
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) regex_file: Option<PathBuf>,
    /// The whole output is a word of this grammar: a file (also as `@FILE`) that ends in `.lark`, `.gbnf`, `.ebnf` or
    /// `.bnf`, `.xgrammar` (the EBNF of XGrammar) or `.abnf`; or the text itself, in GBNF where it has `::=`, else in
    /// Lark
    #[arg(long, value_name = "FILE|TEXT", group = "constraint")]
    pub(crate) grammar: Option<OsString>,
    /// Grammars: the start rule (default: `start` in Lark, the first rule in ABNF, `root` elsewhere)
    #[arg(long, value_name = "RULE")]
    pub(crate) start: Option<String>,
    /// The output is JSON that satisfies this JSON Schema: a file (also as `@FILE`), or the schema itself, `{...}`
    #[arg(long, value_name = "FILE|{...}", group = "constraint")]
    pub(crate) json_schema: Option<OsString>,
    /// The output is free text with tools in it, as the structural tag in this file says
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) structural_tag: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// The output is an item of this set: one built by `unskew set build`, or a text file with one item a line
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) set: Option<PathBuf>,
    /// Sets: only the items of this subset of a built set (`unskew set subset`)
    #[arg(long, value_name = "NAME")]
    pub(crate) subset: Option<String>,
    /// The output is any text but an item of this set, however its tokens divide it: a built set, or a text file
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) exclude_set: Option<PathBuf>,
    /// The output is this text, or another one of those given
    #[arg(long, value_name = "TEXT", group = "constraint")]
    pub(crate) choice: Vec<String>,
    /// The constraint in JSON, with all of its options: `{"regex": "ab*", "canonical": true}`
    ///
    /// The fields are `regex`, `regex_file`, `choices`, `grammar` with `grammar_format`, `grammar_file`,
    /// `json_schema` (the schema itself), `json_schema_file`, `structural_tag` (itself), `structural_tag_file`,
    /// `set`, `subset`, `exclude_set`, `any_of` and `sequence` (lists of constraints), `start`, `grammars`
    /// (constraints by the names by which a grammar uses them), `canonical`, `end` (`free` or `model`), `limits`
    /// (numbers by the names of --limit), and the options of --with, with `_` for `-`. Files are found from the
    /// working directory.
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) spec: Option<PathBuf>,
    /// Only token sequences that the tokenizer itself writes for their text; with or without one of the above
    #[arg(long)]
    pub(crate) canonical: bool,
    /// Who ends an output: `free` (where the model's text leaves the constraint; default) or `model` (where it ends its
    /// text)
    #[arg(long, value_name = "free|model")]
    pub(crate) end: Option<String>,
    /// Options of the constraint, joined by commas: `--with whitespace=compact,ascii`; --help lists them
    #[arg(long, value_name = "OPTION[=VALUE],...", long_help = crate::command_line::help::constraint_options())]
    pub(crate) with: Vec<String>,
    /// Raise a limit on the cost of the constraint, by the name that its error gives; repeatable; --help lists them
    #[arg(long, value_name = "NAME=N", long_help = crate::command_line::help::limits())]
    pub(crate) limit: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TruncateOrder {
    /// The truncated model is the model
    BeforeMask,
    /// Cut off tokens that the mask leaves (masked sampler only)
    AfterMask,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sampler")]
pub(crate) struct SamplerArgs {
    /// Divides the logits; the distribution that is kept is the model's at this temperature
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    pub(crate) temperature: f64,
    /// Keep the K most probable tokens
    #[arg(long, value_name = "K", requires = "truncate", value_parser = number::<usize>("--top-k"))]
    pub(crate) top_k: Option<usize>,
    /// Keep the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", requires = "truncate")]
    pub(crate) top_p: Option<f64>,
    /// When top-k and top-p apply; required with them, because the two orders are different distributions
    #[arg(long, value_enum)]
    pub(crate) truncate: Option<TruncateOrder>,
    /// The most outputs that go through the model together. Outputs of a seed depend on it where the sampler learns
    /// (ars, cars, asap, disc) or drafts
    #[arg(long, value_name = "N", default_value = "16", value_parser = number::<NonZeroUsize>("--batch"))]
    pub(crate) batch: NonZeroUsize,
    /// End the drawing after so many seconds: outputs that are drawn by then are kept (audit: of each sampler)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time_limit: Option<Duration>,
    /// The part that drafts tokens for speculative and mentored (generate: for rejection, ars, cars, asap and disc,
    /// too)
    ///
    /// `tiny-draft`: the embedded draft model. A folder or table: another model with the same tokens. `ngram`: the
    /// tokens that followed the same tokens before. `counts`: counts by place in a --grammar or --json-schema.
    /// Samplers that keep the model's distribution keep it with drafts. An audit drafts for speculative and mentored
    /// alone.
    #[arg(long, value_name = "tiny-draft|DIR|table:FILE|ngram|counts")]
    pub(crate) draft_model: Option<String>,
}

/// A time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "give seconds above 0, such as 60 or 0.5".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    /// Take the last tokens off the prompt where a longer one begins with them; the output then begins with their text,
    /// which is not shown again
    #[arg(long)]
    pub(crate) heal: bool,
    /// How many outputs
    #[arg(short = 'n', long = "samples", value_name = "N", default_value = "1", value_parser = number::<NonZeroUsize>("-n"))]
    pub(crate) n: NonZeroUsize,
    /// The most tokens of an output (default: 256, or the room that the model's context leaves)
    #[arg(long, value_name = "M", value_parser = number::<NonZeroUsize>("--max-tokens"))]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// The seed of all random choices (default: another one each time)
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Keep the bounds that the sampler learns in this file (ars, asap, cars and disc), also where it gives up or is
    /// interrupted (SIGINT or SIGTERM: exit code 130; a second one ends the program at once, and nothing is kept)
    #[arg(long, value_name = "FILE")]
    pub(crate) save_trie: Option<PathBuf>,
    /// Go on from a file of --save-trie: for the same model, constraint, prompt, limit and temperature. Without
    /// --seed the outputs are those that would have come next there; iterations of ASAp count as done
    #[arg(long, value_name = "FILE")]
    pub(crate) load_trie: Option<PathBuf>,
    /// How outputs are written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    /// How to draw: a method and its parameters, such as `smc:n=10,twisted`; --help lists all
    #[arg(long, value_name = "METHOD[:PARAMETERS]", default_value = "auto", help_heading = "Sampler", long_help = crate::command_line::help::methods())]
    pub(crate) sampler: String,
    /// The outputs begun that an output may cost on average: near the model's distribution, each with its weight
    /// (short for --sampler auto:budget=X)
    #[arg(long, value_name = "X", help_heading = "Sampler", conflicts_with = "exact", value_parser = parameter("auto", "budget"))]
    pub(crate) budget: Option<String>,
    /// Every output is one of the model's own distribution, or an error says that none was found (short for --sampler
    /// auto:exact)
    #[arg(long, help_heading = "Sampler")]
    pub(crate) exact: bool,
    #[command(flatten)]
    pub(crate) options: SamplerArgs,
}

impl GenerateArgs {
    /// The method that is asked for, as a text.
    pub(crate) fn method(&self) -> Result<String, Failure> {
        let parameter = match (&self.budget, self.exact) {
            (Some(budget), _) => format!("budget={budget}"),
            (None, true) => "exact".to_owned(),
            (None, false) => return Ok(self.sampler.clone()),
        };
        if self.sampler.trim() != "auto" {
            let flag = if self.exact { "--exact" } else { "--budget" };
            return Err(Failure::input(format!(
                "{flag} chooses the sampler, and --sampler {} names one; leave one of the two out",
                self.sampler
            )));
        }
        Ok(format!("auto:{parameter}"))
    }
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The samplers, joined by commas, each with its parameters: `masked,smc:n=10,twisted,cars`
    #[arg(long, alias = "sampler", value_name = "METHODS", default_value = "masked,asap,cars,disc", help_heading = "Sampler", long_help = crate::command_line::help::methods())]
    pub(crate) samplers: String,
    /// How many outputs of each
    #[arg(short = 'n', long, value_name = "N", default_value = "500", value_parser = number::<NonZeroUsize>("--samples"))]
    pub(crate) samples: NonZeroUsize,
    /// A report with plots, as one HTML file that needs no network
    #[arg(short, long, value_name = "FILE", alias = "output")]
    pub(crate) out: Option<PathBuf>,
    /// The text in front of the outputs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// The prompt is a message of a user: it is put into the checkpoint's chat template, and the output is the answer
    #[arg(long)]
    pub(crate) chat: bool,
    /// The most tokens of an output (default: 256, or the room that the model's context leaves)
    #[arg(long, value_name = "M", value_parser = number::<NonZeroUsize>("--max-tokens"))]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// The seed of all random choices (default: another one each time)
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Of a table model: give up the exact distribution beyond this many prefixes of outputs (default: 200000)
    #[arg(long, value_name = "N", value_parser = number::<usize>("--max-prefixes"))]
    pub(crate) max_prefixes: Option<usize>,
    /// How results are written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(crate) options: SamplerArgs,
}

/// Token ids joined by commas; empty for none.
#[derive(Clone, Debug)]
pub(crate) struct Ids(pub(crate) Vec<u32>);

impl std::str::FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let id = |part: &str| {
            part.trim()
                .parse()
                .map_err(|_| format!("{:?} is not a token id; ids are numbers joined by commas", part.trim()))
        };
        text.split(',').map(id).collect::<Result<_, _>>().map(Self)
    }
}

#[derive(Debug, Args)]
pub(crate) struct MaskArgs {
    /// The output so far
    #[arg(long, value_name = "TEXT", conflicts_with = "prefix_ids")]
    pub(crate) prefix: Option<String>,
    /// The output so far, as token ids joined by commas
    #[arg(long, value_name = "IDS")]
    pub(crate) prefix_ids: Option<Ids>,
    /// List the ids of all allowed tokens
    #[arg(long)]
    pub(crate) list: bool,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

/// The outputs that are checked: one of the three.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct CheckedArgs {
    /// A text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Token ids joined by commas; a last id that ends the sequence may be given
    #[arg(long, value_name = "IDS")]
    pub(crate) ids: Option<Ids>,
    /// Every line of a file: `{"text": ...}` or `{"ids": [...]}`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) checked: CheckedArgs,
    /// Measure the time of each mask, in microseconds
    #[arg(long)]
    pub(crate) timing: bool,
    /// How answers are written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogitsArgs {
    /// The tokens before, as ids joined by commas
    #[arg(long, value_name = "IDS")]
    pub(crate) ids: Ids,
    /// The logits after each of the tokens, not only after the last
    #[arg(long)]
    pub(crate) all: bool,
    /// How logits are written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetokenizeArgs {
    /// The text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: String,
    /// The text in front of it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// How the answer is written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// How answers are written
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    /// The tools of an MCP server (the result of `tools/list`): whether and how the arguments of each are enforced
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) mcp: Option<PathBuf>,
    /// Also say which characters the tokens of this tokenizer.json or `.gguf` file do not write
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

//! What the command line takes. The names here are a contract: scripts and benchmarks rely on them.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use unskew::schema::Whitespace;

use crate::{limits::number, speculate::SpeculationArgs};

/// Constrained decoding that keeps the language model's own distribution.
#[derive(Debug, Parser)]
#[command(name = "unskew", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write outputs of a model that satisfy a constraint
    Generate(GenerateArgs),
    /// Measure how far samplers are from the model's own distribution under a constraint, and what they cost
    Audit(AuditArgs),
    /// Show the tokens that may come next
    Mask(MaskArgs),
    /// Test whether texts or token sequences satisfy a constraint, token by token
    Check(CheckArgs),
    /// Say what becomes of every construct of a grammar, JSON Schema or regex
    Explain(ExplainArgs),
    /// Show a model's logits
    Logits(LogitsArgs),
    /// Show the tokens with which the model itself would have written a text
    Retokenize(RetokenizeArgs),
    /// Build a set of items for `--set`, or look into one
    #[command(subcommand)]
    Set(SetCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// From a text file with one item a line to a file that opens in milliseconds
    Build(SetBuildArgs),
    /// What is in a built set; reads all of it and compares its checksums
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
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// How much memory the items may take, in megabytes, before they are sorted in temporary files
    #[arg(long, value_name = "MB", default_value = "2000", value_parser = number::<NonZeroUsize>("--memory"))]
    pub(crate) memory: NonZeroUsize,
    /// How the answer is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetInfoArgs {
    /// A built set
    pub(crate) file: PathBuf,
    /// How the answer is written
    #[arg(long, value_enum, default_value = "text")]
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
    #[arg(long, value_enum, default_value = "text")]
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
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// How the answer is written
    #[arg(long, value_enum, default_value = "text")]
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
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// `tiny` or `tiny-draft` (embedded), the folder of a Hugging Face checkpoint, or `table:FILE`
    #[arg(long, value_name = "tiny|DIR|table:FILE", default_value = "tiny")]
    pub(crate) model: ModelChoice,
    /// A tokenizer.json; by default the model's own
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) enum ModelChoice {
    Tiny,
    /// The smaller embedded model, with the same tokens.
    TinyDraft,
    Folder(PathBuf),
    Table(PathBuf),
}

impl std::str::FromStr for ModelChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix("table:") {
            Some(file) => Self::Table(file.into()),
            None if text == "tiny" => Self::Tiny,
            None if text == "tiny-draft" => Self::TinyDraft,
            None => Self::Folder(text.into()),
        })
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Constraint (none: any text)")]
pub(crate) struct ConstraintArgs {
    /// The whole output matches this regex (syntax of the `regex` crate)
    #[arg(long, value_name = "R", group = "constraint")]
    pub(crate) regex: Option<String>,
    /// The same, read from a file (a line break at its end is not part of it)
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) regex_file: Option<PathBuf>,
    /// The whole output is a word of this grammar: a file that ends in `.lark`, `.gbnf` or `.ebnf`
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) grammar: Option<PathBuf>,
    /// Lark: how many characters may be ignored (%ignore) in one place (default: any number)
    #[arg(long, value_name = "N", value_parser = number::<u32>("--max-ignored"))]
    pub(crate) max_ignored: Option<u32>,
    /// Cut outputs into the terminals of a --grammar as the scanner of a compiler does: each as long as possible
    ///
    /// By default every way to cut a text counts, and `intx` may be `int` and `x`. For outputs that such a scanner is to read. A grammar
    /// in which a text could then not be completed is refused. Masks take longer.
    #[arg(long)]
    pub(crate) maximal_munch: bool,
    /// The output is JSON that satisfies the JSON Schema in this file
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) json_schema: Option<PathBuf>,
    /// JSON Schema: the white space between parts (default: bounded:33)
    ///
    /// `compact`: none, the fastest masks. `bounded:N`: at most N blanks, tabs and line breaks in each place, so that a
    /// model cannot write blanks for ever; one automaton of N states. `flexible`: any number; a model may never come to an end.
    /// `indent:N`: one member or item a line, N blanks for each level, as `serde_json` prints; each level has rules of its
    /// own, so a schema takes as many times longer to compile as its values nest, and they nest 20 levels at most.
    #[arg(long, value_name = "W")]
    pub(crate) whitespace: Option<Whitespace>,
    /// JSON Schema: outputs are of ASCII alone, other characters are written as \u escapes
    #[arg(long, requires = "json_schema")]
    pub(crate) ascii: bool,
    /// JSON Schema: numbers under a condition (`integer`, bounds, `enum`) are also written with exponents up to N; compiling takes
    /// ten times longer for 3 and hundreds of times longer for 20
    #[arg(long, value_name = "N", requires = "json_schema", value_parser = number::<u32>("--exponents"))]
    pub(crate) exponents: Option<u32>,
    /// JSON Schema: a folder of schemas that `$ref` may lead to, `.json` files, by their `$id` or by their path in the folder
    #[arg(long, value_name = "DIR", requires = "json_schema")]
    pub(crate) schema_registry: Option<PathBuf>,
    /// JSON Schema: the members of an object come in any order, and not in that of the schema
    #[arg(long, requires = "json_schema")]
    pub(crate) any_order: bool,
    /// The output is an item of this set: one built by `unskew set build`, or a text file with one item a line
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) set: Option<PathBuf>,
    /// Sets: only the items of this subset of a built set (`unskew set subset`)
    #[arg(long, value_name = "NAME")]
    pub(crate) subset: Option<String>,
    /// Sets: masks are made on a GPU, and by the CPU, with a warning, where there is none; for one sequence at a time the CPU is
    /// faster. A program with the feature `wgpu` runs the model there too (generate with --sampler masked, greedy, or disc with
    /// --disc-form fresh), and warns where it cannot
    #[arg(long)]
    pub(crate) gpu: bool,
    /// The output is any text but an item of this set, however its tokens divide it: a built set, or a text file
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) exclude_set: Option<PathBuf>,
    /// The output is this text, or another one of those given
    #[arg(long, value_name = "TEXT", group = "constraint")]
    pub(crate) choice: Vec<String>,
    /// Only token sequences that the tokenizer itself would write for their text; with or without one of the above
    #[arg(long)]
    pub(crate) canonical: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub(crate) enum SamplerKind {
    /// An unbiased sampler fit for the constraint and the number of outputs; says which, and why
    Auto,
    /// Each token from what the mask leaves: fast, and not the model's law
    Masked,
    /// Keep what satisfies the constraint: exact, slow
    Rejection,
    /// The same with a constrained first token
    Rsft,
    /// Rejection that learns from each failure: exact
    Ars,
    /// Rejection that learns all that a mask forbids: exact, about two tries for each of many outputs
    Cars,
    /// Masked proposals, accepted with the probability that makes them exact; resampled after many refusals
    Disc,
    /// Masked sampling that learns what outputs were worth: closer to the law with each one
    Asap,
    /// Masked sampling by asking about single tokens; outputs carry weights
    Awrs,
    /// Populations of outputs that are drawn anew by weight; outputs carry weights
    Smc,
    /// A chain of valid outputs: closer to the law with each step
    Mcmc,
    /// The most probable outputs that a beam finds: no sample
    Beam,
    /// The most probable token each time: no sample
    Greedy,
    /// The law of masked, in fewer passes: a draft model proposes several tokens, which the model verifies together
    Speculative,
    /// The same with a stated divergence from that law, for which more drafts are accepted
    Mentored,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TruncateOrder {
    /// The truncated model is the model
    BeforeMask,
    /// Truncate what the mask leaves (masked sampler only)
    AfterMask,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DiscForm {
    /// Proposals learn from refused tries; fresh ones are resampled
    Learned,
    /// Masked proposals; fresh ones are resampled, as published
    Fresh,
    /// Masked proposals; the refused ones are resampled
    Reuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum McmcCut {
    /// Anywhere
    Prefix,
    /// Where much could follow
    Priority,
    /// At the beginning
    Restart,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sampler")]
pub(crate) struct SamplerArgs {
    /// How to draw
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) sampler: SamplerKind,
    #[command(flatten)]
    pub(crate) options: SamplerOptions,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampler")]
pub(crate) struct SamplerOptions {
    /// Divides the logits; the law that is kept is the model's at this temperature
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    pub(crate) temperature: f64,
    /// Keep the K most probable tokens
    #[arg(long, value_name = "K", requires = "truncate", value_parser = number::<usize>("--top-k"))]
    pub(crate) top_k: Option<usize>,
    /// Keep the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", requires = "truncate")]
    pub(crate) top_p: Option<f64>,
    /// When top-k and top-p apply; required with them, because the two orders are different laws
    #[arg(long, value_enum)]
    pub(crate) truncate: Option<TruncateOrder>,
    /// DISC: try K times, then resample among K proposals (default: many tries within a bounded number of model calls,
    /// then 16 proposals)
    #[arg(long, value_name = "K", value_parser = number::<u32>("--disc-k"))]
    pub(crate) disc_k: Option<u32>,
    /// DISC: only the M most probable tokens of each step are candidates, where one of them is allowed (another law: that of
    /// outputs made of such tokens)
    #[arg(long, value_name = "M", value_parser = number::<NonZeroUsize>("--disc-top-m"))]
    pub(crate) disc_top_m: Option<NonZeroUsize>,
    /// DISC: what is proposed, and what is resampled when nothing was accepted (default: learned; fresh with a draft)
    #[arg(long, value_enum)]
    pub(crate) disc_form: Option<DiscForm>,
    /// ASAp: so many outputs are drawn and only learned from, before the first that is shown (default: 0)
    #[arg(long, value_name = "M", value_parser = number::<u64>("--asap-iterations"))]
    pub(crate) asap_iterations: Option<u64>,
    /// SMC: the number of outputs in a population (default: 10)
    #[arg(long, value_name = "N", value_parser = number::<NonZeroUsize>("--smc-particles"))]
    pub(crate) smc_particles: Option<NonZeroUsize>,
    /// SMC: draw a population anew when its effective number is below this share: 0 never, 1 always (default: 0.5)
    #[arg(long, value_name = "T")]
    pub(crate) smc_threshold: Option<f64>,
    /// SMC: use what earlier populations have learned
    #[arg(long)]
    pub(crate) smc_twisted: bool,
    /// MCMC: the steps of a chain (default: 10)
    #[arg(long, value_name = "K", value_parser = number::<u64>("--mcmc-steps"))]
    pub(crate) mcmc_steps: Option<u64>,
    /// MCMC: where an output is cut to be written anew (default: prefix)
    #[arg(long, value_enum)]
    pub(crate) mcmc_cut: Option<McmcCut>,
    /// Beam search: the width of the beam; at least the number of outputs (default: 8)
    #[arg(long, value_name = "K", value_parser = number::<NonZeroUsize>("--beams"))]
    pub(crate) beams: Option<NonZeroUsize>,
    /// Samplers that reject one output as a whole or token by token (rejection, rsft, ars, cars, asap, awrs, smc, mcmc): give up
    /// after this many tries for one output (default: 100000); smc counts the outputs of its populations
    #[arg(long, value_name = "N", value_parser = number::<NonZeroU64>("--max-tries"))]
    pub(crate) max_tries: Option<NonZeroU64>,
    /// The most outputs that go through the model together. Outputs of a seed depend on it where the sampler learns (ars, cars, asap,
    /// disc) or drafts
    #[arg(long, value_name = "N", default_value = "16", value_parser = number::<NonZeroUsize>("--batch"))]
    pub(crate) batch: NonZeroUsize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON value a line
    #[value(alias = "json")]
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// What stands before the output
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// Take the last tokens off the prompt where a longer one begins with them; the output then begins with their text,
    /// which is not shown again
    #[arg(long)]
    pub(crate) heal: bool,
    /// How many outputs
    #[arg(short, value_name = "N", default_value = "1", value_parser = number::<NonZeroUsize>("-n"))]
    pub(crate) n: NonZeroUsize,
    /// The most tokens of an output (default: 256, or what the model's context leaves)
    #[arg(long, value_name = "M", value_parser = number::<NonZeroUsize>("--max-tokens"))]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// The seed of all random choices (default: another one each time)
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Keep what was learned in this file (samplers ars, asap, cars and disc), also where they give up or are interrupted (SIGINT or
    /// SIGTERM: exit code 130; a second one ends the program at once, and nothing is kept)
    #[arg(long, value_name = "FILE")]
    pub(crate) save_trie: Option<PathBuf>,
    /// Go on from a file of --save-trie: for the same model, constraint, prompt, limit and temperature. Without --seed the outputs are
    /// those that would have come next there; iterations of ASAp count as done
    #[arg(long, value_name = "FILE")]
    pub(crate) load_trie: Option<PathBuf>,
    /// How outputs are written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(crate) sampler: SamplerArgs,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The samplers, joined by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "masked,asap,cars,disc")]
    pub(crate) samplers: Vec<SamplerKind>,
    /// How many outputs of each
    #[arg(long, value_name = "N", default_value = "500", value_parser = number::<NonZeroUsize>("--samples"))]
    pub(crate) samples: NonZeroUsize,
    /// A report with plots, as one HTML file that needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What stands before the outputs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// The most tokens of an output (default: 256, or what the model's context leaves)
    #[arg(long, value_name = "M", value_parser = number::<NonZeroUsize>("--max-tokens"))]
    pub(crate) max_tokens: Option<NonZeroUsize>,
    /// The seed of all random choices (default: another one each time)
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Of a table model: give up the exact law beyond this many prefixes of outputs (default: 200000)
    #[arg(long, value_name = "N", value_parser = number::<usize>("--max-prefixes"))]
    pub(crate) max_prefixes: Option<usize>,
    /// How results are written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(crate) options: SamplerOptions,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
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
    /// List the allowed ids
    #[arg(long)]
    pub(crate) ids: bool,
    /// How the answer is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = false, args = ["text", "ids", "jsonl"])]
pub(crate) struct CheckArgs {
    /// A text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Token ids joined by commas; a last id that ends the sequence may be given
    #[arg(long, value_name = "IDS")]
    pub(crate) ids: Option<Ids>,
    /// Every line of a file: `{"text": ...}` or `{"ids": [...]}`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
    /// Measure the time of each mask, in microseconds
    #[arg(long)]
    pub(crate) timing: bool,
    /// How answers are written
    #[arg(long, value_enum, default_value = "text")]
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
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetokenizeArgs {
    /// The text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: String,
    /// What stands before it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// How the answer is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A file that ends in `.lark`, `.gbnf` or `.ebnf`
    #[arg(long, value_name = "FILE", group = "explained", required_unless_present_any = ["json_schema", "regex"])]
    pub(crate) grammar: Option<PathBuf>,
    /// Whether the grammar can be had with --maximal-munch, too
    #[arg(long)]
    pub(crate) maximal_munch: bool,
    /// A JSON Schema
    #[arg(long, value_name = "FILE", group = "explained")]
    pub(crate) json_schema: Option<PathBuf>,
    /// JSON Schema: a folder of schemas that `$ref` may lead to
    #[arg(long, value_name = "DIR", requires = "json_schema")]
    pub(crate) schema_registry: Option<PathBuf>,
    /// A regex
    #[arg(long, value_name = "R", group = "explained")]
    pub(crate) regex: Option<String>,
    /// How answers are written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

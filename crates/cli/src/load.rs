//! From the options of the command line to a model, its tokens and a constraint.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use unskew::{
    automata::{CanonicalConstraint, CanonicalIndex, Limits, RegexConstraint, TokenizerAutomaton, regex},
    core::{AnyConstraint, LanguageModel, TableModel, TokenId, TokenTrie, Unconstrained, Vocabulary, heal},
    grammars::{Grammar, GrammarConstraint, GrammarFormat, GrammarLimits, LarkOptions},
    runner::{Llama, ModelConfig},
    schema::{self, MemberOrder, Registry, SchemaLimits, SchemaOptions},
    tiny_model,
    vocab::Tokenizer,
};

use crate::{
    any_model::AnyModel,
    args::{ConstraintArgs, ModelArgs, ModelChoice},
    error::{Failure, Result, chain},
    read::{self, MAX_TABLE_BYTES, MAX_TEXT_BYTES},
    sets,
};

/// What tokens are, and how a text becomes tokens.
pub(crate) struct Tokens {
    pub(crate) vocabulary: Arc<Vocabulary>,
    encoder: Encoder,
    /// What a text begins with, for models that need a first token.
    begin: Vec<TokenId>,
}

enum Encoder {
    Tokenizer(Box<Tokenizer>),
    /// A table has no tokenizer: a text is spelled with the fewest tokens.
    Fewest,
}

impl Tokens {
    /// The tokens of a prompt, with whatever the tokenizer puts in front of a text.
    pub(crate) fn encode_prompt(&self, text: &str) -> Result<Vec<TokenId>> {
        let mut ids = match &self.encoder {
            Encoder::Tokenizer(tokenizer) => {
                tokenizer.encode(text, true).map_err(|error| Failure::bad(&error))?
            }
            Encoder::Fewest => fewest_tokens(&self.vocabulary, text)?,
        };
        if ids.is_empty() {
            ids.clone_from(&self.begin);
        }
        Ok(ids)
    }

    /// The tokens of an output: what the tokenizer makes of the text in the middle of another.
    pub(crate) fn encode_output(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.encoder {
            Encoder::Tokenizer(tokenizer) => {
                tokenizer.encode_continuation(text).map_err(|error| Failure::bad(&error))
            }
            Encoder::Fewest => fewest_tokens(&self.vocabulary, text),
        }
    }

    /// Whether the tokenizer itself would write these tokens for their text; `None` without a tokenizer.
    pub(crate) fn is_canonical(&self, ids: &[TokenId]) -> Option<bool> {
        let Encoder::Tokenizer(tokenizer) = &self.encoder else { return None };
        let Ok(text) = String::from_utf8(self.vocabulary.decode(ids)) else { return Some(false) };
        Some(tokenizer.encode_continuation(&text).is_ok_and(|canonical| canonical == ids))
    }

    /// Whether there is a tokenizer, which writes one sequence for each text.
    pub(crate) fn has_tokenizer(&self) -> bool {
        matches!(self.encoder, Encoder::Tokenizer(_))
    }

    /// What constraints to the sequences that the tokenizer itself writes are made from: some milliseconds for each 10,000
    /// tokens.
    fn canonical_index(&self) -> Result<Arc<CanonicalIndex>> {
        let Encoder::Tokenizer(tokenizer) = &self.encoder else {
            return Err(Failure::input(
                "--canonical asks for the tokenizer's own sequences, and a table model has no tokenizer; \
                 name one with --tokenizer FILE",
            ));
        };
        let tokenization = tokenizer.tokenization().map_err(|error| {
            Failure::input(format!("the tokenizer's own sequences cannot be enforced: {}", chain(&error)))
        })?;
        let automaton =
            TokenizerAutomaton::new(&self.vocabulary, tokenization).map_err(|error| Failure::bad(&error))?;
        let index = CanonicalIndex::new(Arc::new(automaton), Arc::clone(&self.vocabulary), self.trie()?);
        index.map(Arc::new).map_err(|error| Failure::bad(&error))
    }

    /// The tokens that the tokenizer itself writes for `text` in the middle of another; `None` without a tokenizer.
    pub(crate) fn canonical(&self, text: &str) -> Result<Option<Vec<TokenId>>> {
        match &self.encoder {
            Encoder::Tokenizer(_) => self.encode_output(text).map(Some),
            Encoder::Fewest => Ok(None),
        }
    }

    /// The trie of the vocabulary: some milliseconds.
    pub(crate) fn trie(&self) -> Result<Arc<TokenTrie>> {
        TokenTrie::new(&self.vocabulary).map(Arc::new).map_err(|error| Failure::bad(&error))
    }

    /// Takes off `prompt` the tokens that a longer one begins with; answers with their text.
    pub(crate) fn heal(&self, prompt: &mut Vec<TokenId>) -> Result<String> {
        let (taken, text) = heal(prompt, &self.vocabulary, &*self.trie()?);
        // A model may need a first token.
        let taken = if taken == prompt.len() && self.begin.is_empty() { 0 } else { taken };
        if taken == 0 {
            return Ok(String::new());
        }
        prompt.truncate(prompt.len() - taken);
        if prompt.is_empty() {
            prompt.clone_from(&self.begin);
        }
        Ok(String::from_utf8(text).expect("healing takes whole characters"))
    }

    /// The text of an output, with what is not UTF-8 replaced.
    pub(crate) fn decode(&self, ids: &[TokenId]) -> String {
        String::from_utf8_lossy(&self.vocabulary.decode(ids)).into_owned()
    }
}

/// The spelling of `text` with the fewest tokens; of several, the one whose last tokens are longest.
fn fewest_tokens(vocabulary: &Vocabulary, text: &str) -> Result<Vec<TokenId>> {
    let text = text.as_bytes();
    // best[end]: the fewest tokens that spell text[..end], and the last of them.
    let mut best: Vec<Option<(usize, TokenId)>> = vec![None; text.len() + 1];
    let mut reached = 0;
    for start in 0..=text.len() {
        let count = match best[start] {
            Some((count, _)) => count,
            None if start == 0 => 0,
            None => continue,
        };
        reached = start;
        for (id, bytes) in vocabulary.text_tokens().filter(|(_, bytes)| !bytes.is_empty()) {
            if text[start..].starts_with(bytes) {
                let end = &mut best[start + bytes.len()];
                if end.is_none_or(|(fewest, _)| count + 1 < fewest) {
                    *end = Some((count + 1, id));
                }
            }
        }
    }
    if reached < text.len() {
        return Err(Failure::input(format!(
            "the model's tokens cannot spell the text from byte {reached} on"
        )));
    }
    let mut ids = Vec::new();
    let mut end = text.len();
    while end > 0 {
        let (_, id) = best[end].expect("every reached end has a last token");
        end -= vocabulary.text(id).map_or(0, <[u8]>::len);
        ids.push(id);
    }
    ids.reverse();
    Ok(ids)
}

/// The tokens alone: what masks and checks need, without reading any weights.
pub(crate) fn tokens(args: &ModelArgs) -> Result<Tokens> {
    // A folder says which tokens end a sequence, of another tokenizer too: as for `model`.
    let end = match &args.model {
        ModelChoice::Folder(folder) => read_end_of_sequence(folder)?,
        _ => Vec::new(),
    };
    let own = match (&args.model, &args.tokenizer) {
        (ModelChoice::Table(path), None) => {
            let vocabulary = table(path)?.vocabulary().clone();
            return Ok(Tokens { vocabulary, encoder: Encoder::Fewest, begin: Vec::new() });
        }
        (_, Some(path)) => read_tokenizer(path)?,
        (ModelChoice::Tiny | ModelChoice::TinyDraft, None) => tiny_tokenizer()?,
        (ModelChoice::Folder(folder), None) => read_tokenizer(&folder.join("tokenizer.json"))?,
    };
    with_end_of_sequence(own, &end, 0)
}

/// A model with its tokens.
pub(crate) fn model(args: &ModelArgs) -> Result<(AnyModel, Tokens)> {
    let llama = match &args.model {
        ModelChoice::Table(path) => {
            let model = table(path)?;
            let tokens = match &args.tokenizer {
                Some(path) => with_end_of_sequence(read_tokenizer(path)?, &[], model.vocab_len())?,
                None => Tokens {
                    vocabulary: model.vocabulary().clone(),
                    encoder: Encoder::Fewest,
                    begin: Vec::new(),
                },
            };
            return Ok((AnyModel::Table(model), tokens));
        }
        choice @ (ModelChoice::Tiny | ModelChoice::TinyDraft) => {
            let tiny = if matches!(choice, ModelChoice::Tiny) { tiny_model::TINY } else { tiny_model::DRAFT };
            Llama::from_bytes(tiny.config_json, tiny.safetensors).map_err(|error| Failure::other(&error))?
        }
        ModelChoice::Folder(folder) => {
            if !folder.is_dir() {
                let message = "no such folder; give `tiny`, the folder of a checkpoint, or `table:FILE`";
                return Err(Failure::file(folder, message));
            }
            Llama::from_dir(folder).map_err(|error| Failure::bad(&error))?
        }
    };
    let tokenizer = match (&args.tokenizer, &args.model) {
        (Some(path), _) => read_tokenizer(path)?,
        (None, ModelChoice::Folder(folder)) => read_tokenizer(&folder.join("tokenizer.json"))?,
        (None, _) => tiny_tokenizer()?,
    };
    if tokenizer.vocabulary().len() > llama.vocab_len() {
        return Err(Failure::input(format!(
            "the tokenizer has {} ids and the model only {}: they do not belong together",
            tokenizer.vocabulary().len(),
            llama.vocab_len()
        )));
    }
    let config = llama.config();
    let mut tokens = with_end_of_sequence(tokenizer, &config.eos_token_ids, llama.vocab_len())?;
    if tokens.begin.is_empty() {
        tokens.begin.extend(config.bos_token_id.map(TokenId));
    }
    Ok((AnyModel::Llama(Box::new(llama)), tokens))
}

/// The tokens of a tokenizer for a model whose rows have `len` entries and whose configuration names `end` as the
/// tokens that end a sequence (none: those that the tokenizer is known for).
fn with_end_of_sequence(tokenizer: Tokenizer, end: &[u32], len: usize) -> Result<Tokens> {
    let mut vocabulary = tokenizer.vocabulary().clone();
    if !end.is_empty() {
        let end: Vec<_> = end.iter().copied().map(TokenId).collect();
        vocabulary = vocabulary.with_end_of_sequence(&end).map_err(|error| Failure::bad(&error))?;
    }
    let begin = tokenizer.begin_of_sequence().to_vec();
    let vocabulary = Arc::new(vocabulary.padded(len));
    Ok(Tokens { vocabulary, encoder: Encoder::Tokenizer(Box::new(tokenizer)), begin })
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer> {
    Tokenizer::from_file(path).map_err(|error| Failure::bad(&error))
}

fn tiny_tokenizer() -> Result<Tokenizer> {
    Tokenizer::from_bytes(tiny_model::TOKENIZER_JSON.as_bytes()).map_err(|error| Failure::other(&error))
}

/// The tokens that end a sequence by the configuration in a checkpoint's folder, if there is one: masks need no more of it, and so are
/// made for models too that do not run here.
fn read_end_of_sequence(folder: &Path) -> Result<Vec<u32>> {
    let path: PathBuf = folder.join("config.json");
    if !folder.is_dir() {
        return Err(Failure::file(
            folder,
            "no such folder; give `tiny`, the folder of a checkpoint, or `table:FILE`",
        ));
    }
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = read::text(&path, MAX_TEXT_BYTES)?;
    ModelConfig::eos_token_ids_from_json(&text).map_err(|error| Failure::bad(&error))
}

fn table(path: &Path) -> Result<TableModel> {
    let text = read::utf8(path, MAX_TABLE_BYTES)?;
    TableModel::from_json(&text).map_err(|error| Failure::file(path, error))
}

/// What an option says of a constraint that is not given. clap does not find that where another constraint is: what conflicts with
/// something that is there is not asked for.
fn stray(args: &ConstraintArgs) -> Option<&'static str> {
    let (set, grammar) = (args.set.is_some(), args.grammar.is_some());
    let schema = args.json_schema.is_some();
    let options = [
        (args.gpu, set, "--gpu makes the masks of a --set"),
        (args.subset.is_some(), set, "--subset is a part of a --set"),
        (args.max_ignored.is_some(), grammar, "--max-ignored bounds %ignore of a --grammar"),
        (args.maximal_munch, grammar, "--maximal-munch cuts outputs into the terminals of a --grammar"),
        (args.whitespace.is_some(), schema, "--whitespace is that of a --json-schema"),
        (args.ascii, schema, "--ascii is for the strings of a --json-schema"),
        (args.exponents.is_some(), schema, "--exponents is for the numbers of a --json-schema"),
        (
            args.schema_registry.is_some(),
            schema,
            "--schema-registry is for the references of a --json-schema",
        ),
        (args.any_order, schema, "--any-order is for the members of a --json-schema"),
    ];
    options.into_iter().find(|(is_given, has_one, _)| *is_given && !has_one).map(|(.., about)| about)
}

pub(crate) fn check_stray(args: &ConstraintArgs) -> Result<()> {
    match stray(args) {
        Some(about) => Err(Failure::input(format!("{about}; give one, or leave it out"))),
        None => Ok(()),
    }
}

/// The constraint that the options ask for, on outputs that begin with `healed` and then satisfy the options.
pub(crate) fn constraint(args: &ConstraintArgs, tokens: &Tokens, healed: &str) -> Result<AnyConstraint> {
    let limits = Limits::default();
    let pattern = match (&args.regex, &args.regex_file) {
        (Some(pattern), _) => Some(pattern.clone()),
        (None, Some(path)) => Some(read_text(path)?),
        (None, None) => None,
    };
    check_stray(args)?;
    if args.is_none() && args.max_ignored.is_none() && healed.is_empty() {
        return Ok(AnyConstraint::new(Unconstrained::new(&tokens.vocabulary)));
    }
    let vocabulary = Arc::clone(&tokens.vocabulary);
    if let Some(path) = args.grammar.as_ref().or(args.json_schema.as_ref()) {
        if args.canonical {
            return canonical_grammar(path, args, tokens, healed).map(AnyConstraint::new);
        }
        return grammar_constraint(path, args, tokens, healed).map(AnyConstraint::new);
    }
    if let Some(path) = &args.set {
        return sets::constraint(path, args, tokens, healed);
    }
    if let Some(path) = &args.exclude_set {
        return sets::exclusion(path, args, tokens, healed);
    }
    // Character by character, so that nothing in it is syntax.
    let literal: String = healed.chars().map(|char| format!("\\x{{{:x}}}", u32::from(char))).collect();
    let pattern = match pattern {
        Some(pattern) if healed.is_empty() => Some(pattern),
        Some(pattern) => Some(format!("{literal}(?:{pattern})")),
        None if args.choice.is_empty() => Some(format!("{literal}(?s:.*)")),
        None => None,
    };
    let choices: Vec<String> = args.choice.iter().map(|choice| format!("{healed}{choice}")).collect();
    if args.canonical {
        let index = tokens.canonical_index()?;
        let canonical = match pattern {
            Some(pattern) => CanonicalConstraint::new(&pattern, &index, &limits),
            None => CanonicalConstraint::from_choices(&choices, &index, &limits),
        };
        return canonical.map(AnyConstraint::new).map_err(|error| Failure::bad(&error));
    }
    let trie = tokens.trie()?;
    let constraint = match pattern {
        Some(pattern) => regex(&pattern, vocabulary, trie, &limits),
        None => RegexConstraint::from_choices(&choices, vocabulary, trie, &limits).map(AnyConstraint::new),
    };
    constraint.map_err(|error| Failure::bad(&error))
}

/// The grammar of the values that satisfy the schema in a file.
fn json_schema(path: &Path, args: &ConstraintArgs) -> Result<Grammar> {
    let mut options = SchemaOptions::default();
    options.whitespace = args.whitespace.unwrap_or_default();
    options.ascii = args.ascii;
    options.exponents = args.exponents.unwrap_or(0);
    options.registry = registry(args.schema_registry.as_deref())?;
    if args.any_order {
        options.order = MemberOrder::Any;
    }
    schema::grammar(&read_text(path)?, &options, &SchemaLimits::default())
        .map_err(|error| Failure::file(path, chain(&error)))
}

/// The schemas in the `.json` files of a folder and the folders in it, each by its path from there.
pub(crate) fn registry(folder: Option<&Path>) -> Result<Registry> {
    /// Files and folders that are looked at.
    const MAX_ENTRIES: usize = 100_000;
    let mut registry = Registry::new();
    let Some(folder) = folder else { return Ok(registry) };
    let mut folders = vec![(folder.to_owned(), String::new())];
    let mut left = MAX_ENTRIES;
    while let Some((at, name)) = folders.pop() {
        let entries = fs::read_dir(&at).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| Failure::file(&at, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            left = left.checked_sub(1).ok_or_else(|| {
                Failure::file(
                    folder,
                    format!("more than {MAX_ENTRIES} files and folders; keep the schemas apart"),
                )
            })?;
            let path = entry.path();
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            // A link to a folder is none, so this ends.
            if entry.file_type().map_err(|error| Failure::file(&path, error))?.is_dir() {
                folders.push((path, name + "/"));
            } else if name.ends_with(".json") {
                registry.insert(&name, &read_text(&path)?).map_err(|error| Failure::file(&path, error))?;
            }
        }
    }
    Ok(registry)
}

/// The grammar or schema in a file.
fn any_grammar(path: &Path, args: &ConstraintArgs, limits: &GrammarLimits) -> Result<Grammar> {
    match &args.json_schema {
        Some(path) => json_schema(path, args),
        None => grammar(path, args.max_ignored, limits),
    }
}

/// The tokenizer's own sequences among the outputs of a grammar or schema without recursion.
fn canonical_grammar(
    path: &Path,
    args: &ConstraintArgs,
    tokens: &Tokens,
    healed: &str,
) -> Result<CanonicalConstraint> {
    if args.maximal_munch {
        return Err(Failure::input(
            "--canonical takes a grammar as one automaton, which knows no terminals, so it cannot be combined with \
             --maximal-munch; leave out one of the two",
        ));
    }
    let limits = Limits::default();
    let grammar = any_grammar(path, args, &GrammarLimits::default())?.behind(healed.as_bytes());
    let dfa = grammar.regular(&limits).map_err(|error| Failure::file(path, chain(&error)))?;
    let constraint = CanonicalConstraint::from_dfa(&dfa, &tokens.canonical_index()?, &limits);
    constraint.map_err(|error| Failure::bad(&error))
}

/// The constraint of the grammar or schema in a file, on outputs that begin with `healed`.
pub(crate) fn grammar_constraint(
    path: &Path,
    args: &ConstraintArgs,
    tokens: &Tokens,
    healed: &str,
) -> Result<GrammarConstraint> {
    if args.canonical {
        return Err(Failure::input(
            "--canonical cannot be combined with counts of a --grammar or --json-schema; leave out one of the two",
        ));
    }
    check_stray(args)?;
    let limits = GrammarLimits::default();
    let grammar = any_grammar(path, args, &limits)?.behind(healed.as_bytes());
    let (vocabulary, trie) = (Arc::clone(&tokens.vocabulary), tokens.trie()?);
    let constraint = match args.maximal_munch {
        true => GrammarConstraint::with_maximal_munch(&grammar, vocabulary, trie, &limits),
        false => GrammarConstraint::new(&grammar, vocabulary, trie, &limits),
    };
    constraint.map_err(|error| Failure::file(path, chain(&error)))
}

/// A grammar from a file, in the format that its name says.
fn grammar(path: &Path, max_ignored: Option<u32>, limits: &GrammarLimits) -> Result<Grammar> {
    let format = grammar_format(path)?;
    let text = read_text(path)?;
    let grammar = match (format, max_ignored) {
        (GrammarFormat::Lark, max_ignored_chars) => {
            Grammar::from_lark(&text, &LarkOptions { max_ignored_chars, ..LarkOptions::default() }, limits)
        }
        (_, Some(_)) => {
            return Err(Failure::input("--max-ignored bounds %ignore, which only grammars in Lark have"));
        }
        (format, None) => Grammar::parse(&text, format, limits),
    };
    grammar.map_err(|error| Failure::file(path, chain(&error)))
}

/// How the grammar in a file is written, by the file's name.
pub(crate) fn grammar_format(path: &Path) -> Result<GrammarFormat> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    GrammarFormat::from_extension(extension).ok_or_else(|| {
        Failure::file(
            path,
            "the name must end in .lark, .gbnf or .ebnf, which says how the grammar is written",
        )
    })
}

/// A text from a file, without the line break at its end.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let pattern = read::text(path, MAX_TEXT_BYTES)?;
    Ok(pattern.strip_suffix('\n').map_or(pattern.clone(), str::to_owned))
}

impl ConstraintArgs {
    /// Whether nothing is asked for.
    pub(crate) fn is_none(&self) -> bool {
        let Self {
            regex,
            regex_file,
            grammar,
            json_schema,
            whitespace,
            set,
            subset: _,
            gpu: _,
            exclude_set,
            max_ignored: _,
            maximal_munch: _,
            any_order: _,
            ascii: _,
            exponents: _,
            schema_registry: _,
            choice,
            canonical,
        } = self;
        let no_grammar = grammar.is_none() && json_schema.is_none() && whitespace.is_none();
        let no_file = regex_file.is_none() && no_grammar && set.is_none() && exclude_set.is_none();
        regex.is_none() && no_file && choice.is_empty() && !canonical
    }
}

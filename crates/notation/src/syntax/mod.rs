//! Front ends for grammars as text: GBNF, EBNF, classical BNF, the EBNF of XGrammar, ABNF and Lark.
//!
//! ```text
//! text/ --bnf/, xgrammar/, lark/--> tree/ of definitions --lower/--> Grammar
//! ```
//!
//! `bnf/` has GBNF, the three notations of `.ebnf` and `.bnf`, and ABNF. Constructs that several languages share are
//! in [`escape`] and [`bnf`]. Each language has a file or folder that documents it and its differences from the
//! original. No front end recurses, so deep nesting in untrusted text costs memory alone.

mod bnf;
mod lark;
mod lower;
mod nested;
mod options;
mod text;
mod tree;
mod xgrammar;

pub use lark::imports::imported_files;
pub use nested::{Resolve, Resolver};
pub use options::{GrammarOptions, Indenter};

use std::collections::HashSet;

use unskew_grammar::{Fate, Grammar, GrammarError, GrammarLimits, SyntaxError, SyntaxErrorKind};

use self::{
    bnf::{abnf, gbnf},
    error::{FILE_MARK, Locations, excerpt, location, nearest, token_excerpt},
    lower::{Ignored, Lowered},
    nested::Nested,
    text::{cursor, error},
    tree::{Node, Tree, assembler, escape, expand, parameters, reader, tokens},
};
use crate::{
    Explained, layout,
    lazy::{self, Lazy, LazyError},
    looks,
};

/// The language of a grammar's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GrammarFormat {
    /// GBNF, the language of llama.cpp.
    Gbnf,
    /// EBNF and BNF, in the notation of the first rule: `name ::=` is that of the W3C and of transformers-CFG,
    /// `<name> ::=` classical BNF, and `name =` the EBNF of ISO 14977.
    Ebnf,
    /// The EBNF of XGrammar.
    Xgrammar,
    /// ABNF, the language of RFCs.
    Abnf,
    /// The language of the Lark parser, in llguidance's dialect.
    Lark,
}

impl GrammarFormat {
    /// All languages.
    pub const ALL: [Self; 5] = [Self::Lark, Self::Gbnf, Self::Ebnf, Self::Xgrammar, Self::Abnf];

    /// The language of files with this extension, without the dot, in upper or lower case. `bnf` is EBNF, in which the
    /// first rule decides on the notation.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let extension = if extension.eq_ignore_ascii_case("bnf") { "ebnf" } else { extension };
        Self::ALL.into_iter().find(|format| extension.eq_ignore_ascii_case(format.extension()))
    }

    /// The extension of files in this language, without the dot, which is also the name of the language.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Gbnf => "gbnf",
            Self::Ebnf => "ebnf",
            Self::Xgrammar => "xgrammar",
            Self::Abnf => "abnf",
            Self::Lark => "lark",
        }
    }
}

/// Reads a grammar from `text` in the language `format`.
///
/// # Errors
///
/// [`GrammarError::Syntax`], [`GrammarError::Terminal`] and [`GrammarError::AutomataTooLarge`], with a
/// location; [`GrammarError::TooManyNodes`]; and for lazy terminals in Lark
/// [`GrammarError::LazyTooCostly`] and [`GrammarError::Empty`].
pub fn parse(
    text: &str,
    format: GrammarFormat,
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Result<Grammar, GrammarError> {
    Ok(read(text, format, options, limits)?.grammar())
}

/// Reads a grammar from `text` in GBNF, the language of llama.cpp. The start rule is `root`.
///
/// # Errors
///
/// As [`parse`].
///
/// # Example
///
/// ```
/// use unskew_grammar::GrammarLimits;
/// use unskew_notation::from_gbnf;
///
/// let text = r#"
/// root  ::= "[" value ("," value)* "]"
/// value ::= [0-9]+ | rooot
/// "#;
/// let error = from_gbnf(text, &GrammarLimits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "line 3, column 20: rule `rooot` is not defined; is `root` meant?");
/// ```
pub fn from_gbnf(text: &str, limits: &GrammarLimits) -> Result<Grammar, GrammarError> {
    parse(text, GrammarFormat::Gbnf, &GrammarOptions::default(), limits)
}

/// Reads a grammar from `text` in EBNF or BNF ([`GrammarFormat::Ebnf`]). The start rule is `root`, or the first
/// rule if there is no `root`.
///
/// # Errors
///
/// As [`parse`].
pub fn from_ebnf(text: &str, limits: &GrammarLimits) -> Result<Grammar, GrammarError> {
    parse(text, GrammarFormat::Ebnf, &GrammarOptions::default(), limits)
}

/// Reads a grammar from `text` in Lark, in llguidance's dialect. The start rule is `start`, or the rule
/// named in the options.
///
/// # Errors
///
/// As [`parse`].
///
/// # Example
///
/// White space between terminals, at most two characters of it in one place:
///
/// ```
/// use unskew_grammar::GrammarLimits;
/// use unskew_notation::{GrammarOptions, from_lark};
///
/// let text = r#"
/// start: "[" [INT ("," INT)*] "]"
/// %import common (INT, WS)
/// %ignore WS
/// "#;
/// let options = GrammarOptions::default().with_max_ignored_chars(2);
/// let grammar = from_lark(text, &options, &GrammarLimits::default())?;
/// assert_eq!(grammar.rule_name(grammar.start()), "start");
/// # Ok::<(), unskew_grammar::GrammarError>(())
/// ```
pub fn from_lark(
    text: &str,
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Result<Grammar, GrammarError> {
    parse(text, GrammarFormat::Lark, options, limits)
}

/// The result of reading a text.
pub(crate) struct Read {
    /// The grammar with the rules as written.
    pub(crate) written: Grammar,
    /// The grammar after the effect of lazy terminals on competing readings, if it differs.
    resolved: Option<Grammar>,
    /// The fates of constructs other than rules.
    pub(crate) fates: Vec<Explained>,
}

impl Read {
    fn grammar(self) -> Grammar {
        self.resolved.unwrap_or(self.written)
    }
}

/// Reads `text` in the language `format`.
pub(crate) fn read(
    text: &str,
    format: GrammarFormat,
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Result<Read, GrammarError> {
    check_length(text, limits)?;
    if format == GrammarFormat::Ebnf {
        let (notation, made) = bnf::read(text, limits);
        let made = made.map_err(GrammarError::from);
        return made.and_then(|made| read_ebnf(text, made, options, limits)).map_err(|error| {
            match (error, notation) {
                (GrammarError::Syntax(SyntaxError { kind, location }), Some(notation)) => {
                    let kind = SyntaxErrorKind::ReadAs { kind: Box::new(kind), notation };
                    SyntaxError { kind, location }.into()
                }
                (error, _) => error,
            }
        });
    }
    let named = options.start.as_deref();
    let ignored = Ignored::new("", &GrammarOptions::default());
    let (tree, start) = match format {
        GrammarFormat::Lark => return read_lark(text, options, limits),
        GrammarFormat::Ebnf => unreachable!("it was read"),
        GrammarFormat::Gbnf => {
            let tree = gbnf::read(text, limits)?;
            let start = start(text, &tree, named.unwrap_or("root"))?;
            (tree, start)
        }
        GrammarFormat::Xgrammar => {
            let tree = xgrammar::read(text, limits)?;
            let start = start(text, &tree, named.unwrap_or("root"))?;
            (tree, start)
        }
        GrammarFormat::Abnf => {
            let tree = abnf::read(text, limits)?;
            let start = match named {
                None => 0,
                Some(named) => start(text, &tree, abnf::spelling(&tree, named).unwrap_or(named))?,
            };
            (tree, start)
        }
    };
    let lowered = lower::lower(text, &tree, start, &ignored, limits)?;
    // A lazy rule of XGrammar ends where it can, and other readings of the text stay. Only Lark has lazy terminals.
    let lowered = Lowered { lazy: Lazy::new(), ..lowered };
    resolve(text, &tree, &ignored, lowered, limits)
}

fn read_ebnf(
    text: &str,
    (tree, ignored): (Tree<'_>, Ignored),
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Result<Read, GrammarError> {
    // Without `root`, the first rule is the start rule. Without any rule, the error names `root`.
    let start = match (options.start.as_deref(), tree.find("root")) {
        (None, None) if !tree.definitions.is_empty() => 0,
        (named, _) => start(text, &tree, named.unwrap_or("root"))?,
    };
    let lowered = lower::lower(text, &tree, start, &ignored, limits)?;
    resolve(text, &tree, &ignored, lowered, limits)
}

fn read_lark(text: &str, options: &GrammarOptions, limits: &GrammarLimits) -> Result<Read, GrammarError> {
    let sources = lark::imports::sources(text, &options.resolver, limits)?;
    read_sources(&sources, options, limits).map_err(|error| {
        let file = error.location().and_then(|location| sources.files.get(location.file));
        match file.filter(|file| file.begin > 0) {
            Some(file) => GrammarError::Imported { path: file.path.clone(), error: Box::new(error) },
            None => error,
        }
    })
}

fn read_sources(
    sources: &lark::imports::Sources,
    options: &GrammarOptions,
    limits: &GrammarLimits,
) -> Result<Read, GrammarError> {
    let text = &*sources.text;
    let (tree, ignored) = lark::read(sources, options, limits)?;
    let start = start(text, &tree, options.start.as_deref().unwrap_or("start"))?;
    let lowered = lower::lower(text, &tree, start, &ignored, limits)?;
    resolve(text, &tree, &ignored, lowered, limits)
}

/// The grammar without uses of terminals that are more than a language: blocks, look-around and lazy terminals.
fn resolve(
    text: &str,
    tree: &Tree<'_>,
    ignored: &Ignored,
    lowered: Lowered,
    limits: &GrammarLimits,
) -> Result<Read, GrammarError> {
    let Lowered { grammar: written, lazy, looks, notes, layout, .. } = lowered;
    if let Some(layout) = layout {
        if !lazy.is_empty() {
            let construct = "`%declare` in a grammar with lazy terminals".to_owned();
            let way_out = "leave out `lazy`, `suffix` and `stop`; a lazy quantifier in a regex is read";
            let kind = SyntaxErrorKind::Unsupported { construct, way_out };
            return Err(SyntaxError { kind, location: location(text, layout.at) }.into());
        }
        let place = |at| location(text, at);
        let (mut resolved, looks) = layout::resolve(&written, looks, &layout, limits, place)?;
        if !looks.is_empty() {
            resolved = looks::resolve(&resolved, &looks, limits, place)?;
        }
        // The rules as written have the declared terminals, which are no tokens of a vocabulary.
        let resolved = resolved.reached(limits)?;
        return Ok(Read { written, resolved: Some(resolved), fates: fates(text, tree, ignored, &notes) });
    }
    if let (Some(at), false) = (looks.values().map(|condition| condition.at).min(), lazy.is_empty()) {
        let construct = "look-around beyond a terminal in a grammar with lazy terminals".to_owned();
        let way_out =
            "write which characters may stand around the terminal, or leave out `lazy`, `suffix` and `stop`";
        let kind = SyntaxErrorKind::Unsupported { construct, way_out };
        return Err(SyntaxError { kind, location: location(text, at) }.into());
    }
    if !looks.is_empty() {
        let resolved = looks::resolve(&written, &looks, limits, |at| location(text, at))?;
        return Ok(Read { written, resolved: Some(resolved), fates: fates(text, tree, ignored, &notes) });
    }
    let resolved = lazy::resolve(&written, &lazy, limits).map_err(|error| match error {
        LazyError::Grammar(error) => error,
        LazyError::TooLarge(at) => {
            GrammarError::AutomataTooLarge { location: location(text, at), limit: limits.automata_bytes }
        }
        LazyError::Alike { terminal, at } => {
            let construct = format!("a lazy terminal that competes with {terminal} after some texts of a terminal and not after others");
            let way_out = "give the terminals of one place no common text, or allow both after each of them";
            let kind = SyntaxErrorKind::Unsupported { construct, way_out };
            SyntaxError { kind, location: location(text, at) }.into()
        }
        LazyError::Entangled { rule, at } => {
            let construct = format!("a lazy terminal that competes with the recursive rule `{rule}`, or is used in it,");
            let way_out = "write the rule without recursion, or put texts around it with which no lazy terminal begins, such as brackets";
            let kind = SyntaxErrorKind::Unsupported { construct, way_out };
            SyntaxError { kind, location: location(text, at) }.into()
        }
    })?;
    Ok(Read { written, resolved, fates: fates(text, tree, ignored, &notes) })
}

/// The fates of terminals, control tokens, ignored terminals, ends of lazy terminals, and annotations. `notes` has
/// those of look-around and lazy repetitions.
fn fates(
    text: &str,
    tree: &Tree<'_>,
    ignored: &Ignored,
    notes: &[(usize, &'static str, &'static str)],
) -> Vec<Explained> {
    let mut found: Vec<(usize, String, Fate, &str)> = vec![];
    let mut inside: Vec<Explained> = vec![];
    for definition in tree.definitions.iter().filter(|definition| definition.terminal) {
        let name = tree.name(definition.name);
        let (construct, why) = match tree.node(definition.body) {
            Node::Declared => (
                format!("declared terminal `{name}`"),
                "a border of a block by its column, without a text, up to `GrammarLimits::columns`",
            ),
            _ => (format!("terminal `{name}`"), "read as one text"),
        };
        found.push((definition.at, construct, Fate::Enforced, why));
    }
    let mut named: Vec<u32> = vec![];
    for node in tree.nodes() {
        if let Node::Token(name) = tree.node(node)
            && !named.contains(&name)
        {
            named.push(name);
            let why = "the token itself, and not its text; if it ends sequences in the vocabulary, it is the end of the output, \
                       and nothing may follow it";
            found.push((
                tree.place(node),
                format!("control token `{}`", tree.name(name)),
                Fate::Enforced,
                why,
            ));
        }
    }
    for node in tree.nodes().filter(|node| matches!(tree.node(*node), Node::Tokens(_))) {
        let construct = format!("tokens `{}`", token_excerpt(text, tree.place(node)));
        let why = "one token by its id, and not its text; tokens that end sequences are in a set only if the set is that one token";
        found.push((tree.place(node), construct, Fate::Enforced, why));
    }
    for node in tree.nodes() {
        let Node::Grammar(nested) = tree.node(node) else { continue };
        let construct = format!("grammar `{}`", excerpt(text, tree.place(node)));
        let why = "a grammar of its own inside this one, with its own names and ignored texts";
        found.push((tree.place(node), construct, Fate::Enforced, why));
        if let Nested::Text(part) = tree.nested(nested) {
            inside.extend(fates(text, &part.tree, &part.ignored, &[]));
        }
    }
    for node in &ignored.nodes {
        let why = match ignored.longest {
            true => "allowed before, between and after terminals, and as long as possible",
            false => "allowed before, between and after terminals",
        };
        found.push((tree.place(*node), ignored.directive.to_owned(), Fate::Enforced, why));
    }
    for (at, construct) in &tree.ends {
        let why = match *construct {
            "`stop`" => "the text ends before the first end of the stop, which is not written itself",
            "`max_tokens`" => "at most so many whole tokens; a token that crosses the border is left out",
            _ => "its first end is the boundary, and competing readings lose the texts beyond it",
        };
        found.push((*at, (*construct).to_owned(), Fate::Enforced, why));
    }
    for (at, construct, why) in notes {
        found.push((*at, (*construct).to_owned(), Fate::Enforced, why));
    }
    for (at, construct, fate, why) in &tree.notes {
        found.push((*at, (*construct).to_owned(), *fate, why));
    }
    found.sort_by_key(|(at, ..)| *at);
    let mut locations = Locations::new(text);
    let explained = found
        .into_iter()
        .map(|(at, construct, fate, why)| Explained::new(Some(locations.at(at)), construct, fate, why));
    let is_own = |one: &Explained| one.location.is_none_or(|location| location.file == 0);
    explained.chain(inside).filter(is_own).collect()
}

fn check_length(text: &str, limits: &GrammarLimits) -> Result<(), SyntaxError> {
    // Offsets are stored in four bytes.
    let limit = limits.grammar_bytes.min(u32::MAX as usize);
    if text.len() > limit {
        let kind = SyntaxErrorKind::TooLong { bytes: text.len(), limit };
        return Err(SyntaxError { kind, location: location(text, 0) });
    }
    Ok(())
}

/// The index of the definition of the start rule.
fn start(text: &str, tree: &Tree<'_>, name: &str) -> Result<usize, SyntaxError> {
    /// So many rules are named.
    const NAMED: usize = 4;
    tree.find(name).ok_or_else(|| {
        // Other files come after the text.
        let end = text.find(FILE_MARK).unwrap_or(text.len());
        let own = || tree.definitions.iter().filter(|definition| definition.at < end && !definition.terminal);
        let names = || own().map(|definition| tree.name(definition.name));
        let used: HashSet<u32> = tree
            .nodes()
            .filter_map(|node| match tree.node(node) {
                Node::Name(name) => Some(name),
                _ => None,
            })
            .collect();
        // Rules that no other one uses are the likeliest.
        let unused = own().filter(|definition| !used.contains(&definition.name));
        let unused = unused.map(|definition| tree.name(definition.name));
        let mut rules: Vec<String> = nearest(name, names()).into_iter().collect();
        for name in unused.chain(names()) {
            if rules.len() < NAMED && rules.iter().all(|known| known != name) {
                rules.push(name.to_owned());
            }
        }
        let at = own().map(|definition| definition.at).min().unwrap_or(end);
        let kind = SyntaxErrorKind::NoStart { name: name.to_owned(), rules };
        SyntaxError { kind, location: location(text, at) }
    })
}

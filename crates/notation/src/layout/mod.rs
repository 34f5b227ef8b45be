//! Layout by indentation: the terminals `_INDENT` and `_DEDENT` of Lark, which have no text of their own.
//!
//! ```text
//! suite: _NEWLINE _INDENT statement+ _DEDENT
//! _NEWLINE: /(\r?\n[ \t]*)+/
//! %declare _INDENT _DEDENT
//! ```
//!
//! # Meaning
//!
//! It is that of Lark's `Indenter`. The newline terminal takes the longest text, and its column is the number of
//! blanks, and of tabs times [`tab`](crate::Indenter::tab), after its last line feed. A column greater than that of
//! the block opens a block: exactly then `_INDENT` comes next. A smaller one must be the column of an open block, and
//! each block in between ends by a `_DEDENT`. At the end of the output all open blocks end. Between brackets the
//! newline terminal is ignored, and there are no blocks. The first line may be indented in any way.
//!
//! # Method
//!
//! The result is a plain grammar, so masks and libraries need no support for it, and there are no dead ends. The text
//! of the newline terminal is divided at its last line feed ([`columns`]). The indentation after it is read where the
//! next terminal begins, because there the block is known: so a rule is written once for each column, and not for
//! each pair of columns before and after it. A part of a rule has four states ([`State`]). Rules without newlines and
//! blocks are shared by all columns, and once more between brackets ([`product`]).
//!
//! A bracket must close in the rule that opens it, and a block end there. So the nesting of columns is that of the
//! rules.
//!
//! The greatest column is a limit ([`GrammarLimits::columns`]): an output never has a greater one.
//!
//! The indentation is written where the next terminal begins, in one place, and not in each rule that may come first.
//! That keeps the grammar small. For `python.lark`, 100 columns:
//!
//! | rules are written | rules | expressions | time to read |
//! |---|--:|--:|--:|
//! | each by column and by its state before and after | 55,987 | 423,516 | 3.5 s |
//! | by column only where a newline or block inside depends on it, and the indentation before the first rule | 31,089 | 235,189 | 1.9 s |
//! | and ignored text with the indentation, and what may follow it from the first bytes | 8,263 | 51,590 | 0.6 s |
//!
//! Tried instead: columns in the items of the parser, like the sets of used keys. There is no limit then, and every
//! mask depends on all open columns, which each fragment of a mask would have to leave out.

mod columns;
mod facts;
mod product;

use unskew_automata::Dfa;
use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarError, GrammarLimits, Location, SyntaxError, SyntaxErrorKind, Terminal,
    TerminalId, kit::fixpoint::productive,
};

use self::{
    columns::{Columns, Trouble},
    facts::Facts,
    product::Product,
};
use crate::looks::Looks;

/// The terminals of a grammar with layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) newline: TerminalId,
    pub(crate) indent: TerminalId,
    pub(crate) dedent: TerminalId,
    /// The ignored text after each terminal.
    pub(crate) ignored: ExprId,
    /// The same between brackets.
    pub(crate) inside: ExprId,
    pub(crate) open: Vec<Box<[u8]>>,
    pub(crate) close: Vec<Box<[u8]>>,
    pub(crate) tab: u32,
    /// The offset of the declaration.
    pub(crate) at: usize,
}

/// Where the text is between two terminals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum State {
    /// In a line.
    Line,
    /// After a newline terminal, before its indentation.
    Broken,
    /// The same, and a block was opened.
    Opened,
    /// At the end of the output.
    Ended,
}

impl State {
    const ALL: [Self; 4] = [Self::Line, Self::Broken, Self::Opened, Self::Ended];
}

/// A set of states, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct States(u8);

impl States {
    fn of(state: State) -> Self {
        Self(1 << state as u8)
    }

    fn with(self, state: State) -> Self {
        Self(self.0 | 1 << state as u8)
    }

    fn has(self, state: State) -> bool {
        self.0 & 1 << state as u8 != 0
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |state| self.has(*state))
    }
}

/// The grammar of the outputs that are laid out, and its uses of terminals with conditions: those of `looks`, and
/// indentations.
///
/// # Errors
///
/// [`GrammarError::Syntax`] for brackets or blocks that do not end in their rule and for a newline terminal that has
/// no columns, [`GrammarError::Empty`], and the limits of automata and nodes.
pub(crate) fn resolve(
    grammar: &Grammar,
    mut looks: Looks,
    layout: &Layout,
    limits: &GrammarLimits,
    location: impl Fn(usize) -> Location,
) -> Result<(Grammar, Looks), GrammarError> {
    let refuse = |construct: String, way_out: &'static str| {
        let kind = SyntaxErrorKind::Unsupported { construct, way_out };
        GrammarError::from(SyntaxError { kind, location: location(layout.at) })
    };
    let newline = match grammar.terminal(layout.newline) {
        Terminal::Automaton(dfa) => dfa,
        _ => {
            let way_out = "let it be a line feed and any number of blanks, as `/(\\r?\\n[ \\t]*)+/`";
            return Err(refuse("a newline terminal with one text".to_owned(), way_out));
        }
    };
    let columns = Columns::new(newline, ignored(grammar, layout), layout.tab, limits.columns, &limits.regex);
    let columns = columns.map_err(|trouble| match trouble {
        Trouble::NoLineFeed => {
            let way_out = "let it be a line feed and any number of blanks, as `/(\\r?\\n[ \\t]*)+/`";
            refuse("a newline terminal without a line feed".to_owned(), way_out)
        }
        Trouble::Unlike => {
            let way_out = "let the same follow each of its line feeds, as in `/(\\r?\\n[ \\t]*)+/`";
            refuse("a newline terminal in which line feeds are not followed alike".to_owned(), way_out)
        }
        Trouble::Automaton(source) => {
            let name = grammar.terminal_name(layout.newline).to_owned();
            GrammarError::Terminal { name, location: Some(location(layout.at)), source }
        }
    })?;
    let facts = Facts::new(grammar, layout).map_err(|unbalanced| {
        let construct = format!("rule `{}`, which {}, beside `%declare`", unbalanced.rule, unbalanced.what);
        refuse(construct, "close each bracket, and end each block, in the alternative that opens it")
    })?;
    let made = Product::new(grammar, layout, &facts, &columns, limits, &mut looks).grammar()?;
    if !productive(&made)[made.body(made.start()).index()] {
        return Err(empty(limits));
    }
    Ok((made, looks))
}

/// The refusal of a grammar without an output.
fn empty(limits: &GrammarLimits) -> GrammarError {
    let most = limits.columns;
    let reason = format!(
        "no output is laid out as its rules demand, with columns up to {most} (GrammarLimits::columns)"
    );
    GrammarError::Empty { reason }
}

/// The ignored text.
enum Ignoring<'g> {
    Nothing,
    /// Any text of an automaton, or none.
    Automaton(&'g Dfa),
    Other,
}

fn ignored<'g>(grammar: &'g Grammar, layout: &Layout) -> Ignoring<'g> {
    match grammar.expr(layout.ignored) {
        Expr::Empty => Ignoring::Nothing,
        Expr::Repeat { item, min: 0, max: Some(1) } => match grammar.expr(item) {
            Expr::Terminal(terminal) => match grammar.terminal(terminal) {
                Terminal::Automaton(dfa) => Ignoring::Automaton(dfa),
                _ => Ignoring::Other,
            },
            _ => Ignoring::Other,
        },
        _ => Ignoring::Other,
    }
}

//! A grammar without the texts that a vocabulary cannot write.
//!
//! The strings of JSON have characters up to U+10FFFF, and SmolLM2 has no token with the byte `f1`. So its strings are
//! those without the characters from U+40000 to U+7FFFF, whose escapes remain. Each terminal keeps the texts that are
//! put together of what tokens write ([`Alphabet`](unskew_trie::Alphabet)). A rule that needs a terminal without a text
//! is left out like one that never ends; where nothing is left, the grammar is refused.
//!
//! Tried instead: to refuse a grammar for one byte, as was done before. Nobody can leave a byte out of a JSON Schema.

use std::{borrow::Cow, collections::VecDeque, fmt, ops::RangeInclusive};

use unskew_automata::{Dfa, Limits, RegexError, StateId, dfa::DfaAlgebra};
use unskew_grammar::{
    Expr, Grammar, GrammarError, GrammarLimits, RuleId, Terminal, TerminalId, kit::terminal::reading::Scan,
};
use unskew_trie::{ByteSet, TokenTrie};

/// The characters of a grammar that the tokens of a vocabulary do not write. No output has them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeftOut {
    /// The terminals that may have such a character.
    pub terminals: Vec<String>,
    /// The characters, in ascending order.
    pub characters: Vec<RangeInclusive<char>>,
}

impl LeftOut {
    /// What tokens do not write of the characters of `bytes`, which `terminals` have; `None`: they write all. O(n) for
    /// the characters of Unicode.
    pub fn new(terminals: Vec<String>, bytes: &ByteSet, trie: &TokenTrie) -> Option<Self> {
        let characters = trie.alphabet().unwritten(bytes);
        (!characters.is_empty()).then_some(Self { terminals, characters })
    }
}

/// Some of the ranges: `U+40000 to U+7FFFF, U+B5 and 12 other ranges`.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        for (index, range) in self.characters.iter().take(SHOWN).enumerate() {
            let (first, last) = (u32::from(*range.start()), u32::from(*range.end()));
            write!(f, "{}U+{first:04X}", if index > 0 { ", " } else { "" })?;
            if first < last {
                write!(f, " to U+{last:04X}")?;
            }
        }
        match self.characters.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} other ranges"),
        }
    }
}

/// The grammar of the texts that tokens write, and the terminals that have lost some of theirs.
///
/// # Errors
///
/// As [`Grammar::within`].
pub(crate) fn written<'g>(
    grammar: &'g Grammar,
    trie: &TokenTrie,
    limits: &GrammarLimits,
) -> Result<(Cow<'g, Grammar>, Vec<TerminalId>), GrammarError> {
    let alphabet = trie.alphabet();
    if alphabet.is_complete() || grammar.terminals().all(|of| is_written(grammar.terminal(of), trie)) {
        return Ok((Cow::Borrowed(grammar), Vec::new()));
    }
    // Rewriting has left terminals that no rule uses.
    let mut is_used = vec![false; grammar.terminals().len()];
    for expr in grammar.expression_ids() {
        if let Expr::Terminal(terminal) = grammar.expr(expr) {
            is_used[terminal.index()] = true;
        }
    }
    let Some(language) = language(trie) else {
        return Err(GrammarError::Empty { reason: "no token of the vocabulary has a text".to_owned() });
    };
    let mut changed = Vec::new();
    let made = grammar.within_each(&language, limits, |terminal, made| {
        if is_used[terminal.index()] && made != Some(grammar.terminal(terminal)) {
            changed.push(terminal);
        }
    })?;
    Ok((Cow::Owned(made), changed))
}

/// All texts that tokens write; `None` if there is no token of text.
fn language(trie: &TokenTrie) -> Option<Dfa> {
    // Its size is that of the vocabulary, whoever asks.
    let limits = Limits::default().nfa_size(u64::MAX).dfa_states(usize::MAX).dfa_bytes(usize::MAX);
    let mut dfas = DfaAlgebra::new(&limits.dfa_steps(u64::MAX));
    let units: Vec<Vec<u8>> = trie.alphabet().units().collect();
    let unit = dfas.literals(units).ok()?;
    dfas.repetition(&unit, 0, None).ok()
}

/// Whether all bytes of the terminal are tokens.
fn is_written(terminal: &Terminal, trie: &TokenTrie) -> bool {
    bytes_of(terminal).iter().all(|byte| trie.alphabet().has_byte(byte))
}

/// The bytes in texts of a terminal.
fn bytes_of(terminal: &Terminal) -> ByteSet {
    match terminal {
        Terminal::Literal(text) => text.iter().copied().collect(),
        other => Scan::of(other).map_or_else(ByteSet::default, |scan| scan.dfa.bytes().collect()),
    }
}

/// Terminals that have lost texts, and the bytes of all of them.
#[derive(Debug)]
pub(crate) struct Changed {
    terminals: Vec<String>,
    bytes: ByteSet,
}

impl Changed {
    pub(crate) fn new(grammar: &Grammar, changed: &[TerminalId]) -> Self {
        let mut bytes = ByteSet::default();
        changed.iter().for_each(|terminal| bytes.union(&bytes_of(grammar.terminal(*terminal))));
        let name = |terminal: &TerminalId| grammar.terminal_name(*terminal).to_owned();
        Self { terminals: changed.iter().map(name).collect(), bytes }
    }

    /// Looks at all characters of Unicode.
    pub(crate) fn left_out(&self, trie: &TokenTrie) -> Option<LeftOut> {
        let Self { terminals, bytes } = self;
        if terminals.is_empty() { None } else { LeftOut::new(terminals.clone(), bytes, trie) }
    }
}

/// The error of a grammar whose texts all need what tokens do not write.
pub(crate) fn nothing_written(
    grammar: &Grammar,
    changed: &[TerminalId],
    trie: &TokenTrie,
) -> Option<GrammarError> {
    let alphabet = trie.alphabet();
    let language = language(trie)?;
    let mut dfas = DfaAlgebra::new(&Limits::default());
    let mut needed = |terminal: &Terminal| -> Option<char> {
        let text = match terminal {
            Terminal::Literal(text) => text.to_vec(),
            Terminal::Automaton(dfa) => {
                let without = dfas.intersection(dfa, &language);
                (without == Err(RegexError::MatchesNothing)).then(|| shortest(dfa))?
            }
            _ => return None,
        };
        String::from_utf8(text).ok()?.chars().find(|character| !alphabet.has(*character))
    };
    let found = changed.iter().find_map(|terminal| Some((*terminal, needed(grammar.terminal(*terminal))?)));
    let (terminal, character) = found?;
    let rule = grammar.rules().find(|rule| uses(grammar, *rule, terminal));
    Some(GrammarError::Unwritten {
        terminal: grammar.terminal_name(terminal).to_owned(),
        character,
        location: rule.and_then(|rule| grammar.rule_location(rule)),
    })
}

/// A text of the fewest bytes.
fn shortest(dfa: &Dfa) -> Vec<u8> {
    let mut reached: Vec<Option<(StateId, u8)>> = vec![None; dfa.len()];
    let mut open = VecDeque::from([dfa.start()]);
    let mut text = Vec::new();
    while let Some(state) = open.pop_front() {
        if dfa.is_accepting(state) {
            let mut at = state;
            while let Some((before, byte)) = reached[at.index()].filter(|_| at != dfa.start()) {
                text.push(byte);
                at = before;
            }
            text.reverse();
            break;
        }
        for edge in dfa.edges(state) {
            let slot = &mut reached[edge.target.index()];
            if slot.is_none() && edge.target != dfa.start() {
                *slot = Some((state, *edge.bytes.start()));
                open.push_back(edge.target);
            }
        }
    }
    text
}

/// Whether the body of a rule has the terminal.
fn uses(grammar: &Grammar, rule: RuleId, terminal: TerminalId) -> bool {
    let mut open = vec![grammar.body(rule)];
    while let Some(expr) = open.pop() {
        match grammar.expr(expr) {
            Expr::Terminal(found) if found == terminal => return true,
            Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts),
            Expr::Repeat { item, .. } => open.push(item),
            Expr::Empty | Expr::Terminal(_) | Expr::Rule(_) | Expr::Unordered(_) => {}
        }
    }
    false
}

//! Terminals that look around or have lazy repetitions.
//!
//! # Meaning
//!
//! A terminal is one regex, as in Lark: the regex of a terminal in it is a part of it, and `|` prefers the longest
//! alternative, as Lark sorts them. A text of the terminal is one that Python's `re.match` takes as a whole:
//!
//! - If the regex has a lazy repetition, the match that an engine with backtracking finds first counts, and no other:
//!   `"\"" /.*?/ "\""` ends at the first quote. Alternatives inside a regex count in their order then.
//! - Else every match counts, as for all other terminals. There is no lexer that would take the longest.
//! - A look-around is a condition on the text of the whole output before or after its place. Inside a terminal it is
//!   decided with the terminal; a condition that reaches beyond its border is a condition on the text around it, which
//!   [`looks`](crate::looks) enforces. Ignored text counts. A control token has no text.
//! - `^` and `$` are the beginning and the end of the output, and under the flag `m` of a line. `$` is also before a
//!   newline at the end, as in Python.
//!
//! # Method
//!
//! Terminals without such constructs do not come here. The others are kept as patterns until they are used, because
//! the order of matches and the text around are facts of the whole terminal. The operands of `&`, `~` and `-`, and of
//! `[lazy]`, are languages; a condition that reaches beyond an operand is an error.
//!
//! Tried instead: to make a lazy repetition the shortest text of its terminal (`[lazy]`). It agrees for a repetition
//! that is followed by the end, and not for `(a|b)*?c|d*`, or where a look-behind refuses the first end.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{
    Dfa, Dialect, Limits, Pattern, RegexError,
    dfa::{InContext, PatternId, Patterns, Reading},
};
use unskew_grammar::GrammarError;

use crate::syntax::{
    lower::regular::{Regular, Regulars},
    tree::NodeId,
};

/// The patterns of terminals.
pub(crate) struct Looking {
    patterns: Patterns,
    /// By pattern of a regex in the text; `None` if it is a plain one.
    read: HashMap<(String, Dialect), Option<PatternId>>,
    in_context: HashMap<PatternId, Arc<[InContext]>>,
    /// A word between two `\b`.
    word: Option<PatternId>,
    /// Constructs for [`explain`](crate::explain()): offset, construct and reason.
    pub(crate) notes: Vec<(usize, &'static str, &'static str)>,
}

/// A regex without any of these is plain.
const MARKS: [&str; 20] = [
    "(?=", "(?!", "(?<=", "(?<!", "(?>", "^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z", "*?", "+?", "??", "}?",
    "*+", "++", "?+", "}+",
];

impl Looking {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (read, in_context) = (HashMap::new(), HashMap::new());
        Self { patterns: Patterns::new(limits), read, in_context, word: None, notes: vec![] }
    }

    fn part(&mut self, part: &Regular) -> PatternId {
        match part {
            Regular::Pattern(pattern) => *pattern,
            Regular::Text(text) => self.patterns.text(text),
            Regular::Automaton(dfa) => self.patterns.automaton(Arc::clone(dfa)),
        }
    }

    fn parts(&mut self, parts: &[Regular]) -> Option<Vec<PatternId>> {
        let looks = parts.iter().any(|part| matches!(part, Regular::Pattern(_)));
        looks.then(|| parts.iter().map(|part| self.part(part)).collect())
    }

    pub(crate) fn repeat(&mut self, item: PatternId, min: u32, max: u32) -> Regular {
        let max = (max != u32::MAX).then_some(max);
        Regular::Pattern(self.patterns.repetition(item, min, max, true))
    }

    pub(crate) fn is_lazy(&self, pattern: PatternId) -> bool {
        self.patterns.is_lazy(pattern)
    }
}

impl Regulars<'_, '_> {
    /// The pattern of a regex at `node`, if it looks around or has lazy repetitions.
    pub(crate) fn looking(
        &mut self,
        node: NodeId,
        regex: Pattern<'_>,
    ) -> Result<Option<Regular>, GrammarError> {
        if !MARKS.iter().any(|mark| regex.text.contains(mark)) {
            return Ok(None);
        }
        let key = (regex.text.to_owned(), regex.dialect);
        if let Some(known) = self.looking.read.get(&key) {
            return Ok(known.map(Regular::Pattern));
        }
        let read = self.looking.patterns.pattern(regex).map_err(|source| self.error(node, source))?;
        let (looks, lazy) = (self.looking.patterns.looks(read), self.looking.patterns.is_lazy(read));
        let at = self.tree.place(node);
        if looks {
            let why = "a condition on the text of the output around its place, also beyond the terminal";
            self.looking.notes.push((at, "look-around, an anchor or a word boundary", why));
        }
        if lazy {
            let is_last =
                ["*?", "+?", "??", "}?"].iter().any(|lazy| regex.text.trim_end_matches(')').ends_with(lazy));
            let why = match is_last {
                true => {
                    "nothing in the regex follows it, so it takes as little as it can, as Python's `re.match` does: without the last \
                     `?` it takes any number, and a text behind it ends it"
                }
                false => {
                    "the terminal ends at the first match of an engine with backtracking, as Python's `re.match` does"
                }
            };
            self.looking.notes.push((at, "a lazy repetition", why));
        }
        if looks && !lazy {
            self.word(node, regex, read)?;
        }
        let read = (looks || lazy).then_some(read);
        self.looking.read.insert(key, read);
        Ok(read.map(Regular::Pattern))
    }

    /// Finds the texts of `regex`, which is `read`, if it is a word between two `\b`: then its conditions are those
    /// of any other word. A grammar with a hundred keywords has one pair of conditions, and not a hundred to compute.
    fn word(&mut self, node: NodeId, regex: Pattern<'_>, read: PatternId) -> Result<(), GrammarError> {
        let Pattern { text: regex, dialect } = regex;
        let flags =
            regex.strip_prefix("(?").and_then(|rest| rest.split_once(')')).map_or("", |(flags, _)| flags);
        let flags = if flags.bytes().all(|flag| b"imsx".contains(&flag)) { flags } else { "" };
        let begin = if flags.is_empty() { 0 } else { flags.len() + 3 };
        let inside = regex[begin..].strip_prefix(r"\b").and_then(|rest| rest.strip_suffix(r"\b"));
        let is_simple = |inside: &&str| {
            !inside.is_empty()
                && !inside.starts_with(['*', '+', '?'])
                && !inside.ends_with('\\')
                && !inside.contains("(?")
                && !inside.contains(['|', '#'])
                && !MARKS.iter().any(|mark| inside.contains(mark))
        };
        let Some(inside) = inside.filter(is_simple) else { return Ok(()) };
        let text = format!("{}{inside}", &regex[..begin]);
        let text = self.pattern(node, dialect.pattern(&text))?;
        let text = self.automaton(node, text)?;
        for words in [r"(?s)\w.*", r"(?s).*\w"] {
            let words = self.pattern(node, dialect.pattern(words))?;
            let words = self.automaton(node, words)?;
            if !matches!(self.builder.difference(&text, &words), Err(RegexError::MatchesNothing)) {
                return Ok(());
            }
        }
        let other = match self.looking.word {
            Some(known) => known,
            None => {
                let other = self.looking.patterns.pattern(dialect.pattern(r"\bA\b"));
                *self.looking.word.insert(other.map_err(|source| self.error(node, source))?)
            }
        };
        let conditions = self.in_context(node, other)?;
        if let [one] = &conditions[..] {
            let mut made = one.clone();
            made.text = text;
            self.looking.in_context.insert(read, Arc::new([made]));
        }
        Ok(())
    }

    pub(crate) fn looking_sequence(&mut self, parts: &[Regular]) -> Option<Regular> {
        let parts = self.looking.parts(parts)?;
        Some(Regular::Pattern(self.looking.patterns.concatenation(&parts)))
    }

    pub(crate) fn looking_choice(&mut self, parts: &[Regular]) -> Option<Regular> {
        let mut parts = self.looking.parts(parts)?;
        let patterns = &mut self.looking.patterns;
        parts.sort_by_key(|part| {
            let (least, most) = patterns.lengths(*part);
            std::cmp::Reverse((most.unwrap_or(u32::MAX), least))
        });
        Some(Regular::Pattern(patterns.alternation(&parts)))
    }

    /// The texts of `pattern`, used at `node`, with conditions on the text around them: at least one.
    pub(crate) fn in_context(
        &mut self,
        node: NodeId,
        pattern: PatternId,
    ) -> Result<Arc<[InContext]>, GrammarError> {
        if let Some(known) = self.looking.in_context.get(&pattern) {
            return Ok(Arc::clone(known));
        }
        let patterns = &self.looking.patterns;
        let reading = if patterns.is_lazy(pattern) { Reading::First } else { Reading::Any };
        let made = self.builder.in_context(patterns, pattern, reading);
        let made =
            made.and_then(|made| if made.is_empty() { Err(RegexError::MatchesNothing) } else { Ok(made) });
        let made: Arc<[InContext]> = made.map_err(|source| self.error(node, source))?.into();
        for one in &*made {
            let parts = [one.before.as_ref(), Some(&one.text), one.after.as_ref()];
            let bytes = parts.into_iter().flatten().map(|dfa| dfa.memory_usage()).sum();
            self.count(node, bytes)?;
        }
        self.looking.in_context.insert(pattern, Arc::clone(&made));
        Ok(made)
    }

    /// The language of `pattern`, which must not depend on the text around it.
    pub(crate) fn without_context(
        &mut self,
        node: NodeId,
        pattern: PatternId,
    ) -> Result<Arc<Dfa>, GrammarError> {
        let made = self.in_context(node, pattern)?;
        match &made[..] {
            [InContext { before: None, text, after: None, .. }] => Ok(Arc::clone(text)),
            _ => {
                let construct =
                    "look-around beyond an operand of `&`, `~` or `-`, a lazy rule or a budget of tokens,";
                let way_out = "use the terminal in a rule, or write which characters may stand around it";
                Err(self.unsupported(node, construct.to_owned(), way_out))
            }
        }
    }
}

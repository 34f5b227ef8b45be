//! The terminals of a grammar, each with those of its texts alone that a regular language has: strings of JSON without some texts in them,
//! where each string is a terminal.
//!
//! Tried instead: the words of a grammar that a regular language has. Its rules are those of the grammar for each pair of states, a thousand
//! times as many, and a condition on strings does not need it.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::{Dfa, DfaAlgebra, RegexError};

use super::data::{Grammar, Terminal, TerminalId};
use crate::{
    Difference, GrammarError, GrammarLimits,
    terminal::remaining::{MANY, Remaining},
};

impl Grammar {
    /// The same grammar with those texts of each terminal alone that `language` has. Tokens stay as they are. A terminal whose texts all are
    /// in the language stays the same one, and shares its subterminal trees.
    ///
    /// Cost: O(n m) for n states of all terminals and m of the language; a bounded number of units becomes an automaton where some of its
    /// texts go.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Terminal`] for an automaton that passes a limit, and [`GrammarError::TooFewLeft`] where texts that may not come twice
    /// would run out. That no text at all is left shows when the grammar is compiled.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let limits = GrammarLimits::default();
    /// let grammar = Grammar::from_gbnf(r#"root ::= "aa" | "ab" "aa""#, &limits)?;
    /// let within = grammar.within(&Dfa::from_pattern("a*", &limits.regex)?, &limits)?;
    /// let words = within.regular(&limits.regex)?;
    /// assert!(words.accepts(b"aa") && !words.accepts(b"abaa"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(&self, language: &Dfa, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        let mut within =
            Within { grammar: self, language, dfas: DfaAlgebra::new(&limits.regex), known: HashMap::new() };
        self.with_terminals(|terminal| within.terminal(terminal))
    }
}

/// Automata with their narrowed ones; `None` where nothing is left.
type Known = HashMap<*const Dfa, (Arc<Dfa>, Option<Arc<Dfa>>)>;

struct Within<'a> {
    grammar: &'a Grammar,
    language: &'a Dfa,
    dfas: DfaAlgebra,
    known: Known,
}

impl Within<'_> {
    fn terminal(&mut self, terminal: TerminalId) -> Result<Option<Terminal>, GrammarError> {
        let grammar = self.grammar;
        let name = || grammar.terminal_name(terminal).to_owned();
        let of = |source| GrammarError::Terminal { name: name(), location: None, source };
        let old = grammar.terminal(terminal);
        Ok(match old {
            Terminal::Literal(text) => self.language.accepts(text).then(|| old.clone()),
            Terminal::Automaton(dfa) => self.automaton(dfa).map_err(of)?.map(Terminal::Automaton),
            Terminal::Difference(difference) => {
                let Some(base) = self.automaton(difference.base()).map_err(of)? else { return Ok(None) };
                Difference::new(base, difference.texts())
                    .map(|difference| Terminal::Difference(Arc::new(difference)))
            }
            Terminal::Distinct(difference) => {
                let Some(base) = self.automaton(difference.base()).map_err(of)? else { return Ok(None) };
                if Arc::ptr_eq(&base, difference.base()) {
                    return Ok(Some(old.clone()));
                }
                // A grammar counts on a number of texts, which is smaller now.
                if Remaining::new(&base).of(base.start()) != MANY {
                    return Err(GrammarError::TooFewLeft { name: name() });
                }
                Difference::new(base, difference.texts())
                    .map(|difference| Terminal::Distinct(Arc::new(difference)))
            }
            Terminal::BoundedRepetition(repetition) => {
                let (min, max) = repetition.bounds();
                // Where any number of units is within the language, so is this one, and no automaton of it is needed.
                let any = repetition.made(&mut self.dfas, 0, None).map_err(of)?;
                if self.dfas.difference(&any, self.language) == Err(RegexError::MatchesNothing) {
                    return Ok(Some(old.clone()));
                }
                let all = repetition.made(&mut self.dfas, min, max).map_err(of)?;
                self.automaton(&Arc::new(all)).map_err(of)?.map(Terminal::Automaton)
            }
            Terminal::BoundedLength(length) => {
                // Where all texts of the automaton are within the language, so are these.
                if self.dfas.difference(length.dfa(), self.language) == Err(RegexError::MatchesNothing) {
                    return Ok(Some(old.clone()));
                }
                let all = length.made(&mut self.dfas).map_err(of)?;
                self.automaton(&Arc::new(all)).map_err(of)?.map(Terminal::Automaton)
            }
            Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => {
                Some(old.clone())
            }
        })
    }

    fn automaton(&mut self, dfa: &Arc<Dfa>) -> Result<Option<Arc<Dfa>>, RegexError> {
        if let Some((_, known)) = self.known.get(&Arc::as_ptr(dfa)) {
            return Ok(known.clone());
        }
        let made = match self.dfas.intersection(dfa, self.language) {
            Ok(made) if made == **dfa => Some(Arc::clone(dfa)),
            Ok(made) => Some(Arc::new(made)),
            Err(RegexError::MatchesNothing) => None,
            Err(error) => return Err(error),
        };
        self.known.insert(Arc::as_ptr(dfa), (Arc::clone(dfa), made.clone()));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(grammar: &Grammar, pattern: &str) -> Result<Grammar, GrammarError> {
        let limits = GrammarLimits::default();
        grammar.within(&Dfa::from_pattern(pattern, &limits.regex).unwrap(), &limits)
    }

    fn grammar(of: impl FnOnce(&mut crate::GrammarBuilder) -> crate::ExprId) -> Grammar {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let (start, body) = (builder.rule("start"), of(&mut builder));
        builder.define(start, body);
        builder.build(start).unwrap()
    }

    #[test]
    fn each_kind_of_terminal() {
        let limits = GrammarLimits::default().regex;
        let dfa = |pattern: &str| Arc::new(Dfa::from_pattern(pattern, &limits).unwrap());
        let one = grammar(|builder| {
            let parts = [
                builder.literal("ab"),
                builder.literal("cb"),
                builder.automaton("word", dfa("[a-c]{1,2}")),
                builder.difference("but", &dfa("[abc]d"), ["ad"]).unwrap(),
                builder.bounded_repetition("repetition", "<", &dfa("[ab]"), ">", 2, Some(3)).unwrap(),
            ];
            builder.choice(parts)
        });
        let words = within(&one, "(?s:[^b]*)").unwrap().regular(&limits).unwrap();
        for (text, expected) in [
            ("ab", false),
            ("cb", false),
            ("ac", true),
            ("b", false),
            ("cd", true),
            ("ad", false),
            ("bd", false),
            ("<aa>", true),
            ("<ab>", false),
            ("<a>", false),
            ("<aaaa>", false),
        ] {
            assert_eq!(words.accepts(text.as_bytes()), expected, "{text}");
        }
        // All of their texts are in the language: the same terminals.
        let same = within(&one, "(?s:[^x]*)").unwrap();
        for (left, right) in one.terminals().zip(same.terminals()) {
            assert_eq!(one.terminal(left), same.terminal(right));
        }
        assert!(matches!(within(&one, "x").unwrap().regular(&limits), Err(GrammarError::Empty { .. })));
    }

    #[test]
    fn texts_that_may_not_come_twice_do_not_run_out() {
        let limits = GrammarLimits::default().regex;
        let of = |pattern: &str, most: Option<u32>| {
            grammar(|builder| {
                let dfa = Arc::new(Dfa::from_pattern(pattern, &limits).unwrap());
                let item = builder.distinct("item", &dfa, [""; 0], most).unwrap();
                builder.repeat(item, 0, most)
            })
        };
        assert!(within(&of("[ab]+", None), "a*").is_ok());
        assert!(matches!(within(&of("[ab]", Some(2)), "a*"), Err(GrammarError::TooFewLeft { .. })));
        assert!(within(&of("[ab]", Some(2)), "[ab]*").is_ok());
    }
}

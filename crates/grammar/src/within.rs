//! The terminals of a grammar, each with those of its texts alone that a regular language has: strings of JSON
//! without some texts in them, where each string is a terminal.
//!
//! Tried instead: the words of a grammar that a regular language has. Its rules are those of the grammar for each
//! pair of states, a thousand times as many, and a condition on strings does not need it.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::{Dfa, RegexError, dfa::DfaAlgebra};

use crate::{
    CountedUnits, Difference, GrammarError, GrammarLimits,
    data::{Grammar, Terminal, TerminalId},
    terminal::{
        counted::Units,
        remaining::{MANY, Remaining},
    },
};

impl Grammar {
    /// The same grammar with those texts of each terminal alone that `language` has. Tokens stay as they are. A
    /// terminal whose texts all are in the language stays the same one, and shares its subterminal trees.
    ///
    /// Cost: O(n m) for n states of all terminals and m of the language; a bounded number of units becomes an
    /// automaton where some of its texts go, unless the language tells units apart.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Terminal`] for an automaton that passes a limit, and [`GrammarError::TooFewLeft`] where texts
    /// that may not come twice would run out. That no text at all is left shows when the grammar is compiled.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammar::GrammarLimits;
    /// use unskew_notation::from_gbnf;
    ///
    /// let limits = GrammarLimits::default();
    /// let grammar = from_gbnf(r#"root ::= "aa" | "ab" "aa""#, &limits)?;
    /// let within = grammar.within(&Dfa::from_pattern("a*", &limits.regex)?, &limits)?;
    /// let words = within.regular(&limits.regex)?;
    /// assert!(words.accepts(b"aa") && !words.accepts(b"abaa"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(&self, language: &Dfa, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        self.within_each(language, limits, |_, _| ())
    }

    /// The same after other grammars within the same language, whose automata are not narrowed again.
    ///
    /// # Errors
    ///
    /// As for [`within`](Self::within).
    #[doc(hidden)]
    pub fn within_known(
        &self,
        language: &Dfa,
        limits: &GrammarLimits,
        known: &mut Narrowed,
    ) -> Result<Self, GrammarError> {
        self.narrowed(language, limits, known, |_, _| ())
    }

    /// The same; `each` is told what every terminal has become.
    #[doc(hidden)]
    pub fn within_each(
        &self,
        language: &Dfa,
        limits: &GrammarLimits,
        each: impl FnMut(TerminalId, Option<&Terminal>),
    ) -> Result<Self, GrammarError> {
        self.narrowed(language, limits, &mut Narrowed::default(), each)
    }

    fn narrowed(
        &self,
        language: &Dfa,
        limits: &GrammarLimits,
        known: &mut Narrowed,
        mut each: impl FnMut(TerminalId, Option<&Terminal>),
    ) -> Result<Self, GrammarError> {
        let (dfas, known) = (DfaAlgebra::new(&limits.regex), &mut known.0);
        let mut within = Within { grammar: self, language, dfas, known };
        self.with_terminals(|terminal| {
            within.terminal(terminal).inspect(|made| each(terminal, made.as_ref()))
        })
    }
}

/// Automata with their narrowed ones; `None` where nothing is left.
type Known = HashMap<*const Dfa, (Arc<Dfa>, Option<Arc<Dfa>>)>;

/// The automata of several grammars, and what one language has of each.
#[derive(Debug, Default)]
pub struct Narrowed(Known);

struct Within<'a> {
    grammar: &'a Grammar,
    language: &'a Dfa,
    dfas: DfaAlgebra,
    known: &'a mut Known,
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
                let remaining = Arc::new(Remaining::new(&base));
                if remaining.of(base.start()) != MANY {
                    return Err(GrammarError::TooFewLeft { name: name() });
                }
                Difference::new(base, difference.texts())
                    .map(|difference| Terminal::Distinct(Arc::new(difference.counted(&remaining))))
            }
            Terminal::Counted(counted) => {
                // Where any number of units is within the language, so is this one, and no automaton of it is needed.
                if self.dfas.difference(counted.dfa(), self.language) == Err(RegexError::MatchesNothing) {
                    return Ok(Some(old.clone()));
                }
                if let Some(made) = self.unit_by_unit(counted).map_err(of)? {
                    return Ok(Some(Terminal::Counted(Arc::new(made))));
                }
                let all = counted.made(&mut self.dfas).map_err(of)?;
                self.automaton(&Arc::new(all)).map_err(of)?.map(Terminal::Automaton)
            }
            Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => {
                Some(old.clone())
            }
        })
    }

    /// All texts of fewer units, if the language says of each unit by itself whether it may stand in the text: any
    /// number of those that it has is within, and no text with another one is.
    fn unit_by_unit(&mut self, counted: &CountedUnits) -> Result<Option<CountedUnits>, RegexError> {
        let (unit, (open, close)) = (counted.unit(), counted.marks());
        if !counted.is_all() {
            return Ok(None);
        }
        let none = |made: Result<Dfa, RegexError>| match made {
            Err(RegexError::MatchesNothing) => Ok(None),
            made => made.map(Some),
        };
        let Some(units) = none(self.dfas.intersection(unit, self.language))? else { return Ok(None) };
        let (Some(others), false) = (none(self.dfas.difference(unit, &units))?, open.is_empty()) else {
            return Ok(None);
        };
        let (open_text, close_text) = (self.dfas.literals([open])?, self.dfas.literals([close])?);
        let (many, any) = (self.dfas.repetition(&units, 0, None)?, self.dfas.repetition(unit, 0, None)?);
        let with_units = self.dfas.concatenation([&open_text, &many, &close_text])?;
        let with_others = self.dfas.concatenation([&open_text, &many, &others, &any, &close_text])?;
        let is_told = none(self.dfas.difference(&with_units, self.language))?.is_none()
            && none(self.dfas.intersection(&with_others, self.language))?.is_none();
        let (min, max) = counted.bounds();
        let made = is_told.then(|| {
            let units = Units::all(open, &Arc::new(units), close)?;
            CountedUnits::new(Arc::new(units), min, max)
        });
        Ok(made.and_then(Result::ok))
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

    /// Compared with automata: where the language tells units apart, and where it counts them.
    #[test]
    fn large_repetitions_stay_repetitions() {
        let limits = GrammarLimits::default().regex;
        let unit = Arc::new(Dfa::from_pattern("a|b|c", &limits).unwrap());
        let of = |max: u32| {
            grammar(|builder| {
                builder.bounded_repetition("repetition", "<", &unit, ">", 1, Some(max)).unwrap()
            })
        };
        for (pattern, is_counted) in
            [("(?s:[^b]*)", true), ("<?[ab]*>?", true), ("(?s:(..)*)", false), ("(?s:[^b]*b?[^b]*)", false)]
        {
            let made = within(&of(3), pattern).unwrap();
            let kinds = made.terminals().map(|terminal| made.terminal(terminal));
            assert_eq!(
                kinds.filter(|kind| matches!(kind, Terminal::Counted(_))).count(),
                usize::from(is_counted),
                "{pattern}"
            );
            let both = DfaAlgebra::new(&limits).intersection(
                &Dfa::from_pattern("<[abc]{1,3}>", &limits).unwrap(),
                &Dfa::from_pattern(pattern, &limits).unwrap(),
            );
            assert_eq!(made.regular(&limits).unwrap(), both.unwrap(), "{pattern}");
        }
        assert!(within(&of(100_000_000), "(?s:[^b]*)").is_ok());
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

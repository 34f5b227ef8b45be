//! Terminals of counted units, in the builder of a grammar: see [`CountedUnits`].

use std::sync::Arc;

use unskew_automata::Dfa;

use crate::{
    CountedUnits, ExprId, GrammarError, builder::GrammarBuilder, data::Terminal, terminal::counted::Units,
};

impl GrammarBuilder {
    /// `open`, then at least `min` and at most `max` units, then `close`. Without `max` the number is
    /// unbounded. `name` is for messages.
    ///
    /// The boundaries must be visible byte by byte: no text of `unit` is a proper prefix of another, and no
    /// text of `unit` begins with the first byte of `close`.
    ///
    /// The language is the same as that of its automaton, which has a copy of the unit for each repetition.
    /// This form takes the same memory for all bounds, and all bounds share their subterminal trees.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Uncountable`] if a boundary is not visible, a unit is empty or has more than 256
    /// states, or `max` is less than `min`.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammar::{Grammar, GrammarLimits};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let character = Arc::new(Dfa::from_pattern(r#"[^"\\]|\\."#, &Limits::default())?);
    /// let body = builder.bounded_repetition("string", "\"", &character, "\"", 1, Some(500))?;
    /// let start = builder.rule("start");
    /// builder.define(start, body);
    /// assert!(builder.build(start).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bounded_repetition(
        &mut self,
        name: &str,
        open: impl AsRef<[u8]>,
        unit: &Arc<Dfa>,
        close: impl AsRef<[u8]>,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, GrammarError> {
        let (open, close) = (open.as_ref(), close.as_ref());
        let known = self.units.iter().find(|units| units.are(open, unit, close)).cloned();
        let units = match known {
            Some(known) => Ok(known),
            None => Units::all(open, unit, close).map(|units| {
                self.units.push(Arc::new(units));
                Arc::clone(&self.units[self.units.len() - 1])
            }),
        };
        self.bounded(name, units, min, max)
    }

    /// The texts of `dfa` with at most `max` texts of `unit` between `open` and `close`. All texts of `dfa` consist
    /// of units between these marks. Without `close` they are units up to their end, and no text goes on where one
    /// ends: so a mark of several characters that a unit may begin like is counted too, as units at the end of each
    /// text. The size of the terminal does not depend on `max`. Of a unit and the marks,
    /// [`bounded_repetition`](Self::bounded_repetition) has the conditions; and a state of `dfa` is either between
    /// units or inside of one. Cost: O(b) for b bytes on the edges of `dfa`.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Uncountable`] if a condition does not hold, or if every text is longer.
    pub fn bounded_length(
        &mut self,
        name: &str,
        dfa: &Arc<Dfa>,
        open: impl AsRef<[u8]>,
        unit: &Arc<Dfa>,
        close: impl Into<Option<u8>>,
        max: u32,
    ) -> Result<ExprId, GrammarError> {
        let units = Units::of(dfa, open.as_ref(), unit, close.into()).map(Arc::new);
        self.bounded(name, units, 0, Some(max))
    }

    fn bounded(
        &mut self,
        name: &str,
        units: Result<Arc<Units>, &'static str>,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, GrammarError> {
        let made = units.and_then(|units| CountedUnits::new(units, min, max));
        let made = made.map_err(|reason| GrammarError::Uncountable { name: name.to_owned(), reason })?;
        Ok(self.terminal(Terminal::Counted(Arc::new(made)), || name.to_owned()))
    }
}

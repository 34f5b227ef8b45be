//! A grammar without recursion as one automaton.
//!
//! Such a grammar is a regular expression with names. As an automaton it can be used with everything that is built
//! for regular languages, in particular with the tokenizer's own token sequences. Rules are visited in the order in
//! which they call each other, each is converted once, and the stack is explicit, so that depth costs memory alone.
//!
//! A rule that calls itself only at its end is regular too. It is not detected: a list is written as a repetition.

use std::rc::Rc;

use unskew_automata::{Dfa, Limits, RegexError, dfa::DfaAlgebra};

use crate::{Expr, ExprId, Grammar, GrammarError, RuleId, Terminal};

/// A language; `None` if it is empty.
type Language = Option<Rc<Dfa>>;

enum Step {
    Visit(ExprId),
    /// Builds the automaton, after the automata of the parts.
    Make(ExprId),
}

impl Grammar {
    /// Builds the automaton of the grammar's language, if no rule calls itself.
    ///
    /// Cost: the sum over the rules of the size of each rule's automaton, which contains the automata of the rules
    /// that it calls. `limits` bound each automaton, and [`dfa_steps`](Limits::dfa_steps) bounds the work for all.
    ///
    /// # Errors
    ///
    /// [`GrammarError::NotRegular`] for a rule that calls itself, for members in any order, for distinct
    /// terminals, for control tokens, and for an automaton that exceeds a limit. [`GrammarError::Empty`] if
    /// the language is empty.
    pub fn regular(&self, limits: &Limits) -> Result<Dfa, GrammarError> {
        let mut builder = DfaAlgebra::new(limits);
        let mut made: Vec<Option<Language>> = vec![None; self.expressions()];
        let mut open: Vec<bool> = vec![false; self.rules().len()];
        let mut inside: Vec<RuleId> = vec![self.start()];
        let mut steps = vec![Step::Visit(self.body(self.start()))];
        open[self.start().index()] = true;
        while let Some(step) = steps.pop() {
            match step {
                Step::Visit(expr) if made[expr.index()].is_some() => {}
                Step::Visit(expr) => {
                    steps.push(Step::Make(expr));
                    match self.expr(expr) {
                        Expr::Sequence(parts) | Expr::Choice(parts) => {
                            steps.extend(parts.iter().copied().map(Step::Visit));
                        }
                        Expr::Repeat { item, .. } => steps.push(Step::Visit(item)),
                        // A rule that consists of a call to itself has no text.
                        Expr::Rule(rule) if self.expr(self.body(rule)) == Expr::Rule(rule) => {
                            made[expr.index()] = Some(None);
                            steps.pop();
                        }
                        Expr::Rule(rule) => {
                            if std::mem::replace(&mut open[rule.index()], true) {
                                return Err(self.not_regular(rule, "calls itself"));
                            }
                            inside.push(rule);
                            steps.push(Step::Visit(self.body(rule)));
                        }
                        Expr::Empty | Expr::Terminal(_) => {}
                        Expr::Unordered(_) => {
                            let rule = inside.last().copied().unwrap_or(self.start());
                            return Err(self.not_regular(rule, "has members in any order"));
                        }
                    }
                }
                Step::Make(expr) => {
                    if let Expr::Rule(rule) = self.expr(expr) {
                        open[rule.index()] = false;
                        inside.pop();
                    }
                    let language = self.language(expr, &made, &mut builder).map_err(|error| match error {
                        Ok(error) => error,
                        Err(error) => {
                            let rule = inside.last().copied().unwrap_or(self.start());
                            self.not_regular(rule, &format!("is too large: {error}"))
                        }
                    })?;
                    made[expr.index()] = Some(language);
                }
            }
        }
        let whole = made[self.body(self.start()).index()].take().flatten();
        let whole = whole.ok_or_else(|| GrammarError::Empty { reason: "no rule ends".to_owned() })?;
        Ok(Rc::unwrap_or_clone(whole))
    }

    fn not_regular(&self, rule: RuleId, reason: &str) -> GrammarError {
        GrammarError::NotRegular { rule: self.rule_name(rule).to_owned(), reason: reason.to_owned() }
    }

    /// The language of an expression, from the languages of its parts.
    fn language(
        &self,
        expr: ExprId,
        made: &[Option<Language>],
        builder: &mut DfaAlgebra,
    ) -> Result<Language, Result<GrammarError, RegexError>> {
        let of = |part: &ExprId| made[part.index()].clone().flatten();
        let dfa = match self.expr(expr) {
            Expr::Empty => builder.pattern(""),
            Expr::Terminal(terminal) => match self.terminal(terminal) {
                Terminal::Literal(text) => builder.literals([text]),
                Terminal::Automaton(dfa) => return Ok(Some(Rc::new(Dfa::clone(dfa)))),
                Terminal::Difference(difference) => difference.made(builder),
                Terminal::Counted(counted) => counted.made(builder),
                Terminal::Distinct(_) => {
                    let name = self.terminal_name(terminal).to_owned();
                    let reason = "has distinct texts".to_owned();
                    return Err(Ok(GrammarError::NotRegular { rule: name, reason }));
                }
                Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => {
                    let name = self.terminal_name(terminal).to_owned();
                    let reason =
                        "is a token and no text (one that ends the output can be left out)".to_owned();
                    return Err(Ok(GrammarError::NotRegular { rule: name, reason }));
                }
            },
            Expr::Rule(rule) => return Ok(of(&self.body(rule))),
            Expr::Sequence(parts) => {
                let Some(parts) = parts.iter().map(of).collect::<Option<Vec<_>>>() else { return Ok(None) };
                builder.concatenation(parts.iter().map(|part| &**part))
            }
            Expr::Choice(parts) => {
                let parts: Vec<_> = parts.iter().filter_map(of).collect();
                if parts.is_empty() {
                    return Ok(None);
                }
                builder.union(parts.iter().map(|part| &**part))
            }
            Expr::Repeat { item, min, max } => match of(&item) {
                Some(item) => builder.repetition(&item, min, max),
                None if min > 0 => return Ok(None),
                None => builder.pattern(""),
            },
            Expr::Unordered(_) => return Ok(None),
        };
        dfa.map(|dfa| Some(Rc::new(dfa))).map_err(Err)
    }
}

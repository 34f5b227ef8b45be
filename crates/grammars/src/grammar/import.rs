//! Copies a grammar into another one, for example the schema of a tool's arguments into the text around a call, or
//! without what it does not use.

use super::{
    builder::GrammarBuilder,
    data::{Expr, Grammar},
};
use crate::{ExprId, GrammarError, GrammarLimits, RuleId};

impl GrammarBuilder {
    /// Returns an expression for the language of `grammar`, within the grammar being built. Its rules and
    /// expressions are copied, and equal terminals become one. Locations of rules are dropped, since they
    /// refer to another text. Text that `grammar` ignores between terminals stays in its rules.
    ///
    /// The imported grammar is a [scope](Self::scope): the texts of its distinct terminals are independent of
    /// the texts around it.
    ///
    /// Cost: O(n) for n rules and expressions.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let limits = GrammarLimits::default();
    /// let inner = Grammar::from_gbnf(r#"root ::= "[" root* "]""#, &limits)?;
    /// let mut builder = Grammar::builder(&limits);
    /// let (open, inner, close) = (builder.literal("<a>"), builder.import(&inner), builder.literal("</a>"));
    /// let body = builder.sequence([open, inner, close]);
    /// let start = builder.rule("start");
    /// builder.define(start, body);
    /// assert_eq!(builder.build(start)?.rules().count(), 3); // `start`, `root`, and one that calls it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import(&mut self, grammar: &Grammar) -> ExprId {
        self.import_parts(grammar).0
    }

    /// The same, with the new expression of each expression of `grammar`.
    pub(crate) fn import_parts(&mut self, grammar: &Grammar) -> (ExprId, Vec<ExprId>) {
        let rules: Vec<RuleId> = grammar.rules().map(|rule| self.rule(grammar.rule_name(rule))).collect();
        let of_rule = |rule: RuleId| rules[rule.index()];
        let mut expressions: Vec<ExprId> = Vec::with_capacity(grammar.expressions());
        for expr in grammar.expression_ids() {
            let made = match grammar.expr(expr) {
                Expr::Empty => self.empty(),
                Expr::Terminal(terminal) => {
                    self.known_terminal(grammar.terminal(terminal).clone(), grammar.terminal_name(terminal))
                }
                Expr::Rule(rule) => self.call(of_rule(rule)),
                // Parts precede their whole.
                Expr::Sequence(parts) => self.sequence(parts.iter().map(|part| expressions[part.index()])),
                Expr::Choice(parts) => self.choice(parts.iter().map(|part| expressions[part.index()])),
                Expr::Repeat { item, min, max } => self.repeat(expressions[item.index()], min, max),
                Expr::Unordered(unordered) => {
                    self.unordered_body(unordered.with_rules(|rule| Some(of_rule(rule))))
                }
            };
            expressions.push(made);
        }
        for rule in grammar.rules() {
            self.define(of_rule(rule), expressions[grammar.body(rule).index()]);
            if grammar.is_scope(rule) {
                self.scope(of_rule(rule));
            }
            self.captures_of(of_rule(rule), grammar, rule);
        }
        let whole = self.rule(grammar.rule_name(grammar.start()));
        let start = self.call(of_rule(grammar.start()));
        self.define(whole, start);
        self.scope(whole);
        (self.call(whole), expressions)
    }
}

impl Grammar {
    /// The same without the rules, expressions and terminals that the start rule does not reach. O(n) for n rules and
    /// expressions.
    ///
    /// # Errors
    ///
    /// [`GrammarError::TooManyNodes`].
    pub(crate) fn reached(&self, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        let (mut is_reached, mut rules) = (vec![false; self.expressions()], vec![false; self.rules().len()]);
        rules[self.start().index()] = true;
        let mut open = vec![self.body(self.start())];
        while let Some(expr) = open.pop() {
            if std::mem::replace(&mut is_reached[expr.index()], true) {
                continue;
            }
            let mut call =
                |rule: RuleId| (!std::mem::replace(&mut rules[rule.index()], true)).then(|| self.body(rule));
            match self.expr(expr) {
                Expr::Empty | Expr::Terminal(_) => {}
                Expr::Rule(rule) => open.extend(call(rule)),
                Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts),
                Expr::Repeat { item, .. } => open.push(item),
                Expr::Unordered(group) => open.extend(group.rules().filter_map(call)),
            }
        }
        let mut builder = Self::builder(limits);
        let made = self.rules().map(|rule| {
            let own = rules[rule.index()].then(|| builder.rule(self.rule_name(rule)))?;
            self.rule_location(rule).into_iter().for_each(|place| builder.locate(own, place));
            self.is_scope(rule).then(|| builder.scope(own));
            builder.captures_of(own, self, rule);
            Some(own)
        });
        let made: Vec<Option<RuleId>> = made.collect();
        let mut expressions: Vec<Option<ExprId>> = Vec::with_capacity(self.expressions());
        for expr in self.expression_ids() {
            if !is_reached[expr.index()] {
                expressions.push(None);
                continue;
            }
            let of =
                |part: &ExprId| expressions[part.index()].expect("the parts of what is reached are reached");
            let of_rule =
                |rule: RuleId| made[rule.index()].expect("the rules of what is reached are reached");
            let copy = match self.expr(expr) {
                Expr::Empty => builder.empty(),
                Expr::Terminal(terminal) => {
                    let copy = self.terminal(terminal).clone();
                    let copy = builder.known_terminal(copy, self.terminal_name(terminal));
                    if self.ignored() == Some(terminal) {
                        builder.ignore(copy);
                    }
                    copy
                }
                Expr::Rule(rule) => builder.call(of_rule(rule)),
                Expr::Sequence(parts) => builder.sequence(parts.iter().map(of)),
                Expr::Choice(parts) => builder.choice(parts.iter().map(of)),
                Expr::Repeat { item, min, max } => builder.repeat(of(&item), min, max),
                Expr::Unordered(group) => {
                    builder.unordered_body(group.with_rules(|rule| Some(of_rule(rule))))
                }
            };
            expressions.push(Some(copy));
        }
        for (rule, own) in self.rules().zip(&made) {
            if let Some(own) = own {
                builder.define(*own, expressions[self.body(rule).index()].expect("it is reached"));
            }
        }
        builder.build(made[self.start().index()].expect("the start is reached"))
    }
}

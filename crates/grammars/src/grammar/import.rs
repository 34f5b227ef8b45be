//! Copies a grammar into another one, for example the schema of a tool's arguments into the text around a call.

use super::{
    builder::GrammarBuilder,
    data::{Expr, Grammar},
};
use crate::{ExprId, RuleId};

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

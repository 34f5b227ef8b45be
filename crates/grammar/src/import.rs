//! Copies a grammar into another one, for example the schema of a tool's arguments into the text around a call, or
//! without what it does not use.

use unskew_core::ids::number;

use crate::{
    ExprId, GrammarError, GrammarLimits, RuleId,
    builder::GrammarBuilder,
    data::{Expr, Grammar, Rule},
};

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
    /// use unskew_grammar::{Grammar, GrammarLimits};
    /// use unskew_notation::from_gbnf;
    ///
    /// let limits = GrammarLimits::default();
    /// let inner = from_gbnf(r#"root ::= "[" root* "]""#, &limits)?;
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
    #[doc(hidden)]
    pub fn import_parts(&mut self, grammar: &Grammar) -> (ExprId, Vec<ExprId>) {
        let rules: Vec<RuleId> = grammar
            .rules()
            .map(|rule| {
                let made = self.rule_like(grammar, rule);
                self.rules[made.index()].location = None;
                made
            })
            .collect();
        let of_rule = |rule: RuleId| rules[rule.index()];
        let mut expressions: Vec<ExprId> = Vec::with_capacity(grammar.expressions());
        for expr in grammar.expression_ids() {
            let part = |part: ExprId| Some(expressions[part.index()]);
            expressions.push(self.copied(grammar, expr, part, |_, rule| Some(of_rule(rule))));
        }
        for rule in grammar.rules() {
            self.define(of_rule(rule), expressions[grammar.body(rule).index()]);
        }
        let whole = self.rule(grammar.rule_name(grammar.start()));
        let start = self.call(of_rule(grammar.start()));
        self.define(whole, start);
        self.scope(whole);
        (self.call(whole), expressions)
    }

    /// A rule with the name, the place, the scope and the captures of a rule of `grammar`, and no body yet.
    #[doc(hidden)]
    pub fn rule_like(&mut self, grammar: &Grammar, of: RuleId) -> RuleId {
        self.rules.push(Rule { body: None, ..grammar.rules[of.index()].clone() });
        RuleId::of(number(self.rules.len() - 1))
    }

    /// Makes `rule` no scope.
    #[doc(hidden)]
    pub fn unscoped(&mut self, rule: RuleId) {
        self.rules[rule.index()].is_scope = false;
    }

    /// `expr` of `grammar` as an expression here. `part` and `rule` have its parts and rules here; what has none has no
    /// text, and is left out.
    #[doc(hidden)]
    pub fn copied(
        &mut self,
        grammar: &Grammar,
        expr: ExprId,
        part: impl Fn(ExprId) -> Option<ExprId>,
        mut rule: impl FnMut(&mut Self, RuleId) -> Option<RuleId>,
    ) -> ExprId {
        let parts = |parts: &[ExprId]| parts.iter().filter_map(|of| part(*of)).collect::<Vec<_>>();
        match grammar.expr(expr) {
            Expr::Empty => self.empty(),
            Expr::Terminal(terminal) => {
                self.known_terminal(grammar.terminal(terminal).clone(), grammar.terminal_name(terminal))
            }
            Expr::Rule(callee) => {
                let callee = rule(self, callee).expect("what calls a rule without a text has none");
                self.call(callee)
            }
            Expr::Sequence(of) => self.sequence(parts(of)),
            Expr::Choice(of) => self.choice(parts(of)),
            Expr::Repeat { item, min, max } => match part(item) {
                Some(item) => self.repeat(item, min, max),
                // An item without a text, with `min` 0: only the empty text remains.
                None => self.empty(),
            },
            Expr::Unordered(group) => {
                let mut made = group.with_rules(|member| rule(self, member));
                if made.separator.is_none() && group.separator.is_some() {
                    made.max = Some(group.max.unwrap_or(1).min(1));
                }
                self.unordered_body(made)
            }
        }
    }
}

impl Grammar {
    /// The same without the rules, expressions and terminals that the start rule does not reach. O(n) for n rules and
    /// expressions.
    ///
    /// # Errors
    ///
    /// [`GrammarError::TooManyNodes`].
    #[doc(hidden)]
    pub fn reached(&self, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        self.kept(|_| true, limits)
    }

    /// The same without what the start rule does not reach through expressions for which `keeps` holds.
    pub(super) fn kept(
        &self,
        keeps: impl Fn(ExprId) -> bool,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        let (is_reached, used) = reach(self, &keeps);
        let mut builder = Self::builder(limits);
        let rules: Vec<Option<RuleId>> = self
            .rules()
            .map(|rule| is_reached[rule.index()].then(|| builder.rule_like(self, rule)))
            .collect();
        let mut made: Vec<Option<ExprId>> = vec![None; self.expressions()];
        for expr in self.expression_ids().filter(|expr| used[expr.index()]) {
            let rule = |rule: RuleId| rules[rule.index()].filter(|_| keeps(self.body(rule)));
            let new = builder.copied(self, expr, |part| made[part.index()], |_, of| rule(of));
            if matches!(self.expr(expr), Expr::Terminal(terminal) if self.ignored() == Some(terminal)) {
                builder.ignore(new);
            }
            made[expr.index()] = Some(new);
        }
        for (rule, new) in self.rules().zip(&rules) {
            if let Some(new) = new {
                builder.define(*new, made[self.body(rule).index()].expect("bodies of used rules are made"));
            }
        }
        builder.build(rules[self.start().index()].expect("the start is used"))
    }
}

/// By rule and by expression: whether it is reachable from the start through expressions that satisfy `enter`.
pub(super) fn reach(grammar: &Grammar, enter: impl Fn(ExprId) -> bool) -> (Vec<bool>, Vec<bool>) {
    let mut rules = vec![false; grammar.rules().len()];
    let mut expressions = vec![false; grammar.expressions()];
    rules[grammar.start().index()] = true;
    let mut open = vec![grammar.body(grammar.start())];
    while let Some(expr) = open.pop() {
        if !enter(expr) || std::mem::replace(&mut expressions[expr.index()], true) {
            continue;
        }
        match grammar.expr(expr) {
            Expr::Empty | Expr::Terminal(_) => {}
            Expr::Rule(rule) => {
                if !std::mem::replace(&mut rules[rule.index()], true) {
                    open.push(grammar.body(rule));
                }
            }
            Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts),
            Expr::Repeat { item, .. } => open.push(item),
            Expr::Unordered(group) => {
                // Members that only ways without a text allow are left out of the group, and not reached.
                let left = group.with_rules(|rule| enter(grammar.body(rule)).then_some(rule));
                for rule in left.rules() {
                    if !std::mem::replace(&mut rules[rule.index()], true) {
                        open.push(grammar.body(rule));
                    }
                }
            }
        }
    }
    (rules, expressions)
}

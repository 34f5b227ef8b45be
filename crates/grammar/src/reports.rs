//! Reports about outputs in a grammar under construction: names of parts, and temperatures.

use std::sync::Arc;

use crate::{
    builder::GrammarBuilder,
    data::{Origin, RuleId},
};

impl GrammarBuilder {
    /// Names the texts of `rule`, which `GrammarConstraint::captures` of `unskew-grammars` reports.
    pub fn capture(&mut self, rule: RuleId, name: impl Into<Arc<str>>) {
        self.rules[rule.index()].capture = Some(name.into());
    }

    /// Finds captures in the texts of `rule` by the rule from which it was rewritten.
    #[doc(hidden)]
    pub fn origin(&mut self, rule: RuleId, origin: Origin) {
        self.rules[rule.index()].origin = Some(origin);
    }

    /// Gives the texts of `rule` a temperature of the sampler, which
    /// `GrammarConstraint::temperature` of `unskew-grammars` reports.
    pub fn temperature(&mut self, rule: RuleId, temperature: f64) {
        self.rules[rule.index()].temperature = Some(temperature);
    }
}

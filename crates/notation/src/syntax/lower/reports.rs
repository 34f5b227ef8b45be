//! Definitions whose texts are named or have a temperature in reports about outputs.

use unskew_grammar::ExprId;

use super::Lowering;
use crate::syntax::tree::Definition;

impl Lowering<'_, '_> {
    /// `body`, or a rule for its texts where these have a name or a temperature in reports.
    pub(super) fn reported(&mut self, definition: usize, body: ExprId) -> ExprId {
        let Definition { name, at, .. } = self.tree.definitions[definition];
        let (capture, temperature) = (self.tree.captures.get(&at), self.tree.temperatures.get(&at));
        if capture.is_none() && temperature.is_none() {
            return body;
        }
        let rule = self.builder.rule(self.tree.name(name));
        if let Some(capture) = capture {
            self.builder.capture(rule, &**capture);
        }
        if let Some(temperature) = temperature {
            self.builder.temperature(rule, *temperature);
        }
        self.builder.define(rule, body);
        self.builder.call(rule)
    }
}

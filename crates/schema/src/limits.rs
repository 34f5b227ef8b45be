//! Every limit on the cost of a schema, in one place.

use unskew_automata::Limits;
use unskew_grammar::GrammarLimits;

/// Limits on reading and compiling a schema. As for [`SchemaOptions`](crate::SchemaOptions), start from the default
/// and set fields:
///
/// ```
/// let mut limits = unskew_schema::SchemaLimits::default();
/// limits.schema_bytes = 1 << 20;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// The length of the schema's text, in bytes, copies and referenced documents included. Default: 8 MiB.
    pub schema_bytes: usize,
    /// The nesting of arrays and objects in the schema's text. Default: 1,000.
    pub nest: usize,
    /// The number of sets of schemas that one value must satisfy together; each set becomes a rule. Default:
    /// 100,000.
    pub rules: usize,
    /// The number of branches of `anyOf`, `oneOf`, `if` and negations after they are multiplied out, over the whole
    /// schema, beyond one for each value of its text. Default: 50,000.
    pub alternatives: usize,
    /// The nesting of values in [indented](crate::Whitespace::Indent) output, where each level has its own rules. A
    /// path of schemas without repetition may be deeper. Default: 20.
    pub levels: u32,
    /// The number of conditions and names in all branches together, which bounds memory and time. The search for
    /// the paths to dynamic references has the same limit, in steps. Default: two million.
    pub carried: usize,
    /// The largest bound on items or properties that is written out; the parser counts up to larger bounds on items.
    /// Default: 4,096.
    pub count: u32,
    /// The largest bound on the length of a string. Default: 50 million.
    pub characters: u32,
    /// The number of digits of a number of the schema, written without an exponent. Default: 4,096.
    pub digits: u32,
    /// The number of classes of names in one object, by the patterns that they match. Default: 64.
    pub name_patterns: usize,
    /// The number of names of a finite pattern of `patternProperties` or `propertyNames` that become members of
    /// their own. If a pattern has more names, an object remembers the names that it has. Default: 1,000.
    pub names: u32,
    /// The number of states of one array or object after its counts, compared items and required members are
    /// multiplied out. Default: 4,096.
    pub products: usize,
    /// Limits for the automata of strings and numbers; [`dfa_steps`](Limits::dfa_steps) bounds the work of all
    /// automata together. Its `cancel` is not used: the [options](crate::SchemaOptions::cancel) have one. Default:
    /// those of [`GrammarLimits::regex`], with 100 million steps.
    pub automata: Limits,
    /// The memory of the tables of all automata together, in bytes. Default: 64 MiB.
    pub automata_bytes: usize,
    /// Limits for the grammar; only [`nodes`](GrammarLimits::nodes) and [`state_items`](GrammarLimits::state_items)
    /// are used. A value with more branches than a parser state can hold is refused, so that no output comes to a
    /// dead end. Default: two million nodes, 2^20 items, and masks of 2^40 steps.
    pub grammar: GrammarLimits,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        let mut grammar = GrammarLimits::default();
        grammar.nodes = 2_000_000;
        (grammar.state_items, grammar.mask_steps) = (1 << 20, 1 << 40);
        Self {
            schema_bytes: 8 << 20,
            nest: 1_000,
            rules: 100_000,
            alternatives: 50_000,
            levels: 20,
            carried: 2_000_000,
            count: 4_096,
            characters: 50_000_000,
            digits: 4_096,
            name_patterns: 64,
            names: 1_000,
            products: 4_096,
            automata: grammar.regex.clone().dfa_steps(100_000_000),
            automata_bytes: 64 << 20,
            grammar,
        }
    }
}

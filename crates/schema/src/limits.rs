//! Every bound on what a schema may cost, in one place.

use unskew_automata::Limits;
use unskew_grammars::GrammarLimits;

/// What reading and compiling a schema may cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaLimits {
    /// The length of the schema's text, in bytes. Default: 8 MiB.
    pub schema_bytes: usize,
    /// How deep arrays and objects of the text may nest. Default: 1,000.
    pub nest: usize,
    /// Sets of schemas that a value may have to satisfy together: each becomes a rule. Default: 50,000.
    pub rules: usize,
    /// Alternatives that `anyOf`, `oneOf`, `if` and negations come to when they are multiplied out, over the whole schema.
    /// Default: 50,000.
    pub alternatives: usize,
    /// How deep values nest in [indented](crate::Whitespace::Indent) output: each level has rules of its own. Schemas that do not come
    /// again on a way from the outermost one go deeper. Default: 20.
    pub levels: u32,
    /// What alternatives carry along of conditions and names, summed up: what bounds their memory and time. So many steps may
    /// the search for the ways to dynamic references take, too. Default: two million.
    pub carried: usize,
    /// The largest bound on items or properties that is counted out. Default: 4,096.
    pub count: u32,
    /// The largest bound on the length of a string. Default: 50 million.
    pub characters: u32,
    /// Digits of a number of the schema, written without an exponent. Default: 4,096.
    pub digits: u32,
    /// Kinds of names that are told apart in one object, by the patterns that they match. Default: 64.
    pub name_patterns: usize,
    /// Names that a pattern of `patternProperties` or `propertyNames` has, where they are finitely many: up to so many become members
    /// of their own, and of more an object remembers those that it has. Default: 1,000.
    pub names: u32,
    /// What items that are counted or compared, and members that have to be found, come to in one array or object when they
    /// are multiplied out. Default: 4,096.
    pub products: usize,
    /// For the automata of strings and numbers; [`dfa_steps`](Limits::dfa_steps) bounds the work for all together. Who may cancel is
    /// said in the [options](crate::SchemaOptions::cancel).
    /// Default: those of [`GrammarLimits::regex`].
    pub automata: Limits,
    /// What the tables of all automata take together, in bytes. Default: 64 MiB.
    pub automata_bytes: usize,
    /// For the grammar that comes out; of these, [`nodes`](GrammarLimits::nodes) is used.
    pub grammar: GrammarLimits,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        let grammar = GrammarLimits::default();
        Self {
            schema_bytes: 8 << 20,
            nest: 1_000,
            rules: 50_000,
            alternatives: 50_000,
            levels: 20,
            carried: 2_000_000,
            count: 4_096,
            characters: 50_000_000,
            digits: 4_096,
            name_patterns: 64,
            names: 1_000,
            products: 4_096,
            automata: grammar.regex.clone(),
            automata_bytes: 64 << 20,
            grammar,
        }
    }
}

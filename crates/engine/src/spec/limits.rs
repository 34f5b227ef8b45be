//! The limits of a constraint by name: one table, from which a [`Spec`](super::Spec), the command line and the
//! bindings raise each.
//!
//! Engines have their limits in structs of their own, and their errors name the field. A user has one flat list of
//! names here, so that each limit is raised in one way: in `limits` of a spec, and with `--limit NAME=N` on the
//! command line. An entry of the table says which fields it sets. Patterns, terminals of grammars and strings of
//! schemas share the limits of regexes, each with defaults of its own.
//!
//! Tried instead: a struct of optional numbers in each kind of constraint. A schema in a grammar has limits of three
//! kinds, and each had to be handed on by name.

use std::collections::BTreeMap;

use unskew_automata::Limits;
use unskew_grammar::GrammarLimits;
use unskew_schema::SchemaLimits;

use super::SpecError;

/// A limit on the cost of a constraint.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// The name in `limits` of a spec and in `--limit NAME=N`.
    pub name: &'static str,
    /// The name in messages of errors: the field of a struct of limits.
    pub field: &'static str,
    /// The quantity that it bounds.
    pub about: &'static str,
    /// The largest value.
    pub most: u64,
    number: fn(&mut Numbers, Option<u64>) -> Vec<u64>,
}

/// The limits that a constraint sets, by name. The others have their defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpecLimits(BTreeMap<&'static str, u64>);

/// All limits of all engines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) regex: Limits,
    pub(crate) grammar: GrammarLimits,
    pub(crate) schema: SchemaLimits,
    pub(crate) tag: TagLimits,
    /// The schemas and grammars to which a text may refer, those in other grammars included.
    pub(crate) references: u32,
}

/// The limits of structural tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagLimits {
    pub(crate) bytes: usize,
    pub(crate) count: u32,
    pub(crate) set_bytes: usize,
}

/// The largest value of a limit on a number of parts.
const COUNT: u64 = 1 << 30;

/// The largest value of a limit on bytes.
const BYTES: u64 = 1 << 40;

/// The largest value of a limit on steps.
const STEPS: u64 = 1 << 50;

/// The deepest nesting in the text of a schema. Values are dropped recursively.
const SCHEMA_NEST: u64 = 10_000;

macro_rules! table {
    ($($name:literal, $field:literal, $most:expr, $about:literal: $($($part:ident).+),+;)*) => {
        /// All limits, in the order of their names.
        pub const LIMITS: &[Limit] = &[$(Limit {
            name: $name,
            field: $field,
            about: $about,
            most: $most,
            number: |numbers, new| vec![$({
                let number = &mut numbers.$($part).+;
                if let Some(new) = new {
                    *number = new.try_into().unwrap_or(*number);
                }
                u64::try_from(*number).unwrap_or(u64::MAX)
            }),+],
        }),*];
    };
}

table! {
    "grammar.automata_bytes", "GrammarLimits::automata_bytes", BYTES, "the automata of all terminals, in bytes": grammar.automata_bytes;
    "grammar.budget_bytes", "GrammarLimits::budget_bytes", BYTES, "the sets of tokens of parts with `max_tokens`, in bytes":
        grammar.budget_bytes;
    "grammar.bytes", "GrammarLimits::grammar_bytes", BYTES, "the text of a grammar with its files, in bytes": grammar.grammar_bytes;
    "grammar.capture_items", "GrammarLimits::capture_items", COUNT, "the partial readings of one output in the search for its captures":
        grammar.capture_items;
    "grammar.columns", "GrammarLimits::columns", COUNT, "the greatest column of a block of a grammar": grammar.columns;
    "grammar.files", "GrammarLimits::files", COUNT, "the files that a grammar imports": grammar.files;
    "grammar.mask_steps", "GrammarLimits::mask_steps", STEPS, "the steps of one mask, and of one token": grammar.mask_steps;
    "grammar.nest", "GrammarLimits::nest", COUNT, "the depth of groups in the text of a grammar": grammar.nest;
    "grammar.nodes", "GrammarLimits::nodes", COUNT, "the rules, terminals and expressions of a grammar":
        grammar.nodes, schema.grammar.nodes;
    "grammar.positions", "GrammarLimits::positions", COUNT, "the positions in rules once repetitions are written out": grammar.positions;
    "grammar.scratch_bytes", "GrammarLimits::scratch_bytes", BYTES, "the tables that one thread keeps for a grammar, in bytes":
        grammar.scratch_bytes;
    "grammar.state_items", "GrammarLimits::state_items", COUNT, "the items of one state of the parser": grammar.state_items;
    "references", "the limit `references`", COUNT, "the schemas and grammars to which grammars refer": references;
    "regex.bytes", "Limits::pattern_bytes", BYTES, "the text of a pattern, in bytes":
        regex.pattern_bytes, grammar.regex.pattern_bytes, schema.automata.pattern_bytes;
    "regex.dfa_bytes", "Limits::dfa_bytes", BYTES, "the memory of one automaton while it is made, in bytes":
        regex.dfa_bytes, grammar.regex.dfa_bytes, schema.automata.dfa_bytes;
    "regex.dfa_states", "Limits::dfa_states", COUNT, "the states of one automaton":
        regex.dfa_states, grammar.regex.dfa_states, schema.automata.dfa_states;
    "regex.dfa_steps", "Limits::dfa_steps", STEPS, "the steps of making automata, in a grammar or schema of all of them":
        regex.dfa_steps, grammar.regex.dfa_steps, schema.automata.dfa_steps;
    "regex.lazy_bytes", "Limits::lazy_bytes", BYTES, "the states that one thread keeps for a large or canonical automaton, in bytes":
        regex.lazy_bytes;
    "regex.mask_cache_bytes", "Limits::mask_cache_bytes", BYTES, "the masks that are kept for an automaton, in bytes":
        regex.mask_cache_bytes;
    "regex.nest", "Limits::nest", 1_000, "the depth of groups in a pattern": regex.nest, grammar.regex.nest, schema.automata.nest;
    "regex.nfa_size", "Limits::nfa_size", COUNT, "the states and transitions of the automaton of a pattern before it is determinised":
        regex.nfa_size, grammar.regex.nfa_size, schema.automata.nfa_size;
    "regex.product_states", "Limits::product_states", COUNT, "the states of a canonical constraint with the pre-tokenizer":
        regex.product_states;
    "regex.spelling_steps", "Limits::spelling_steps", STEPS, "the steps of finding out which texts the tokens can spell":
        regex.spelling_steps;
    "regex.syntax_steps", "Limits::syntax_steps", STEPS, "the steps of reading a pattern":
        regex.syntax_steps, grammar.regex.syntax_steps, schema.automata.syntax_steps;
    "schema.alternatives", "SchemaLimits::alternatives", COUNT, "the branches of `anyOf`, `oneOf` and `if`, multiplied out":
        schema.alternatives;
    "schema.automata_bytes", "SchemaLimits::automata_bytes", BYTES, "the automata of all strings and numbers, in bytes":
        schema.automata_bytes;
    "schema.bytes", "SchemaLimits::schema_bytes", BYTES, "the text of a schema with those that it refers to, in bytes":
        schema.schema_bytes;
    "schema.carried", "SchemaLimits::carried", COUNT, "the conditions and names in all branches together": schema.carried;
    "schema.characters", "SchemaLimits::characters", COUNT, "the largest bound on the length of a string": schema.characters;
    "schema.count", "SchemaLimits::count", COUNT, "the largest bound on items or properties": schema.count;
    "schema.digits", "SchemaLimits::digits", COUNT, "the digits of a number of the schema": schema.digits;
    "schema.levels", "SchemaLimits::levels", COUNT, "the depth of values in indented output": schema.levels;
    "schema.name_patterns", "SchemaLimits::name_patterns", COUNT, "the classes of names in one object": schema.name_patterns;
    "schema.names", "SchemaLimits::names", COUNT, "the names of one pattern of names that become members": schema.names;
    "schema.nest", "SchemaLimits::nest", SCHEMA_NEST, "the depth of arrays and objects in the text of a schema": schema.nest;
    "schema.products", "SchemaLimits::products", COUNT, "the states of one array or object": schema.products;
    "schema.rules", "SchemaLimits::rules", COUNT, "the sets of schemas that one value satisfies together": schema.rules;
    "tag.bytes", "the limit `tag.bytes`", BYTES, "the text of a structural tag, in bytes": tag.bytes;
    "tag.count", "the limit `tag.count`", COUNT, "the largest number of `repeat`, `max_chars` and `max_tokens`": tag.count;
    "tag.set_bytes", "the limit `tag.set_bytes`", BYTES, "the sets of tokens of a structural tag, in bytes": tag.set_bytes;
}

impl Limit {
    /// The limit of this name; `-` may stand for `_`.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        LIMITS.iter().find(|limit| limit.name == name)
    }

    /// The limit that the message of an error names.
    pub fn in_message(message: &str) -> Option<&'static Self> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':' || byte == b'.';
        LIMITS.iter().find(|limit| {
            message.match_indices(limit.field).any(|(at, field)| {
                let (before, after) = (&message.as_bytes()[..at], &message.as_bytes()[at + field.len()..]);
                !before.last().is_some_and(|byte| is_name(*byte))
                    && !after.first().is_some_and(|byte| is_name(*byte))
            })
        })
    }

    /// The defaults: one, or those of a pattern alone, of the terminals of a grammar, and of the strings of a schema,
    /// where they differ.
    pub fn defaults(&self) -> Vec<u64> {
        let mut defaults = (self.number)(&mut Numbers::new(), None);
        defaults.dedup();
        defaults
    }
}

impl SpecLimits {
    /// Sets the limit of this name.
    ///
    /// # Errors
    ///
    /// [`SpecError::Value`] for a name that no limit has, and for a value beyond [`Limit::most`].
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SpecError> {
        let error = |value: String, why: String| SpecError::Value { option: "limits", value, why };
        let Some(limit) = Limit::named(name) else {
            let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
            return Err(error(name.to_owned(), format!("the limits are {}", names.join(", "))));
        };
        if value == 0 || value > limit.most {
            let why = format!("give a whole number from 1 to {}", limit.most);
            return Err(error(format!("{name}={value}"), why));
        }
        self.0.insert(limit.name, value);
        Ok(())
    }

    /// The limits that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, value)| (*name, *value))
    }

    /// The limit of this name, if it is set.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Whether every limit has its default.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits of all engines.
    pub(crate) fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::new();
        for limit in LIMITS {
            if let Some(value) = self.0.get(limit.name) {
                (limit.number)(&mut numbers, Some(*value));
            }
        }
        // Fifty thousand properties are a schema of two megabytes, and more nodes than a grammar is written with.
        let nodes = numbers.schema.grammar.nodes;
        numbers.schema.grammar = numbers.grammar.clone();
        numbers.schema.grammar.nodes = nodes;
        numbers
    }
}

impl Numbers {
    fn new() -> Self {
        let tag = TagLimits { bytes: 8 << 20, count: 100_000, set_bytes: 64 << 20 };
        Self { tag, references: 1_000, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the fields of a struct.
    fn fields(of: &str, debug: &str) -> Vec<String> {
        let body = debug.split_once('{').unwrap().1;
        let mut fields = Vec::new();
        let mut depth = 0;
        let mut name = String::new();
        for char in body.chars() {
            match char {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                ':' if depth == 0 => fields.push(format!("{of}::{}", std::mem::take(&mut name).trim())),
                ',' if depth == 0 => name.clear(),
                char if depth == 0 => name.push(char),
                _ => {}
            }
        }
        fields
    }

    #[test]
    fn every_field_of_every_engine_is_in_the_table() {
        let mut all = fields("Limits", &format!("{:?}", Limits::default()));
        all.extend(fields("GrammarLimits", &format!("{:?}", GrammarLimits::default())));
        all.extend(fields("SchemaLimits", &format!("{:?}", SchemaLimits::default())));
        assert!(all.len() > 30, "{all:?}");
        // Structs of limits, and a flag.
        let others =
            ["Limits::cancel", "GrammarLimits::regex", "SchemaLimits::automata", "SchemaLimits::grammar"];
        for field in &all {
            let is_there = LIMITS.iter().any(|limit| limit.field == field);
            assert!(is_there != others.contains(&field.as_str()), "{field}");
        }
        let is_there = |limit: &&Limit| {
            all.iter().any(|field| field == limit.field) || limit.field.starts_with("the limit")
        };
        assert!(LIMITS.iter().all(|limit| is_there(&limit)));
        assert!(LIMITS.is_sorted_by_key(|limit| limit.name));
    }

    #[test]
    fn each_limit_sets_its_fields_alone() {
        let debug = |numbers: &Numbers| format!("{numbers:#?}");
        let plain = debug(&SpecLimits::default().numbers());
        for limit in LIMITS {
            let mut limits = SpecLimits::default();
            limits.set(&limit.name.replace('_', "-"), 7).unwrap();
            assert_eq!(limits.iter().collect::<Vec<_>>(), [(limit.name, 7)]);
            let set = debug(&limits.numbers());
            let changed: Vec<&str> = set
                .lines()
                .zip(plain.lines())
                .filter(|(new, old)| new != old)
                .map(|(new, _)| new.trim())
                .collect();
            let field = limit.field.rsplit([':', '.']).next().unwrap().trim_end_matches('`');
            let field = field.strip_prefix("the limit `").unwrap_or(field);
            assert!(!changed.is_empty(), "{}", limit.name);
            assert!(
                changed.iter().all(|line| *line == format!("{field}: 7,")),
                "{}: {changed:?}",
                limit.name
            );
            assert_eq!(
                Limit::in_message(&format!("too much ({}): less", limit.field)).unwrap().name,
                limit.name
            );
            assert!(Limit::in_message(&format!("too much ({}s): less", limit.field)).is_none());
        }
    }

    #[test]
    fn names_and_values_are_checked() {
        let mut limits = SpecLimits::default();
        let mut refusal = |name, value| limits.set(name, value).unwrap_err().to_string();
        assert!(
            refusal("regex.states", 1)
                .starts_with("`limits` = \"regex.states\": the limits are grammar.automata_bytes, ")
        );
        assert_eq!(
            refusal("regex.nest", 1_001),
            "`limits` = \"regex.nest=1001\": give a whole number from 1 to 1000"
        );
        assert_eq!(
            refusal("tag.count", 0),
            "`limits` = \"tag.count=0\": give a whole number from 1 to 1073741824"
        );
        assert_eq!(Limit::named("regex.nfa_size").unwrap().defaults(), [4_000_000, 1_000_000]);
    }
}

//! The normal form: a value of some types, with its conditions for each type.
//!
//! A keyword constrains values of one type and no others. So every keyword becomes an [`Atom`], which narrows one
//! type, and a set of schemas becomes a list of shapes, one of which a value must have. Conditions on strings and
//! numbers are automata in this form; conditions on objects and arrays are sets of schemas for their parts, which
//! become rules of their own.

use std::{rc::Rc, sync::Arc};

use unskew_automata::Dfa;

use crate::{
    decimal::Decimal,
    document::{
        json::{NodeId, Value},
        literal::Literal,
    },
};

/// Types of values, as bits.
pub(crate) type Types = u8;

pub(crate) const NULL: Types = 1;
pub(crate) const FALSE: Types = 2;
pub(crate) const TRUE: Types = 4;
pub(crate) const NUMBER: Types = 8;
pub(crate) const STRING: Types = 16;
pub(crate) const ARRAY: Types = 32;
pub(crate) const OBJECT: Types = 64;
pub(crate) const ALL: Types = 127;

/// The type of a value.
pub(crate) fn type_of(value: &Value) -> Types {
    match value {
        Value::Null => NULL,
        Value::Bool(false) => FALSE,
        Value::Bool(true) => TRUE,
        Value::Number(_) => NUMBER,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

/// A keyword that cannot be enforced for values of some types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) types: Types,
    pub(crate) node: NodeId,
    pub(crate) keyword: String,
    pub(crate) reason: String,
    pub(crate) way_out: &'static str,
}

/// Alternatives, each a list of conditions. A value must satisfy all conditions of at least one alternative.
pub(crate) type Choice = Vec<Vec<Atom>>;

/// The conditions of a schema: all `atoms`, and one alternative of each choice.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) choices: Vec<Rc<Choice>>,
    /// Choices that decide others and are therefore made first.
    pub(crate) first: Vec<Rc<Choice>>,
}

/// A set of member names, as keywords define it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NameSet {
    /// Names that neither `properties` nor `patternProperties` of any of these schemas covers.
    Unknown(Rc<[NodeId]>),
    /// Names in which a pattern of the schema's `patternProperties` has a match.
    Pattern(NodeId, Rc<str>),
    /// Names that satisfy a schema.
    Schema(Literal),
    /// All names except the keys of this value, which is an object and no schema.
    Except(NodeId),
}

/// The condition that an object has some member with one of these names and, if there is a `value`, with a value
/// that satisfies it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Witness {
    pub(crate) names: NameSet,
    pub(crate) value: Option<Literal>,
}

/// The condition on the number of items, from an index on, that satisfy a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) from: u32,
    pub(crate) literal: Literal,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

/// The condition of `unevaluatedProperties` or `unevaluatedItems` in one branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unevaluated {
    /// The condition on the members or items that the following fields do not evaluate.
    pub(crate) schema: Literal,
    /// Schemas of the branch whose `properties`, `items` and related keywords evaluate parts.
    pub(crate) groups: Rc<[NodeId]>,
    /// Items that satisfy any of these are evaluated too.
    pub(crate) contains: Vec<Literal>,
}

/// A condition on a value. A condition on one type holds for values of all other types.
#[derive(Clone, Debug)]
pub(crate) enum Atom {
    /// At least one alternative holds.
    Any(Rc<Choice>),
    /// The value satisfies a schema, or does not.
    Schema(Literal),
    /// The value has one of these types.
    Types(Types),
    /// The text of a string is in the language; `None` is the empty language.
    Strings(Option<Arc<Dfa>>),
    /// The text of a string is in `lower`. `upper` includes all texts that satisfy the condition. If nothing of
    /// `lower` is left but something of `upper` is, the schema is refused.
    SomeStrings {
        lower: Option<Arc<Dfa>>,
        upper: Option<Arc<Dfa>>,
        refusal: Rc<Refusal>,
    },
    /// A string has at least this many code points.
    MinLength(u32),
    MaxLength(u32),
    /// The text of a number is in the language.
    Numbers(Option<Arc<Dfa>>),
    /// The schema says `integer`, or lists whole numbers.
    Integer,
    /// An array or object equals one of these values.
    OneOf(Vec<NodeId>),
    /// An object satisfies `properties`, `patternProperties` and `additionalProperties` of this schema.
    Properties(NodeId),
    /// If an object has the member, its value satisfies the schema.
    Property(Rc<str>, Literal),
    Require(Rc<str>),
    Forbid(Rc<str>),
    /// All member names of an object satisfy the schema.
    Names(Literal),
    /// An object has a member as described.
    Witness(Rc<Witness>),
    UnevaluatedProperties(Rc<Unevaluated>),
    MinProperties(u32),
    MaxProperties(u32),
    /// An array satisfies `items`, `prefixItems` and `additionalItems` of this schema.
    Items(NodeId),
    /// If an array has an item at the index, the item satisfies the schema.
    Item(u32, Literal),
    /// The number of matching items of an array is within bounds.
    Count(Count),
    UnevaluatedItems(Rc<Unevaluated>),
    /// All items of an array differ. The node is the schema with the condition.
    Unique(NodeId),
    /// Two items of an array are equal.
    Repeating(NodeId),
    MinItems(u32),
    MaxItems(u32),
    Refuse(Rc<Refusal>),
}

/// A conjunction of conditions in normal form.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) types: Types,
    /// `None`: any text.
    pub(crate) strings: Option<Arc<Dfa>>,
    /// If `strings` excludes some valid texts: all valid texts, and the refusal for the case that `strings` is
    /// empty.
    pub(crate) possible: Option<(Arc<Dfa>, Rc<Refusal>)>,
    /// Separate from `strings`, because a large bound is cheaper as a counted repetition than as an automaton.
    pub(crate) min_length: u32,
    pub(crate) max_length: Option<u32>,
    /// `None`: any number.
    pub(crate) numbers: Option<Arc<Dfa>>,
    /// Whether the schema says `integer`, or lists whole numbers: to a reader who knows the types alone, multiples of 3
    /// are numbers.
    pub(crate) is_integer: bool,
    pub(crate) one_of: Option<Vec<NodeId>>,
    pub(crate) properties: Vec<NodeId>,
    pub(crate) property: Vec<(Rc<str>, Literal)>,
    pub(crate) required: Vec<Rc<str>>,
    pub(crate) forbidden: Vec<Rc<str>>,
    pub(crate) names: Vec<Literal>,
    pub(crate) witnesses: Vec<Rc<Witness>>,
    pub(crate) unevaluated_properties: Vec<Rc<Unevaluated>>,
    pub(crate) min_properties: u32,
    pub(crate) max_properties: Option<u32>,
    /// An object also has one shape of each of these lists, which are about its members alone; see
    /// [`factors`](super::factors).
    pub(crate) factors: Vec<Rc<[Self]>>,
    pub(crate) items: Vec<NodeId>,
    pub(crate) item: Vec<(u32, Literal)>,
    pub(crate) counts: Vec<Count>,
    pub(crate) unevaluated_items: Vec<Rc<Unevaluated>>,
    pub(crate) unique: Option<NodeId>,
    pub(crate) repeating: Option<NodeId>,
    pub(crate) min_items: u32,
    pub(crate) max_items: Option<u32>,
    pub(crate) refusals: Vec<Rc<Refusal>>,
}

impl Shape {
    /// Any value.
    pub(crate) fn any() -> Self {
        Self {
            types: ALL,
            strings: None,
            possible: None,
            min_length: 0,
            max_length: None,
            numbers: None,
            is_integer: false,
            one_of: None,
            properties: vec![],
            property: vec![],
            required: vec![],
            forbidden: vec![],
            names: vec![],
            witnesses: vec![],
            unevaluated_properties: vec![],
            min_properties: 0,
            max_properties: None,
            factors: vec![],
            items: vec![],
            item: vec![],
            counts: vec![],
            unevaluated_items: vec![],
            unique: None,
            repeating: None,
            min_items: 0,
            max_items: None,
            refusals: vec![],
        }
    }

    /// Removes the types that contradictory bounds have emptied.
    pub(crate) fn settle(&mut self) {
        if self.max_length.is_some_and(|max| max < self.min_length) {
            self.types &= !STRING;
        }
        let fewest = self.counts.iter().map(|count| count.min).max().unwrap_or(0);
        let fewest = fewest.max(if self.repeating.is_some() { 2 } else { 0 });
        let mut clash = self.counts.iter().any(|count| count.max.is_some_and(|max| max < count.min));
        clash |= self.unique.is_some() && self.repeating.is_some();
        if clash || self.max_items.is_some_and(|max| max < self.min_items.max(fewest)) {
            self.types &= !ARRAY;
        }
        let required = u32::try_from(self.required.len()).unwrap_or(u32::MAX);
        let least = self.min_properties.max(required);
        let clash = self.required.iter().any(|name| self.forbidden.contains(name));
        if clash || self.max_properties.is_some_and(|max| max < least) {
            self.types &= !OBJECT;
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::any()
    }
}

/// A value with its allowed spellings.
#[derive(Clone, Debug)]
pub(crate) enum FiniteValue {
    /// `null`, `true` or `false`.
    Word(&'static str),
    /// The text of a string.
    Text(Arc<str>),
    /// A number and its spellings.
    Number(Decimal, Arc<Dfa>),
    /// An array or object of the schema's text.
    Node(NodeId),
}

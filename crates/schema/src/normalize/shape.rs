//! The normal form: a value of some type, with what it must satisfy as a value of that type.
//!
//! A schema says nothing of values of other types than a keyword is about. So every keyword becomes an [`Atom`], which
//! narrows one type, and a set of schemas becomes a list of shapes, any of which will do. Conditions on strings and numbers
//! are automata by then; those on objects and arrays are kept as sets of schemas for their parts, which become rules of their own.

use std::{rc::Rc, sync::Arc};

use unskew_automata::Dfa;

use crate::document::{json::NodeId, schemas::Literal};

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

/// A keyword that is not enforced for values of some types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) types: Types,
    pub(crate) node: NodeId,
    pub(crate) keyword: String,
    pub(crate) reason: String,
    pub(crate) way_out: &'static str,
}

/// Alternatives, any of which will do: each is a list of conditions.
pub(crate) type Choice = Vec<Vec<Atom>>;

/// Names of members, as keywords tell them apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Names {
    /// Those that neither `properties` nor `patternProperties` of any of these schemas knows.
    Unknown(Rc<[NodeId]>),
    /// Those that a pattern of `patternProperties` of the schema finds something in.
    Pattern(NodeId, Box<str>),
    /// Those that satisfy a schema.
    Schema(Literal),
    /// All but those of this value, which is an object and no schema.
    Except(NodeId),
}

/// Some member of an object: its name is one of these, and its value satisfies the schema, if there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Witness {
    pub(crate) names: Names,
    pub(crate) value: Option<Literal>,
}

/// How many items of an array, from a place on, satisfy a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) from: u32,
    pub(crate) literal: Literal,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

/// What `unevaluatedProperties` or `unevaluatedItems` asks for in one branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unevaluated {
    /// What the members or items must satisfy that none of the following knows.
    pub(crate) schema: Literal,
    /// Schemas of the branch, for their `properties`, `items` and the like.
    pub(crate) groups: Rc<[NodeId]>,
    /// Items that satisfy any of these are known too.
    pub(crate) contains: Vec<Literal>,
}

/// A condition.
#[derive(Clone, Debug)]
pub(crate) enum Atom {
    /// Any of these.
    Any(Rc<Choice>),
    /// The value satisfies a schema, or does not.
    Schema(Literal),
    /// Its type is one of these.
    Types(Types),
    /// If it is a string, its text is one of these; `None` for none.
    Strings(Option<Arc<Dfa>>),
    /// If it is a string, its text is one of `lower`. All texts that would do are among `upper`; where none is left of the
    /// first and some of the second, that is refused.
    SomeStrings {
        lower: Option<Arc<Dfa>>,
        upper: Option<Arc<Dfa>>,
        refusal: Refusal,
    },
    /// If it is a string, it has at least so many code points.
    MinLength(u32),
    MaxLength(u32),
    /// If it is a number, it is written as one of these.
    Numbers(Option<Arc<Dfa>>),
    /// If it is an array or object, it equals one of these.
    OneOf(Vec<NodeId>),
    /// If it is an object, it satisfies `properties` and the like of this schema.
    Properties(NodeId),
    /// If it is an object that has the name, its value there satisfies the schema.
    Property(Box<str>, Literal),
    Require(Box<str>),
    Forbid(Box<str>),
    /// If it is an object, its names satisfy the schema.
    Names(Literal),
    /// If it is an object, it has such a member.
    Witness(Witness),
    UnevaluatedProperties(Unevaluated),
    MinProperties(u32),
    MaxProperties(u32),
    /// If it is an array, it satisfies `items` and the like of this schema.
    Items(NodeId),
    /// If it is an array with an item at the place, that satisfies the schema.
    Item(u32, Literal),
    /// If it is an array, its items count so.
    Count(Count),
    UnevaluatedItems(Unevaluated),
    /// If it is an array, its items are all different; the schema that says so.
    Unique(NodeId),
    /// If it is an array, two of its items are equal.
    Repeating(NodeId),
    MinItems(u32),
    MaxItems(u32),
    Refuse(Refusal),
}

/// What a value must be, in the normal form.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) types: Types,
    /// `None`: any.
    pub(crate) strings: Option<Arc<Dfa>>,
    /// Where `strings` leaves out some that would do: all that would, and what to say if none is left.
    pub(crate) possible: Option<(Arc<Dfa>, Refusal)>,
    /// Kept apart from `strings`: a long bound is cheaper as a repetition than as an automaton.
    pub(crate) min_length: u32,
    pub(crate) max_length: Option<u32>,
    /// `None`: any.
    pub(crate) numbers: Option<Arc<Dfa>>,
    pub(crate) one_of: Option<Vec<NodeId>>,
    pub(crate) properties: Vec<NodeId>,
    pub(crate) property: Vec<(Box<str>, Literal)>,
    pub(crate) required: Vec<Box<str>>,
    pub(crate) forbidden: Vec<Box<str>>,
    pub(crate) names: Vec<Literal>,
    pub(crate) witnesses: Vec<Witness>,
    pub(crate) unevaluated_properties: Vec<Unevaluated>,
    pub(crate) min_properties: u32,
    pub(crate) max_properties: Option<u32>,
    pub(crate) items: Vec<NodeId>,
    pub(crate) item: Vec<(u32, Literal)>,
    pub(crate) counts: Vec<Count>,
    pub(crate) unevaluated_items: Vec<Unevaluated>,
    pub(crate) unique: Option<NodeId>,
    pub(crate) repeating: Option<NodeId>,
    pub(crate) min_items: u32,
    pub(crate) max_items: Option<u32>,
    pub(crate) refusals: Vec<Refusal>,
}

impl Shape {
    /// A value of any kind.
    pub(crate) fn any() -> Self {
        Self {
            types: ALL,
            strings: None,
            possible: None,
            min_length: 0,
            max_length: None,
            numbers: None,
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

    /// Drops types that counts have emptied.
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

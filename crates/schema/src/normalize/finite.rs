//! Sets of schemas that only few values satisfy, as lists of these values.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use unskew_automata::Dfa;

use super::{
    expander::Expander,
    shape::{ARRAY, FALSE, FiniteValue, NULL, NUMBER, OBJECT, STRING, TRUE, Types},
};
use crate::{
    SchemaError,
    decimal::Decimal,
    document::{json::NodeId, literal::Literal},
    text::{
        enumerated::{few_texts, shortest_text},
        languages::Language,
    },
};

/// The largest number of values of a set.
const MOST: usize = 24;

/// A number and its spellings.
type Spelled = (Decimal, Arc<Dfa>);

/// A set of [`KnownValues`], as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ValueSet(u64);

impl ValueSet {
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The values found so far, each with a bit of its own.
#[derive(Debug, Default)]
pub(crate) struct KnownValues {
    found: Vec<FiniteValue>,
}

impl KnownValues {
    /// The largest number of values with a bit.
    pub(crate) const MOST: usize = 64;

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// The set of the value alone; `None` if there are too many values.
    pub(crate) fn one(&mut self, value: &FiniteValue, ex: &Expander) -> Option<ValueSet> {
        let same = |other: &FiniteValue| match (other, value) {
            (FiniteValue::Word(left), FiniteValue::Word(right)) => left == right,
            (FiniteValue::Text(left), FiniteValue::Text(right)) => left == right,
            (FiniteValue::Number(left, _), FiniteValue::Number(right, _)) => left == right,
            (FiniteValue::Node(left), FiniteValue::Node(right)) => ex.equal_values(*left, *right),
            _ => false,
        };
        let index = self.found.iter().position(same).unwrap_or_else(|| {
            self.found.push(value.clone());
            self.found.len() - 1
        });
        1u64.checked_shl(u32::try_from(index).ok()?).map(ValueSet)
    }
}

impl Expander {
    /// The values that satisfy the set, if they are few.
    pub(crate) fn finite_values(
        &mut self,
        set: &[Literal],
    ) -> Result<Option<Rc<Vec<FiniteValue>>>, SchemaError> {
        if let Some(known) = self.finite.get(set) {
            return Ok(known.clone());
        }
        let found = self.listed_values(set)?.map(Rc::new);
        self.finite.insert(set.to_vec(), found.clone());
        Ok(found)
    }

    fn listed_values(&mut self, set: &[Literal]) -> Result<Option<Vec<FiniteValue>>, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let shapes = self.shapes(set)?;
        let mut found = vec![];
        let (mut types, mut texts, mut numbers): (Types, BTreeSet<String>, Language) =
            (0, BTreeSet::new(), None);
        for shape in shapes.iter() {
            types |= shape.types;
            if shape.types & STRING != 0 {
                // A bound on the length alone allows too many texts.
                let Some(strings) = shape.strings.as_ref().filter(|_| shape.possible.is_none()) else {
                    return Ok(None);
                };
                let own = if shape.min_length > 0 || shape.max_length.is_some() {
                    self.texts(shape)
                } else {
                    Ok(Some(Arc::clone(strings)))
                };
                let own = self.located(node, own)?;
                let few = own.map_or(Some(vec![]), |own| few_texts(&own, MOST as u64));
                let Some(few) = few else { return Ok(None) };
                texts.extend(few);
            }
            if shape.types & NUMBER != 0 {
                let Some(own) = shape.numbers.clone() else { return Ok(None) };
                let both = self.languages.or(&numbers, &Some(own));
                numbers = self.located(node, both)?;
            }
            if shape.types & (ARRAY | OBJECT) != 0 {
                let Some(values) = &shape.one_of else { return Ok(None) };
                for value in values {
                    let new = !found
                        .iter()
                        .any(|one| matches!(one, FiniteValue::Node(old) if self.equal_values(*old, *value)));
                    if new && self.constant_has_shape(*value, shape)? {
                        found.push(FiniteValue::Node(*value));
                    }
                }
            }
            self.refuse(shape, shape.types);
        }
        for (of, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if types & of != 0 {
                found.push(FiniteValue::Word(word));
            }
        }
        let mut texts: Vec<String> = texts.into_iter().collect();
        if texts.len() > MOST {
            return Ok(None);
        }
        texts.sort_by_key(String::len);
        found.extend(texts.into_iter().map(|text| FiniteValue::Text(text.into())));
        if let Some(numbers) = numbers {
            let Some(numbers) = self.listed_numbers(node, numbers)? else { return Ok(None) };
            found.extend(numbers.into_iter().map(|(number, spelled)| FiniteValue::Number(number, spelled)));
        }
        Ok((found.len() <= MOST).then_some(found))
    }

    fn listed_numbers(
        &mut self,
        node: Option<NodeId>,
        language: Arc<Dfa>,
    ) -> Result<Option<Vec<Spelled>>, SchemaError> {
        // Most conditions allow many integers; this check finds out quickly.
        let near = (-50..=50).filter(|number: &i32| language.accepts(number.to_string().as_bytes()));
        let far = (2..60).filter(|zeros| {
            let far = format!("1{}", "0".repeat(*zeros));
            language.accepts(far.as_bytes()) || language.accepts(format!("-{far}").as_bytes())
        });
        if near.take(MOST + 1).count() + far.take(MOST + 1).count() > MOST {
            return Ok(None);
        }
        let (mut rest, mut found) = (Some(language), vec![]);
        while let Some(left) = rest {
            let first = shortest_text(&left);
            let number = String::from_utf8(first).ok().and_then(|text| Decimal::parse(&text));
            let Some(number) = number else { return Ok(None) };
            if found.len() == MOST {
                return Ok(None);
            }
            let equal = self.languages.equal(&number);
            let Some(equal) = self.located(node, equal)? else { return Ok(None) };
            let spelled = self.languages.and(&Some(Arc::clone(&left)), &equal);
            if let Some(spelled) = self.located(node, spelled)? {
                found.push((number, spelled));
            }
            let minus = self.languages.minus(&Some(left), &equal);
            rest = self.located(node, minus)?;
        }
        Ok(Some(found))
    }

    /// Whether no value satisfies both sets, as far as a cheap check can tell.
    pub(crate) fn all_disjoint(&mut self, left: &[Literal], right: &[Literal]) -> Result<bool, SchemaError> {
        for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
            if *left == right.not() || self.disjoint(*left, *right)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! Sets of schemas that only few values satisfy, as lists of these values.

use std::{collections::VecDeque, rc::Rc, sync::Arc};

use hashbrown::HashSet;
use unskew_automata::{Dfa, StateId};

use super::{
    expand::Expander,
    shape::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE, Types},
};
use crate::{
    SchemaError,
    decimal::Decimal,
    document::{json::NodeId, schemas::Literal},
    text::languages::Language,
};

/// The largest number of values of a set.
const MOST: usize = 24;

/// The largest number of steps in the search for texts.
const STEPS: usize = 20_000;

/// A number and its spellings.
type Spelled = (Decimal, Arc<Dfa>);

/// A value with its allowed spellings.
#[derive(Clone, Debug)]
pub(crate) enum Finite {
    /// `null`, `true` or `false`.
    Word(&'static str),
    /// The text of a string.
    Text(Arc<str>),
    /// A number and its spellings.
    Number(Decimal, Arc<Dfa>),
    /// An array or object of the schema's text.
    Node(NodeId),
}

/// Values found so far, each with a bit of its own.
#[derive(Debug, Default)]
pub(crate) struct Values {
    met: Vec<Finite>,
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        self.met.len()
    }

    /// The bit of the value; `None` if there are too many values.
    pub(crate) fn bit(&mut self, value: &Finite, ex: &Expander) -> Option<u64> {
        let same = |other: &Finite| match (other, value) {
            (Finite::Word(left), Finite::Word(right)) => left == right,
            (Finite::Text(left), Finite::Text(right)) => left == right,
            (Finite::Number(left, _), Finite::Number(right, _)) => left == right,
            (Finite::Node(left), Finite::Node(right)) => ex.same(*left, *right),
            _ => false,
        };
        let index = self.met.iter().position(same).unwrap_or_else(|| {
            self.met.push(value.clone());
            self.met.len() - 1
        });
        1u64.checked_shl(u32::try_from(index).ok()?)
    }
}

impl Expander {
    /// The values that satisfy the set, if they are few.
    pub(crate) fn values(&mut self, set: &[Literal]) -> Result<Option<Rc<Vec<Finite>>>, SchemaError> {
        if let Some(known) = self.finite.get(set) {
            return Ok(known.clone());
        }
        let found = self.listed_values(set)?.map(Rc::new);
        self.finite.insert(set.to_vec(), found.clone());
        Ok(found)
    }

    fn listed_values(&mut self, set: &[Literal]) -> Result<Option<Vec<Finite>>, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let shapes = self.shapes(set)?;
        let mut found = vec![];
        let (mut types, mut texts, mut numbers): (Types, Language, Language) = (0, None, None);
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
                let both = own.and_then(|own| self.languages.or(&texts, &own));
                texts = self.located(node, both)?;
            }
            if shape.types & NUMBER != 0 {
                let Some(own) = shape.numbers.clone() else { return Ok(None) };
                let both = self.languages.or(&numbers, &Some(own));
                numbers = self.located(node, both)?;
            }
            if shape.types & (ARRAY | OBJECT) != 0 {
                let Some(values) = &shape.one_of else { return Ok(None) };
                for value in values {
                    let new =
                        !found.iter().any(|one| matches!(one, Finite::Node(old) if self.same(*old, *value)));
                    if new && self.fits(*value, shape)? {
                        found.push(Finite::Node(*value));
                    }
                }
            }
            self.refuse(shape, shape.types);
        }
        for (of, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if types & of != 0 {
                found.push(Finite::Word(word));
            }
        }
        if let Some(texts) = texts {
            let Some(texts) = listed_texts(&texts) else { return Ok(None) };
            found.extend(texts.into_iter().map(|text| Finite::Text(text.into())));
        }
        if let Some(numbers) = numbers {
            let Some(numbers) = self.listed_numbers(node, numbers)? else { return Ok(None) };
            found.extend(numbers.into_iter().map(|(number, spelled)| Finite::Number(number, spelled)));
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
            let first = first_text(&left);
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

/// All texts, if they are few.
fn listed_texts(dfa: &Dfa) -> Option<Vec<String>> {
    let mut found = vec![];
    let mut todo = VecDeque::from([(dfa.start(), vec![])]);
    let mut steps = 0;
    while let Some((state, text)) = todo.pop_front() {
        if dfa.is_accepting(state) {
            found.push(String::from_utf8(text.clone()).ok()?);
        }
        for edge in dfa.edges(state) {
            for byte in edge.bytes {
                steps += text.len() + 1;
                if steps > STEPS || found.len() + todo.len() > MOST {
                    return None;
                }
                todo.push_back((edge.target, [&*text, &[byte]].concat()));
            }
        }
    }
    Some(found)
}

/// A shortest text.
fn first_text(dfa: &Dfa) -> Vec<u8> {
    let mut seen: HashSet<StateId> = HashSet::from_iter([dfa.start()]);
    let mut todo = VecDeque::from([(dfa.start(), vec![])]);
    while let Some((state, text)) = todo.pop_front() {
        if dfa.is_accepting(state) {
            return text;
        }
        for edge in dfa.edges(state) {
            if seen.insert(edge.target) {
                todo.push_back((edge.target, [&*text, &[*edge.bytes.start()]].concat()));
            }
        }
    }
    vec![]
}

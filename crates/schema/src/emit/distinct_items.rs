//! Arrays with `uniqueItems`: whether items must be compared, remembered items, and how many there may be.

use std::rc::Rc;

use unskew_grammar::ExprId;

use super::{
    elements::{Form, Name},
    emitter::{Distinct, DistinctItem, Emitter},
    one_text::OneText,
};
use crate::{
    SchemaError,
    document::{json::NodeId, literal::Literal},
    normalize::{
        finite::KnownValues,
        parts::ItemConditions,
        shape::{Count, Shape},
    },
    text::{enumerated::texts, languages::Language},
};

/// The treatment of equal items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EqualItems {
    Ignored,
    /// Equal items are forbidden.
    Forbidden,
    /// Equal items are required.
    Required,
    /// Equal items are forbidden, and the engine remembers the items.
    Remembered,
}

impl Emitter {
    /// An item that satisfies `set`; if items are remembered, an item that the array does not have.
    pub(super) fn item(
        &mut self,
        set: &[Literal],
        compared: EqualItems,
    ) -> Result<Option<ExprId>, SchemaError> {
        if compared == EqualItems::Remembered {
            return Ok(self.distinct_item(set)?.flatten().map(|item| item.distinct.expr));
        }
        Ok(self.member_of(Name::Item, set)?.map(|(item, _)| item))
    }

    /// A new item that satisfies `set`, or `Some(None)` if there is none. `None` if it may be an array or an object
    /// that has no [text of its own](super::one_text).
    #[allow(clippy::option_option, reason = "no answer, or that there are none")]
    fn distinct_item(&mut self, set: &[Literal]) -> Result<Option<Option<DistinctItem>>, SchemaError> {
        let key: Rc<[Literal]> = set.into();
        if let Some(known) = self.distinct_items.get(&key) {
            return Ok(Some(known.clone()));
        }
        let mut of = OneText::default();
        let all = self.one_text(set, &mut of)?;
        if of.may_compose && !of.composes {
            return Ok(None);
        }
        let is_composed = of.may_compose;
        let made = match all {
            None => None,
            Some(all) => {
                let most = texts(&all);
                let distinct =
                    Distinct { expr: self.builder.distinct("new item", &all, [""; 0], most)?, most };
                Some(DistinctItem { distinct, texts: all, is_composed })
            }
        };
        self.distinct_items.insert(key, made.clone());
        Ok(Some(made))
    }

    /// Whether items must be compared, and the largest number of items before different ones run out. Items are not
    /// compared if they always differ, or if there is at most one.
    pub(super) fn compared(
        &mut self,
        shape: &Shape,
        items: &ItemConditions,
        counts: &[Count],
    ) -> Result<(EqualItems, Option<u32>), SchemaError> {
        let Some(node) = shape.unique.or(shape.repeating) else { return Ok((EqualItems::Ignored, None)) };
        let mut most = shape.max_items;
        let mut slots: Vec<Vec<Vec<Literal>>> = vec![];
        for index in 0..=items.alike {
            let sets = self.ex.item_sets(shape, items, index)?;
            if sets.is_empty() {
                most = Some(most.map_or(index, |most| most.min(index)));
            }
            if most.is_some_and(|most| index >= most) {
                break;
            }
            slots.push(sets);
        }
        let compared = if shape.unique.is_some() { EqualItems::Forbidden } else { EqualItems::Required };
        let repeated = slots.len() > items.alike as usize && most.is_none_or(|most| most > items.alike + 1);
        let (mut finite, mut all) = (true, KnownValues::default());
        for set in slots.iter().flatten() {
            match self.ex.finite_values(set)?.filter(|_| finite) {
                Some(values) => finite = values.iter().all(|value| all.one(value, &self.ex).is_some()),
                None => finite = false,
            }
        }
        finite = finite && subsets(all.len(), most) <= self.ex.limits.products;
        if finite && (repeated || slots.len() > 1) {
            return Ok((compared, None));
        }
        let mut different = !repeated && slots.len() <= COMPARED;
        'pairs: for (index, left) in slots.iter().enumerate() {
            for right in &slots[index + 1..] {
                if !different {
                    break 'pairs;
                }
                for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right)))
                {
                    different = different && self.ex.all_disjoint(left, right)?;
                }
            }
        }
        if different && compared == EqualItems::Forbidden {
            return Ok((EqualItems::Ignored, None));
        }
        let mut remembered = compared == EqualItems::Forbidden && self.form == Form::Json;
        let mut is_composed = false;
        for set in slots.iter().flatten() {
            if remembered {
                let item = self.distinct_item(set)?;
                remembered = item.is_some();
                is_composed |= item.flatten().is_some_and(|item| item.is_composed);
            }
        }
        if remembered {
            if is_composed {
                self.ex.narrow_down(node, "uniqueItems", ONE_TEXT.to_owned());
            }
            return Ok((EqualItems::Remembered, self.most_distinct_items(node, shape, &slots, counts)?));
        }
        let reason = "a grammar cannot compare arrays and objects that may have any of many values, nor find equal items";
        let way_out = "list the values in `enum`, or leave it out and check afterwards";
        self.ex.reject(node, "uniqueItems", reason, way_out);
        Ok((EqualItems::Ignored, None))
    }

    /// The largest number of remembered items before they run out; `None` for any number. `slots` has the
    /// alternatives of each index; the last entry is for all further indices.
    fn most_distinct_items(
        &mut self,
        node: NodeId,
        shape: &Shape,
        slots: &[Vec<Vec<Literal>>],
        counts: &[Count],
    ) -> Result<Option<u32>, SchemaError> {
        let (mut most, mut is_exact) = match counts {
            // Items that are counted from below may also be anything else, so there only need to be enough of them.
            counts if counts.iter().all(|count| count.max.is_none()) => {
                for count in counts {
                    let last = slots.last().map_or(&[][..], |sets| sets);
                    let enough = self.number_of(node, last, Some(count.literal))?;
                    match enough.filter(|enough| *enough < count.min) {
                        Some(_) if slots.len() <= 1 => return Ok(Some(0)),
                        Some(1..) => {
                            let reason = format!(
                                "of the items that `contains` asks for, fewer than {} are left",
                                count.min
                            );
                            self.ex.reject(
                                node,
                                "uniqueItems",
                                &reason,
                                "ask for fewer, or allow more values",
                            );
                        }
                        // Then items at an earlier index are needed, and the items before them may have used their
                        // values.
                        enough if enough == Some(0) || shape.max_items.is_some() => {
                            for (index, sets) in (0u32..).zip(slots).skip(1) {
                                let left = self.number_of(node, sets, Some(count.literal))?;
                                if left.is_some_and(|left| (1..=index).contains(&left)) {
                                    let reason = format!(
                                        "the items before index {index} may use up all values that `contains` needs there"
                                    );
                                    let way_out =
                                        "allow more values there, or leave it out and check afterwards";
                                    self.ex.reject(node, "uniqueItems", &reason, way_out);
                                }
                            }
                        }
                        _ => {}
                    }
                }
                self.most_by_index(node, slots)?
            }
            // Counted items up to their number, plus all others.
            [count] if count.from == 0 && slots.len() == 1 => {
                let counted = self.number_of(node, &slots[0], Some(count.literal))?;
                if counted.is_some_and(|counted| counted < count.min) {
                    return Ok(Some(0));
                }
                let others = self.number_of(node, &slots[0], Some(count.literal.not()))?;
                let counted = counted.into_iter().chain(count.max).min().unwrap_or(u32::MAX);
                (others.map(|others| others.saturating_add(counted)), true)
            }
            // At least one value of each kind of items must be left.
            counts => {
                let mut most = None;
                for (index, set) in
                    (0u32..).zip(slots).flat_map(|(index, sets)| sets.iter().map(move |set| (index, set)))
                {
                    for literals in combined(counts, index, self.ex.limits.products)? {
                        let set = set.iter().copied().chain(literals).collect();
                        let Some(set) = self.ex.normal(set) else { continue };
                        let few = self.distinct_item(&set)?.flatten().and_then(|item| item.distinct.most);
                        most = most.into_iter().chain(few).min();
                    }
                }
                (most, false)
            }
        };
        if !counts.is_empty() {
            // Each number of items has one state for each count.
            let states = counts.iter().map(|count| count.max.unwrap_or(count.min) as usize + 1);
            let states = states.fold(1usize, usize::saturating_mul);
            let room =
                u32::try_from((self.ex.limits.products / states).saturating_sub(2)).unwrap_or(u32::MAX);
            if most.is_some_and(|most| most > room) {
                (most, is_exact) = (Some(room), false);
            }
        }
        let Some(found) = most.filter(|most| !is_exact && shape.max_items.is_none_or(|max| *most < max))
        else {
            return Ok(most);
        };
        let why = format!("arrays have at most {found} items, because different items run out");
        let fewest = counts.iter().map(|count| count.min).fold(shape.min_items, u32::max);
        if found < fewest {
            self.ex.reject(node, "uniqueItems", &why, "ask for fewer items, or allow more values");
        }
        self.ex.narrow_down(node, "uniqueItems", why);
        Ok(most)
    }

    /// The same bound without counts, and whether no array with more items exists.
    fn most_by_index(
        &mut self,
        node: NodeId,
        slots: &[Vec<Vec<Literal>>],
    ) -> Result<(Option<u32>, bool), SchemaError> {
        let mut before: Vec<Language> = vec![];
        for (index, sets) in (0u32..).zip(slots) {
            let all = self.distinct_texts(node, sets)?;
            let count = all.as_deref().map_or(Some(0), texts);
            let is_last = slots.len() == index as usize + 1;
            // The earlier indices that may have taken one of these texts, and whether they certainly have.
            let (mut taken, mut surely) = (0, true);
            for texts in before.iter().filter(|_| count.is_some_and(|count| is_last || count <= index)) {
                let both = self.ex.languages.and(texts, &all);
                if self.ex.located(Some(node), both)?.is_some() {
                    let rest = self.ex.languages.minus(texts, &all);
                    taken += 1;
                    surely &= self.ex.located(Some(node), rest)?.is_none();
                }
            }
            let left = count.map(|count| count.saturating_sub(taken));
            if let Some(left) = left.filter(|left| is_last || *left == 0) {
                return Ok((Some(index.saturating_add(left)), surely));
            }
            before.push(all);
        }
        Ok((None, true))
    }

    /// The number of new items that satisfy one of the sets and, if there is one, the literal; `None` if nothing
    /// uses them up.
    fn number_of(
        &mut self,
        node: NodeId,
        sets: &[Vec<Literal>],
        literal: Option<Literal>,
    ) -> Result<Option<u32>, SchemaError> {
        let with = |set: &Vec<Literal>| self.ex.normal(set.iter().copied().chain(literal).collect());
        let sets: Vec<Vec<Literal>> = sets.iter().filter_map(with).collect();
        let all = self.distinct_texts(node, &sets)?;
        Ok(all.map_or(Some(0), |all| texts(&all)))
    }

    /// All texts of new items that satisfy one of the sets.
    fn distinct_texts(&mut self, node: NodeId, sets: &[Vec<Literal>]) -> Result<Language, SchemaError> {
        let mut parts = vec![];
        for set in sets {
            parts.extend(self.distinct_item(set)?.flatten().map(|item| item.texts));
        }
        let all = self.ex.languages.any(parts);
        self.ex.located(Some(node), all)
    }
}

const ONE_TEXT: &str = "the objects in the array have one text each, because texts are compared: members in one order and with one white space, no members that the schema does not name, no values inside of themselves or of large automata, no members that are counted or have to be found, and in arrays of their own that must differ at most one item";

/// The largest number of slots that are compared pairwise.
const COMPARED: usize = 32;

/// The number of sets of at most `most` values, exact up to about a million.
fn subsets(values: usize, most: Option<u32>) -> usize {
    let most = most.map_or(values, |most| values.min(most as usize));
    let (mut sets, mut all) = (1usize, 1usize);
    for size in 1..=most {
        // This is exact, because the product of any `size` consecutive numbers is divisible by the factorial of
        // `size`.
        sets = sets.saturating_mul(values + 1 - size) / size;
        all = all.saturating_add(sets);
        if all > 1 << 20 {
            break;
        }
    }
    all
}

/// The combinations of conditions on an item with respect to all counts.
fn combined(counts: &[Count], index: u32, limit: usize) -> Result<Vec<Vec<Literal>>, SchemaError> {
    let mut all = vec![vec![]];
    for count in counts.iter().filter(|count| count.from <= index) {
        let ways = [None, Some(count.literal), Some(count.literal.not())];
        let longer = |one: &Vec<Literal>| ways.map(|way| one.iter().copied().chain(way).collect::<Vec<_>>());
        all = all.iter().flat_map(longer).collect();
        if all.len() > limit {
            return Err(SchemaError::limit("", "the combinations of items of an array", limit, "products"));
        }
    }
    Ok(all)
}

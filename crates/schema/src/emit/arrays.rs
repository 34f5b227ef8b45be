//! Arrays as rules.
//!
//! If items are counted by the schemas that they satisfy (`contains`), or must differ (`uniqueItems`), the rules
//! form an automaton. Its state is the number of items, the number of each counted kind, and the used values of a
//! finite set. An item is written by the rule of all schemas that it must satisfy, so a state has one way for each
//! combination. An item that is counted towards a minimum satisfies the schema for certain, and an item that is not
//! counted towards a maximum violates it for certain. Other items may be read either way; the ambiguity does not
//! change the language.
//!
//! If items must differ and may have many values, items that are neither arrays nor objects are remembered: each
//! has one spelling, and the engine allows no text twice. Arrays and objects have no single spelling, so
//! `uniqueItems` is refused for them.

use std::{rc::Rc, sync::Arc};

use hashbrown::HashMap;
use unskew_grammars::{ExprId, RuleId};

use super::rules::{Emitter, NewItem, Once};
use crate::{
    SchemaError,
    document::{json::NodeId, schemas::Literal},
    normalize::{
        finite::Values,
        parts::Items,
        shape::{ARRAY, Count, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
    },
    text::{enumerated::texts, languages::Language, number},
};

/// The state of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Progress {
    /// The number of items, up to the largest number that matters.
    place: u32,
    /// The number of items of each counted kind, up to the largest number that matters.
    counts: Vec<u32>,
    /// The used values, as bits.
    used: u64,
    /// Whether some value occurred twice.
    repeated: bool,
}

/// The conditions on an array with counted or compared items.
struct Product {
    items: Items,
    counts: Vec<Count>,
    min: u32,
    max: Option<u32>,
    /// From this number of items on, their number does not matter.
    last: u32,
    compared: Compared,
}

/// The treatment of equal items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compared {
    No,
    /// Equal items are forbidden.
    Different,
    /// Equal items are required.
    Repeating,
    /// Equal items are forbidden, and the engine remembers the items.
    Remembered,
}

impl Emitter {
    pub(crate) fn array(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let items = self.ex.items(shape);
        let counts: Vec<Count> = shape.counts.iter().filter(|count| count.max != Some(0)).cloned().collect();
        let (compared, most) = self.compared(shape, &items, &counts)?;
        // The bound keeps the array from running out of different items.
        let max = shape.max_items.into_iter().chain(most).min();
        if max.is_some_and(|max| max < shape.min_items) {
            return Ok(None);
        }
        let array = if counts.is_empty() && matches!(compared, Compared::No | Compared::Remembered) {
            // A larger bound of the schema itself is an error. A larger bound on different items is counted by the
            // parser.
            let written_out = if max == shape.max_items { u32::MAX } else { self.ex.limits.count };
            self.plain_array(&Shape { max_items: max, ..shape.clone() }, &items, compared, written_out)?
        } else {
            let last = max.unwrap_or(items.alike.max(shape.min_items));
            let min = shape.min_items;
            self.product(set, shape, &Product { items, counts, min, max, last, compared })?
        };
        Ok(match compared {
            Compared::Remembered => array.map(|array| self.scope("array", array)),
            _ => array,
        })
    }

    fn item_ways(
        &mut self,
        shape: &Shape,
        items: &Items,
        place: u32,
        compared: Compared,
    ) -> Result<Option<ExprId>, SchemaError> {
        let mut ways = vec![];
        for set in self.ex.item_sets(shape, items, place)? {
            ways.extend(self.item(&set, compared)?);
        }
        Ok(match &*ways {
            [] => None,
            [one] => Some(*one),
            _ => Some(self.builder.choice(ways)),
        })
    }

    /// An item that satisfies `set`; if items are remembered, an item that the array does not have.
    fn item(&mut self, set: &[Literal], compared: Compared) -> Result<Option<ExprId>, SchemaError> {
        if compared == Compared::Remembered {
            return Ok(self.new_item(set)?.flatten().map(|item| item.once.expr));
        }
        let rule = self.rule(set)?;
        Ok(rule.map(|rule| self.builder.call(rule)))
    }

    /// A new item that satisfies `set`, or `Some(None)` if there is none. `None` if it may be an array or an
    /// object.
    #[allow(clippy::option_option, reason = "no answer, or that there are none")]
    fn new_item(&mut self, set: &[Literal]) -> Result<Option<Option<NewItem>>, SchemaError> {
        let key: Rc<[Literal]> = set.into();
        if let Some(known) = self.new_items.get(&key) {
            return Ok(Some(known.clone()));
        }
        let node = set.first().map(|literal| literal.node);
        let shapes = self.ex.shapes(set)?;
        if shapes.iter().any(|shape| shape.types & (ARRAY | OBJECT) != 0) {
            return Ok(None);
        }
        let mut parts = vec![];
        for shape in shapes.iter() {
            self.ex.refuse(shape, shape.types);
            if shape.types & STRING != 0 {
                let texts = self.ex.texts(shape);
                if let Some(texts) = self.ex.located(node, texts)? {
                    let written = self.ex.languages.written(&texts);
                    parts.extend(self.ex.located(node, written)?);
                }
            }
            if shape.types & NUMBER != 0 {
                let plain = self.ex.languages.pattern(number::SHORTEST);
                let both = plain.and_then(|plain| match &shape.numbers {
                    Some(own) => self.ex.languages.and(&plain, &Some(Arc::clone(own))),
                    None => Ok(plain),
                });
                parts.extend(self.ex.located(node, both)?);
            }
        }
        for (types, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if shapes.iter().any(|shape| shape.types & types != 0) {
                let word = self.ex.languages.text(word);
                parts.extend(self.ex.located(node, word)?);
            }
        }
        let all = if parts.is_empty() { Ok(None) } else { self.ex.languages.any(&parts) };
        let made = match self.ex.located(node, all)? {
            None => None,
            Some(all) => {
                let most = texts(&all);
                let once = Once { expr: self.builder.distinct("new item", &all, [""; 0], most)?, most };
                Some(NewItem { once, texts: all })
            }
        };
        self.new_items.insert(key, made.clone());
        Ok(Some(made))
    }

    /// An array with conditions on items by index alone, or with remembered items.
    fn plain_array(
        &mut self,
        shape: &Shape,
        asked: &Items,
        compared: Compared,
        written_out: u32,
    ) -> Result<Option<ExprId>, SchemaError> {
        let first = asked.alike;
        let min = shape.min_items;
        let mut max = shape.max_items;
        let mut items = vec![];
        // The last entry is the item at all further indices.
        for place in 0..=first {
            match self.item_ways(shape, asked, place, compared)? {
                Some(item) => items.push(item),
                None => {
                    max = Some(max.map_or(place, |max| max.min(place)));
                    break;
                }
            }
        }
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        let others = if items.len() > first as usize { items.pop() } else { None };
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let more = |so_far: u32| max.is_none_or(|max| so_far < max);
        // The continuations after this number of items, computed from the last number on.
        let mut rest = match others.filter(|_| more(count)) {
            Some(item) if count == 0 => {
                let next = self.more(item, min.saturating_sub(1), max.map(|max| max - 1), written_out)?;
                let inner = next.map(|next| self.builder.sequence([item, next]));
                return Ok(self.enclosed("[", "]", inner, min == 0));
            }
            Some(item) => {
                self.more(item, min.saturating_sub(count), max.map(|max| max - count), written_out)?
            }
            None if min <= count => Some(self.builder.empty()),
            None => None,
        };
        for (place, item) in (0..count).zip(items).rev() {
            let behind = rest.filter(|_| more(place)).map(|rest| self.builder.sequence([item, rest]));
            if place == 0 {
                return Ok(self.enclosed("[", "]", behind, min == 0));
            }
            let next = behind.map(|behind| self.comma(behind));
            let end = (min <= place).then(|| self.builder.empty());
            rest = self.shared("items", next.into_iter().chain(end).collect());
        }
        Ok(self.enclosed("[", "]", None, min == 0))
    }

    /// Whether items must be compared, and the largest number of items before different ones run out. Items are not
    /// compared if they always differ, or if there is at most one.
    fn compared(
        &mut self,
        shape: &Shape,
        items: &Items,
        counts: &[Count],
    ) -> Result<(Compared, Option<u32>), SchemaError> {
        let Some(node) = shape.unique.or(shape.repeating) else { return Ok((Compared::No, None)) };
        let mut most = shape.max_items;
        let mut slots: Vec<Vec<Vec<Literal>>> = vec![];
        for place in 0..=items.alike {
            let sets = self.ex.item_sets(shape, items, place)?;
            if sets.is_empty() {
                most = Some(most.map_or(place, |most| most.min(place)));
            }
            if most.is_some_and(|most| place >= most) {
                break;
            }
            slots.push(sets);
        }
        let compared = if shape.unique.is_some() { Compared::Different } else { Compared::Repeating };
        let repeated = slots.len() > items.alike as usize && most.is_none_or(|most| most > items.alike + 1);
        let (mut finite, mut all) = (true, Values::default());
        for set in slots.iter().flatten() {
            match self.ex.values(set)?.filter(|_| finite) {
                Some(values) => finite = values.iter().all(|value| all.bit(value, &self.ex).is_some()),
                None => finite = false,
            }
        }
        finite = finite && subsets(all.len(), most) <= self.ex.limits.products;
        if finite && (repeated || slots.len() > 1) {
            return Ok((compared, None));
        }
        let mut different = !repeated && slots.len() <= COMPARED;
        'pairs: for (place, left) in slots.iter().enumerate() {
            for right in &slots[place + 1..] {
                if !different {
                    break 'pairs;
                }
                for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right)))
                {
                    different = different && self.ex.all_disjoint(left, right)?;
                }
            }
        }
        if different && compared == Compared::Different {
            return Ok((Compared::No, None));
        }
        let mut remembered = compared == Compared::Different;
        for set in slots.iter().flatten() {
            remembered = remembered && self.new_item(set)?.is_some();
        }
        if remembered {
            return Ok((Compared::Remembered, self.most_new_items(node, shape, &slots, counts)?));
        }
        let reason = "a grammar cannot compare arrays and objects that may have any of many values, nor find equal items";
        let way_out = "list the values in `enum`, or leave it out and check afterwards";
        self.ex.reject(node, "uniqueItems", reason, way_out);
        Ok((Compared::No, None))
    }

    /// The largest number of remembered items before they run out; `None` for any number. `slots` has the
    /// alternatives of each index; the last entry is for all further indices.
    fn most_new_items(
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
                            for (place, sets) in (0u32..).zip(slots).skip(1) {
                                let left = self.number_of(node, sets, Some(count.literal))?;
                                if left.is_some_and(|left| (1..=place).contains(&left)) {
                                    let reason = format!(
                                        "the items before place {place} may use all that `contains` asks for there"
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
                self.most_by_place(node, slots)?
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
                for (place, set) in
                    (0u32..).zip(slots).flat_map(|(place, sets)| sets.iter().map(move |set| (place, set)))
                {
                    for literals in combined(counts, place, self.ex.limits.products)? {
                        let set = set.iter().copied().chain(literals).collect();
                        let Some(set) = self.ex.normal(set) else { continue };
                        let few = self.new_item(&set)?.flatten().and_then(|item| item.once.most);
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
        let why =
            format!("arrays have at most {found} items, so that they do not run out of such that differ");
        let fewest = counts.iter().map(|count| count.min).fold(shape.min_items, u32::max);
        if found < fewest {
            self.ex.reject(node, "uniqueItems", &why, "ask for fewer items, or allow more values");
        }
        self.ex.narrow_down(node, "uniqueItems", why);
        Ok(most)
    }

    /// The same bound without counts, and whether no array with more items exists.
    fn most_by_place(
        &mut self,
        node: NodeId,
        slots: &[Vec<Vec<Literal>>],
    ) -> Result<(Option<u32>, bool), SchemaError> {
        let mut before: Vec<Language> = vec![];
        for (place, sets) in (0u32..).zip(slots) {
            let all = self.new_texts(node, sets)?;
            let count = all.as_deref().map_or(Some(0), texts);
            let is_last = slots.len() == place as usize + 1;
            // The earlier indices that may have taken one of these texts, and whether they certainly have.
            let (mut taken, mut surely) = (0, true);
            for texts in before.iter().filter(|_| count.is_some_and(|count| is_last || count <= place)) {
                let both = self.ex.languages.and(texts, &all);
                if self.ex.located(Some(node), both)?.is_some() {
                    let rest = self.ex.languages.minus(texts, &all);
                    taken += 1;
                    surely &= self.ex.located(Some(node), rest)?.is_none();
                }
            }
            let left = count.map(|count| count.saturating_sub(taken));
            if let Some(left) = left.filter(|left| is_last || *left == 0) {
                return Ok((Some(place.saturating_add(left)), surely));
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
        let all = self.new_texts(node, &sets)?;
        Ok(all.map_or(Some(0), |all| texts(&all)))
    }

    /// All texts of new items that satisfy one of the sets.
    fn new_texts(&mut self, node: NodeId, sets: &[Vec<Literal>]) -> Result<Language, SchemaError> {
        let mut parts = vec![];
        for set in sets {
            parts.extend(self.new_item(set)?.flatten().map(|item| item.texts));
        }
        let all = self.ex.languages.any(&parts);
        self.ex.located(Some(node), all)
    }

    fn product(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        product: &Product,
    ) -> Result<Option<ExprId>, SchemaError> {
        let start = Progress { counts: vec![0; product.counts.len()], ..Progress::default() };
        let mut known: HashMap<Progress, RuleId> = HashMap::new();
        let mut todo = vec![];
        let mut values = Values::default();
        let mut inner = vec![];
        for (item, next) in self.ways(shape, product, &start, &mut values)? {
            let rule = self.state(next, &mut known, &mut todo);
            let rest = self.builder.call(rule);
            inner.push(self.builder.sequence([item, rest]));
        }
        let limit = self.ex.limits.products;
        while let Some((progress, rule)) = todo.pop() {
            if known.len() > limit {
                let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
                let what = "the combinations of items of an array";
                return Err(SchemaError::limit(&pointer, what, limit, "products"));
            }
            self.check()?;
            let mut ways = vec![];
            if ends(product, &progress) {
                ways.push(self.builder.empty());
            }
            for (item, next) in self.ways(shape, product, &progress, &mut values)? {
                let next = self.state(next, &mut known, &mut todo);
                let rest = self.builder.call(next);
                let item = self.comma(item);
                ways.push(self.builder.sequence([item, rest]));
            }
            // The engine drops a rule without a way out, and everything that leads to it.
            let body = if ways.is_empty() { self.builder.call(rule) } else { self.builder.choice(ways) };
            self.builder.define(rule, body);
        }
        let inner = if inner.is_empty() { None } else { Some(self.builder.choice(inner)) };
        Ok(self.enclosed("[", "]", inner, ends(product, &start)))
    }

    fn state(
        &mut self,
        progress: Progress,
        known: &mut HashMap<Progress, RuleId>,
        todo: &mut Vec<(Progress, RuleId)>,
    ) -> RuleId {
        if let Some(rule) = known.get(&progress) {
            return *rule;
        }
        let rule = self.builder.rule("counted items");
        known.insert(progress.clone(), rule);
        todo.push((progress, rule));
        rule
    }

    /// The items that may come next, each with the state after it.
    fn ways(
        &mut self,
        shape: &Shape,
        product: &Product,
        progress: &Progress,
        values: &mut Values,
    ) -> Result<Vec<(ExprId, Progress)>, SchemaError> {
        let place = progress.place;
        if product.max.is_some_and(|max| place >= max) {
            return Ok(vec![]);
        }
        // The additional conditions on the item, each with the counts after it.
        let mut combinations: Vec<(Vec<Literal>, Vec<u32>)> = vec![(vec![], vec![])];
        for (count, so_far) in product.counts.iter().zip(&progress.counts) {
            let options = options(count, place, *so_far);
            let each = |(literals, counts): &(Vec<Literal>, Vec<u32>)| {
                let (literals, counts) = (literals.clone(), counts.clone());
                let longer = options.iter().map(move |(literal, next)| {
                    let literals = literals.iter().copied().chain(*literal).collect();
                    (literals, counts.iter().copied().chain([*next]).collect())
                });
                longer.collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(each).collect();
            if combinations.len() > self.ex.limits.products {
                let limit = self.ex.limits.products;
                return Err(SchemaError::limit(
                    "",
                    "the combinations of items of an array",
                    limit,
                    "products",
                ));
            }
        }
        let sets = self.ex.item_sets(shape, &product.items, place)?;
        let mut ways = vec![];
        for set in &sets {
            for (literals, counts) in &combinations {
                let together = set.iter().chain(literals).copied().collect();
                let Some(together) = self.ex.normal(together) else { continue };
                let place = (place + 1).min(product.last);
                let next = Progress { place, counts: counts.clone(), ..progress.clone() };
                if matches!(product.compared, Compared::No | Compared::Remembered) || progress.repeated {
                    ways.extend(self.item(&together, product.compared)?.map(|item| (item, next)));
                } else {
                    self.compared_ways(&together, next, product.compared, values, &mut ways)?;
                }
            }
        }
        Ok(ways)
    }

    /// Adds the values that may come next, each as a way of its own.
    fn compared_ways(
        &mut self,
        set: &[Literal],
        next: Progress,
        compared: Compared,
        values: &mut Values,
        ways: &mut Vec<(ExprId, Progress)>,
    ) -> Result<(), SchemaError> {
        let Some(finite) = self.ex.values(set)? else { return Ok(()) };
        let node = set.first().map(|literal| literal.node);
        for value in finite.iter() {
            let Some(bit) = values.bit(value, &self.ex) else {
                return Err(SchemaError::limit("", "the different items of an array", 64, "products"));
            };
            let used = next.used & bit != 0;
            let next = match (used, compared) {
                (true, Compared::Different) => continue,
                (true, _) => Progress { used: 0, repeated: true, ..next.clone() },
                (false, _) => Progress { used: next.used | bit, ..next.clone() },
            };
            ways.push((self.finite(node, value)?, next));
        }
        Ok(())
    }
}

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
fn combined(counts: &[Count], place: u32, limit: usize) -> Result<Vec<Vec<Literal>>, SchemaError> {
    let mut all = vec![vec![]];
    for count in counts.iter().filter(|count| count.from <= place) {
        let ways = [None, Some(count.literal), Some(count.literal.not())];
        let longer = |one: &Vec<Literal>| ways.map(|way| one.iter().copied().chain(way).collect::<Vec<_>>());
        all = all.iter().flat_map(longer).collect();
        if all.len() > limit {
            return Err(SchemaError::limit("", "the combinations of items of an array", limit, "products"));
        }
    }
    Ok(all)
}

fn ends(product: &Product, progress: &Progress) -> bool {
    let counted = product.counts.iter().zip(&progress.counts).all(|(count, so_far)| *so_far >= count.min);
    let compared = product.compared != Compared::Repeating || progress.repeated;
    counted && compared && progress.place >= product.min
}

/// The ways to read an item with respect to one count: the additional condition, and the count after it.
fn options(count: &Count, place: u32, so_far: u32) -> Vec<(Option<Literal>, u32)> {
    if place < count.from {
        return vec![(None, so_far)];
    }
    let mut options = vec![];
    match count.max {
        // Not counted: with a maximum the item violates the schema; without one it may satisfy it or not.
        Some(_) => options.push((Some(count.literal.not()), so_far)),
        None => options.push((None, so_far)),
    }
    let needed = so_far < count.min;
    if count.max.map_or(needed, |max| so_far < max) {
        options.push((needed.then_some(count.literal), so_far + 1));
    }
    options
}

//! Arrays as rules.
//!
//! Where items have to be counted by what they satisfy (`contains`) or must differ (`uniqueItems`), the rules are those of an
//! automaton: its state is how many items there were, how many of each kind, and which values of a finite set were used.
//! An item is written by the rule of all that it must satisfy, so a state has a way for each combination. What is
//! counted towards a minimum satisfies the schema for certain, what is not counted towards a maximum breaks it for certain;
//! in between an item may be either, and an array that can be read in two ways is none the worse for it.
//!
//! Of items that have to differ and may have any of many values, those without parts are remembered: each is written in one
//! way, and the engine sees to it that no text comes twice. Arrays and objects have no such way, and are refused there.

use std::{rc::Rc, sync::Arc};

use hashbrown::HashMap;
use unskew_grammars::{ExprId, RuleId};

use crate::{
    SchemaError,
    emit::{Emitter, Once},
    enumerated::few_texts,
    finite::Values,
    number,
    parts::Items,
    schemas::Literal,
    shape::{ARRAY, Count, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
};

/// What an array has so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Progress {
    /// Items; no further than they matter.
    place: u32,
    /// Of each kind that is counted; no further than they matter.
    counts: Vec<u32>,
    /// The values that were used, as bits.
    used: u64,
    /// Whether some value was used twice.
    repeated: bool,
}

/// What is asked of an array whose items are counted or compared.
struct Product {
    items: Items,
    counts: Vec<Count>,
    min: u32,
    max: Option<u32>,
    /// From this place on it does not matter how many items there were.
    last: u32,
    compared: Compared,
}

/// Whether equal items matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compared {
    No,
    /// There must be none.
    Different,
    /// There must be some.
    Repeating,
    /// There must be none, which the engine sees to.
    Remembered,
}

impl Emitter {
    pub(crate) fn array(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let items = self.ex.items(shape);
        let counts: Vec<Count> = shape.counts.iter().filter(|count| count.max != Some(0)).cloned().collect();
        let (compared, most) = self.compared(shape, &items)?;
        // An array does not run out of items that differ.
        let max = shape.max_items.into_iter().chain(most).min();
        let array = if counts.is_empty() && matches!(compared, Compared::No | Compared::Remembered) {
            self.plain_array(&Shape { max_items: max, ..shape.clone() }, &items, compared)?
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

    /// An item that satisfies `set`; where items are remembered, one that the array does not have.
    fn item(&mut self, set: &[Literal], compared: Compared) -> Result<Option<ExprId>, SchemaError> {
        if compared == Compared::Remembered {
            return Ok(self.new_item(set)?.flatten().map(|item| item.expr));
        }
        let rule = self.rule(set)?;
        Ok(Some(self.builder.call(rule)))
    }

    /// An item that satisfies `set` and that the array does not have, if there are any; and how many an array may have so that it does
    /// not run out of them. `None` if it may be an array or an object.
    #[allow(clippy::option_option, reason = "no answer, or that there are none")]
    fn new_item(&mut self, set: &[Literal]) -> Result<Option<Option<Once>>, SchemaError> {
        let key: Rc<[Literal]> = set.into();
        if let Some(known) = self.new_items.get(&key) {
            return Ok(Some(*known));
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
            Some(all) => Some(match self.builder.distinct("new item", &all, [""; 0], None) {
                Ok(expr) => Once { expr, most: None },
                Err(_) => {
                    let limit = self.ex.limits.names;
                    let most = few_texts(&all, u64::from(limit))
                        .map(|few| u32::try_from(few.len()).unwrap_or(limit));
                    let most = Some(most.unwrap_or(limit));
                    Once { expr: self.builder.distinct("new item", &all, [""; 0], most)?, most }
                }
            }),
        };
        self.new_items.insert(key, made);
        Ok(Some(made))
    }

    /// An array whose items matter by their place alone, or are remembered.
    fn plain_array(
        &mut self,
        shape: &Shape,
        asked: &Items,
        compared: Compared,
    ) -> Result<Option<ExprId>, SchemaError> {
        let first = asked.alike;
        let min = shape.min_items;
        let mut max = shape.max_items;
        let mut items = vec![];
        // The last is that of all others.
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
        // What follows when so many items were written, from the last on.
        let mut rest = match others.filter(|_| more(count)) {
            Some(item) if count == 0 => {
                let next = self.comma(item);
                let next = self.repeated(next, min.saturating_sub(1), max.map(|max| max - 1))?;
                let inner = self.builder.sequence([item, next]);
                return Ok(self.enclosed("[", "]", Some(inner), min == 0));
            }
            Some(item) => {
                let next = self.comma(item);
                Some(self.repeated(next, min.saturating_sub(count), max.map(|max| max - count))?)
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

    /// Whether items have to be compared: not where they differ in any case, or cannot be two. And how many items the array may
    /// have so that it does not run out of such that differ.
    fn compared(&mut self, shape: &Shape, items: &Items) -> Result<(Compared, Option<u32>), SchemaError> {
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
        let mut enough = None;
        let mut remembered = compared == Compared::Different;
        for set in slots.iter().flatten() {
            match if remembered { self.new_item(set)? } else { None } {
                None => remembered = false,
                Some(None) => {}
                Some(Some(item)) => enough = enough.into_iter().chain(item.most).min(),
            }
        }
        if remembered && enough.is_none_or(|enough| enough >= shape.min_items) {
            return Ok((Compared::Remembered, enough));
        }
        let reason = "a grammar cannot compare arrays and objects that may have any of many values, nor find equal items";
        let way_out = "list the values in `enum`, or leave it out and check afterwards";
        self.ex.reject(node, "uniqueItems", reason, way_out);
        Ok((Compared::No, None))
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
            // One without a way out is dropped by the engine, with all that leads to it.
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

    /// The items that may come next, with what the array has then.
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
        // What more each item must satisfy, with the counts behind it.
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

    /// The values that may come next, each by itself.
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

/// As many items are compared by pairs.
const COMPARED: usize = 32;

/// Sets of at most `most` of so many values, or very many.
fn subsets(values: usize, most: Option<u32>) -> usize {
    let most = most.map_or(values, |most| values.min(most as usize));
    let (mut sets, mut all) = (1usize, 1usize);
    for size in 1..=most {
        // Exact: the product of any `size` numbers in a row is divisible.
        sets = sets.saturating_mul(values + 1 - size) / size;
        all = all.saturating_add(sets);
        if all > 1 << 20 {
            break;
        }
    }
    all
}

fn ends(product: &Product, progress: &Progress) -> bool {
    let counted = product.counts.iter().zip(&progress.counts).all(|(count, so_far)| *so_far >= count.min);
    let compared = product.compared != Compared::Repeating || progress.repeated;
    counted && compared && progress.place >= product.min
}

/// What an item may be to a count: what it must satisfy for that, and the count behind it.
fn options(count: &Count, place: u32, so_far: u32) -> Vec<(Option<Literal>, u32)> {
    if place < count.from {
        return vec![(None, so_far)];
    }
    let mut options = vec![];
    match count.max {
        // Not counted: it does not satisfy the schema where that would be too much, and may where it would not.
        Some(_) => options.push((Some(count.literal.not()), so_far)),
        None => options.push((None, so_far)),
    }
    let needed = so_far < count.min;
    if count.max.map_or(needed, |max| so_far < max) {
        options.push((needed.then_some(count.literal), so_far + 1));
    }
    options
}

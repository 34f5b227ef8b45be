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

use hashbrown::HashMap;
use unskew_grammar::{ExprId, RuleId};

use super::{
    distinct_items::EqualItems,
    emitter::{Emitter, WRITTEN_OUT},
};
use crate::{
    SchemaError,
    document::literal::Literal,
    normalize::{
        finite::{KnownValues, ValueSet},
        parts::ItemConditions,
        shape::{Count, Shape},
    },
};

/// The state of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Progress {
    /// The number of items, up to the largest number that matters.
    items: u32,
    /// The number of items of each counted kind, up to the largest number that matters.
    counts: Vec<u32>,
    /// The used values of a finite set.
    used: ValueSet,
    /// Whether some value occurred twice.
    repeated: bool,
}

/// The conditions on an array with counted or compared items.
struct Product {
    items: ItemConditions,
    counts: Vec<Count>,
    min: u32,
    max: Option<u32>,
    /// From this number of items on, their number does not matter.
    last: u32,
    compared: EqualItems,
}

impl Emitter {
    pub(crate) fn array(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let settled = self.settled_counts(shape)?;
        let shape = settled.as_ref().unwrap_or(shape);
        let items = self.ex.item_conditions(shape);
        let counts: Vec<Count> = shape.counts.iter().filter(|count| count.max != Some(0)).cloned().collect();
        let (compared, most) = self.compared(shape, &items, &counts)?;
        // The bound keeps the array from running out of different items.
        let max = shape.max_items.into_iter().chain(most).min();
        if max.is_some_and(|max| max < shape.min_items) {
            return Ok(None);
        }
        let array = if counts.is_empty() && matches!(compared, EqualItems::Ignored | EqualItems::Remembered) {
            // A larger bound is counted by the parser, and so is the number of listed values that run out.
            let written_out = match compared {
                EqualItems::Remembered => WRITTEN_OUT,
                _ => self.ex.limits.count,
            };
            self.plain_array(&Shape { max_items: max, ..shape.clone() }, &items, compared, written_out)?
        } else {
            let last = max.unwrap_or(items.alike.max(shape.min_items));
            let min = shape.min_items;
            self.product(set, shape, &Product { items, counts, min, max, last, compared })?
        };
        Ok(match compared {
            EqualItems::Remembered => array.map(|array| self.scope("array", array)),
            _ => array,
        })
    }

    /// The shape with bounds on the number of items in the place of counts of items that all satisfy the condition.
    /// `None` without such counts.
    ///
    /// A negated array with other listed values has such a count. Five of them beside 25 items are 800 states.
    fn settled_counts(&mut self, shape: &Shape) -> Result<Option<Shape>, SchemaError> {
        let items = self.ex.item_conditions(shape);
        let mut settled: Option<Shape> = None;
        for (at, count) in shape.counts.iter().enumerate().rev().filter(|(_, count)| count.max != Some(0)) {
            let mut all = true;
            for index in count.from..=items.alike.max(count.from) {
                for set in self.ex.item_sets(shape, &items, index)? {
                    all = all && self.ex.all_disjoint(&set, &[count.literal.not()])?;
                }
            }
            if all {
                let settled = settled.get_or_insert_with(|| shape.clone());
                settled.counts.remove(at);
                if count.min > 0 {
                    settled.min_items = settled.min_items.max(count.from.saturating_add(count.min));
                }
                let most = count.max.map(|max| count.from.saturating_add(max));
                settled.max_items = settled.max_items.into_iter().chain(most).min();
            }
        }
        Ok(settled)
    }

    fn item_ways(
        &mut self,
        shape: &Shape,
        items: &ItemConditions,
        index: u32,
        compared: EqualItems,
    ) -> Result<Option<ExprId>, SchemaError> {
        let mut ways = vec![];
        for set in self.ex.item_sets(shape, items, index)? {
            ways.extend(self.item(&set, compared)?);
        }
        Ok(self.one_of(ways))
    }

    /// An array with conditions on items by index alone, or with remembered items.
    fn plain_array(
        &mut self,
        shape: &Shape,
        asked: &ItemConditions,
        compared: EqualItems,
        written_out: u32,
    ) -> Result<Option<ExprId>, SchemaError> {
        let first = asked.alike;
        let min = shape.min_items;
        let mut max = shape.max_items;
        let mut items = vec![];
        // The last entry is the item at all further indices.
        for index in 0..=first {
            match self.item_ways(shape, asked, index, compared)? {
                Some(item) => items.push(item),
                None => {
                    max = Some(max.map_or(index, |max| max.min(index)));
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
                let inner = next.map(|next| self.sequence([item, next]));
                return Ok(self.enclosed("[", "]", inner, min == 0));
            }
            Some(item) => {
                self.more(item, min.saturating_sub(count), max.map(|max| max - count), written_out)?
            }
            None if min <= count => Some(self.nothing()),
            None => None,
        };
        for (index, item) in (0..count).zip(items).rev() {
            let after = rest.filter(|_| more(index)).map(|rest| self.sequence([item, rest]));
            if index == 0 {
                return Ok(self.enclosed("[", "]", after, min == 0));
            }
            let next = after.map(|after| self.comma(after));
            let end = (min <= index).then(|| self.nothing());
            rest = self.shared("items", next.into_iter().chain(end).collect());
        }
        Ok(self.enclosed("[", "]", None, min == 0))
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
        let mut values = KnownValues::default();
        let mut inner = vec![];
        for (item, next) in self.ways(shape, product, &start, &mut values)? {
            let rule = self.state(next, &mut known, &mut todo);
            let rest = self.call(rule);
            inner.push(self.sequence([item, rest]));
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
            for (item, next) in self.ways(shape, product, &progress, &mut values)? {
                let next = self.state(next, &mut known, &mut todo);
                let rest = self.call(next);
                ways.push(self.sequence([item, rest]));
            }
            // One separator for all: alternatives that begin alike take ten times as long to compile.
            let more = self.one_of(ways).map(|more| self.comma(more));
            let end = ends(product, &progress).then(|| self.nothing());
            // The engine drops a rule without a way out, and everything that leads to it.
            let body = self.one_of(end.into_iter().chain(more).collect()).unwrap_or_else(|| self.call(rule));
            self.builder.define(rule, body);
        }
        let inner = self.one_of(inner);
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
        values: &mut KnownValues,
    ) -> Result<Vec<(ExprId, Progress)>, SchemaError> {
        let index = progress.items;
        if product.max.is_some_and(|max| index >= max) {
            return Ok(vec![]);
        }
        // The additional conditions on the item, each with the counts after it.
        let mut combinations: Vec<(Vec<Literal>, Vec<u32>)> = vec![(vec![], vec![])];
        for (count, so_far) in product.counts.iter().zip(&progress.counts) {
            let options = options(count, index, *so_far);
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
        let sets = self.ex.item_sets(shape, &product.items, index)?;
        let mut ways = vec![];
        for set in &sets {
            for (literals, counts) in &combinations {
                let together = set.iter().chain(literals).copied().collect();
                let Some(together) = self.ex.normal(together) else { continue };
                let index = (index + 1).min(product.last);
                let next = Progress { items: index, counts: counts.clone(), ..progress.clone() };
                if matches!(product.compared, EqualItems::Ignored | EqualItems::Remembered)
                    || progress.repeated
                {
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
        compared: EqualItems,
        values: &mut KnownValues,
        ways: &mut Vec<(ExprId, Progress)>,
    ) -> Result<(), SchemaError> {
        let Some(finite) = self.ex.finite_values(set)? else { return Ok(()) };
        let node = set.first().map(|literal| literal.node);
        for value in finite.iter() {
            let Some(one) = values.one(value, &self.ex) else {
                return Err(SchemaError::limit(
                    "",
                    "the different items of an array",
                    KnownValues::MOST,
                    "products",
                ));
            };
            let used = next.used.overlaps(one);
            let next = match (used, compared) {
                (true, EqualItems::Forbidden) => continue,
                (true, _) => Progress { used: ValueSet::default(), repeated: true, ..next.clone() },
                (false, _) => Progress { used: next.used.union(one), ..next.clone() },
            };
            ways.push((self.finite(node, value)?, next));
        }
        Ok(())
    }
}

fn ends(product: &Product, progress: &Progress) -> bool {
    let counted = product.counts.iter().zip(&progress.counts).all(|(count, so_far)| *so_far >= count.min);
    let compared = product.compared != EqualItems::Required || progress.repeated;
    counted && compared && progress.items >= product.min
}

/// The ways to read an item with respect to one count: the additional condition, and the count after it.
fn options(count: &Count, index: u32, so_far: u32) -> Vec<(Option<Literal>, u32)> {
    if index < count.from {
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

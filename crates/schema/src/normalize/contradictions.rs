//! Searches for contradictions: branches, members and items without a possible value.
//!
//! A search asks whether some set of schemas has no value, as far as it can tell within its limits. It refuses
//! nothing and reports no error of its own: a search that reaches a limit has found no contradiction. Results that
//! depend on such a search are marked as rough and are used only in other searches.

use std::rc::Rc;

use super::{
    expander::{Branch, Expander},
    shape::{ALL, ARRAY, OBJECT, Shape, Types},
};
use crate::{SchemaError, document::literal::Literal};

/// The depth of the search for a contradiction, in required members and items.
const DEPTH: u32 = 3;

/// The largest number of nested searches for a contradiction; an expansion may start a search, and a search may
/// expand.
const NESTED: u32 = 4;

/// The largest number of alternatives in one search for a contradiction, and in all searches, as a multiple of the
/// limit.
const ONE_SEARCH: usize = 1_000;

const ALL_SEARCHES: usize = 4;

/// The cost of comparing two schemas, in units of `SchemaLimits::carried`; `oneOf` compares each pair.
const PAIR_COST: usize = 16;

impl Expander {
    /// Runs a search for a contradiction: the result of `find`, or `false` if the search takes too long.
    fn search(
        &mut self,
        find: impl FnOnce(&mut Self) -> Result<bool, SchemaError>,
    ) -> Result<bool, SchemaError> {
        if self.open_searches == 0 {
            let all = self.limits.alternatives.saturating_mul(ALL_SEARCHES);
            self.search_end = all.min(self.searched.saturating_add(ONE_SEARCH));
        }
        if self.open_searches >= NESTED || self.searched >= self.search_end {
            self.cut_searches += 1;
            return Ok(false);
        }
        self.open_searches += 1;
        let found = find(self);
        self.open_searches -= 1;
        match found {
            Err(SchemaError::Limit { .. } | SchemaError::Automaton { .. }) => {
                self.cut_searches += 1;
                Ok(false)
            }
            found => found,
        }
    }

    /// Removes objects from a shape with a required member that has no possible value. A choice that a member
    /// decides (`kind`, say) is thereby made once, and not in every combination.
    pub(super) fn prune(&mut self, branch: &mut Branch) -> Result<(), SchemaError> {
        let shape = &branch.shape;
        let known = shape.properties.len() + shape.property.len() + shape.names.len();
        let said = known + shape.required.len();
        if shape.types & OBJECT == 0 || known < 2 || said == branch.pruned_at {
            return Ok(());
        }
        branch.pruned_at = said;
        let shape = &branch.shape;
        if self.search(|ex| ex.lacks_member(shape, 1))? {
            branch.shape.types &= !OBJECT;
        }
        Ok(())
    }

    /// Whether no value satisfies both, as far as a cheap search can tell.
    pub(crate) fn disjoint(&mut self, left: Literal, right: Literal) -> Result<bool, SchemaError> {
        Ok(left == right.not() || self.overlap(left, right)? == 0)
    }

    /// The types whose values may satisfy both, as far as a cheap search can tell.
    pub(crate) fn overlap(&mut self, left: Literal, right: Literal) -> Result<Types, SchemaError> {
        let pair = (left.min(right), left.max(right));
        if let Some(known) = self.overlaps.get(&pair, self.open_searches > 0) {
            return Ok(*known);
        }
        self.carry(PAIR_COST)?;
        let cuts = self.cut_searches;
        // A provisional result, because the search may ask for the same pair.
        self.overlaps.insert(pair, ALL, true);
        let mut types = ALL;
        let set = [pair.0, pair.1];
        let known = self.shapes.get(&set[..], true).is_some();
        self.search(|ex| {
            types = ex.types_of(&set, DEPTH)?;
            Ok(true)
        })?;
        if !known {
            // Few pairs are asked for again, and there may be very many.
            self.shapes.remove(&set[..]);
        }
        self.overlaps.insert(pair, types, self.is_rough(cuts));
        Ok(types)
    }

    /// Whether no value satisfies all of the set, as far as a search of `depth` levels can tell.
    fn is_empty(&mut self, set: &[Literal], depth: u32) -> Result<bool, SchemaError> {
        Ok(self.types_of(set, depth)? == 0)
    }

    /// The types of the values that satisfy all of the set, as far as a search of `depth` levels can tell.
    fn types_of(&mut self, set: &[Literal], depth: u32) -> Result<Types, SchemaError> {
        if self.pending.contains(set) {
            self.cut_searches += 1;
            return Ok(ALL);
        }
        let shapes = self.shapes(set)?;
        let mut all = 0;
        for shape in shapes.iter() {
            let mut types: Types = shape.types;
            if let Some(values) = &shape.one_of
                && types & (ARRAY | OBJECT) & !all != 0
            {
                let mut fitting = false;
                for value in values {
                    fitting = fitting || self.constant_has_shape(*value, shape)?;
                }
                types &= if fitting { ALL } else { !(ARRAY | OBJECT) };
            }
            if types & OBJECT & !all != 0 && depth > 0 && self.lacks_member(shape, depth)? {
                types &= !OBJECT;
            }
            if types & ARRAY & !all != 0 && depth > 0 && self.lacks_item(shape, depth)? {
                types &= !ARRAY;
            }
            all |= types;
        }
        Ok(all)
    }

    /// Whether an object of the shape needs a member that has no possible value, as far as the search can tell.
    fn lacks_member(&mut self, shape: &Shape, depth: u32) -> Result<bool, SchemaError> {
        for name in &shape.required {
            let Some(parts) = self.member_conditions(shape, name)? else { return Ok(true) };
            if !parts.is_empty() && self.is_empty(&parts, depth - 1)? {
                return Ok(true);
            }
        }
        if shape.witnesses.is_empty() {
            return Ok(false);
        }
        let Some(names) = self.all_names(shape) else { return Ok(false) };
        for witness in &shape.witnesses {
            let mut found = false;
            for name in &names {
                if !found
                    && self.is_in(name, &witness.names)?
                    && let Some(mut parts) = self.member_conditions(shape, name)?
                {
                    parts.extend(witness.value);
                    found = match self.normal(parts) {
                        Some(parts) => parts.is_empty() || !self.is_empty(&parts, depth - 1)?,
                        None => false,
                    };
                }
            }
            if !found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an array of the shape needs an item that has no possible value, as far as the search can tell.
    fn lacks_item(&mut self, shape: &Shape, depth: u32) -> Result<bool, SchemaError> {
        let fewest = shape.min_items.max(shape.counts.iter().map(|count| count.min).max().unwrap_or(0));
        if fewest == 0 {
            return Ok(false);
        }
        let items = self.item_conditions(shape);
        for index in 0..=items.alike.min(fewest - 1) {
            let mut found = false;
            for set in self.item_sets(shape, &items, index)? {
                found = found || set.is_empty() || !self.is_empty(&set, depth - 1)?;
            }
            if !found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A superset of the member names of the shape, if a schema lists them.
    fn all_names(&self, shape: &Shape) -> Option<Vec<Rc<str>>> {
        let document = &self.schemas.document;
        let closed = shape.properties.iter().find(|group| {
            let additional = document.member(**group, "additionalProperties");
            additional.is_some_and(|additional| self.schemas.trivial(additional) == Some(false))
                && document.member(**group, "patternProperties").is_none()
        })?;
        let declared = document.member(*closed, "properties").and_then(|declared| document.members(declared));
        Some(declared.unwrap_or_default().iter().map(|(name, _)| name.clone()).collect())
    }

    /// Whether the literal is about a list of values, which are cheap to compare.
    pub(crate) fn is_listed(&self, literal: Literal) -> bool {
        let member = |keyword| self.schemas.document.member(literal.node, keyword).is_some();
        literal.constant || member("const") || member("enum")
    }
}

//! Objects as rules.
//!
//! Members come in the order of the schema, then members that are only required, then all others. So an object of n
//! properties is a chain of 2n rules and not n! orders. If members are counted, or a negation requires some member
//! (a [`Witness`](crate::normalize::shape::Witness)), there is one chain for each count and each set of witnesses
//! found so far. A member that could serve as a witness may also be read as an ordinary member; both readings end
//! only when all witnesses are found.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_grammars::{ExprId, RuleId};

use super::rules::{Emitter, Once, WRITTEN_OUT};
use crate::{
    MemberOrder, SchemaError,
    document::{
        json::{Document, NodeId},
        schemas::Literal,
    },
    normalize::{keywords, shape::Shape},
    text::{
        enumerated::{few_texts, texts},
        languages::{Language, TEXT},
        standard,
    },
};

/// A member with a given name.
struct Member {
    /// The rules of its values, one for each way.
    rules: Vec<RuleId>,
    /// The ways to write it, each with the witnesses that it then serves as, as bits.
    ways: Vec<(usize, ExprId)>,
    required: bool,
}

/// Members with names that the schema does not list.
#[derive(Default)]
struct Others {
    /// The ways to write one, each with the witnesses that it then serves as.
    ways: Vec<(usize, ExprId)>,
    /// The largest number of these members before names run out; `None` if nothing uses the names up.
    most: Option<u32>,
}

/// Which named members, and how many unnamed ones, serve as which witnesses.
type Cast = (Vec<(usize, usize)>, Vec<usize>);

impl Emitter {
    pub(crate) fn object(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let mut names: Vec<Box<str>> = vec![];
        let mut known: std::collections::HashSet<Box<str>> = std::collections::HashSet::new();
        for group in &shape.properties {
            let declared = self.ex.schemas.document.member(*group, "properties");
            let declared = declared.and_then(|declared| self.ex.schemas.document.members(declared));
            names.extend(declared.unwrap_or_default().iter().map(|(name, _)| name.clone()));
        }
        names.extend(shape.property.iter().map(|(name, _)| name.clone()));
        names.extend(shape.required.iter().cloned());
        names.retain(|name| known.insert(name.clone()));
        let witnesses = shape.witnesses.len();
        let limit = self.ex.limits.products;
        if 1usize.checked_shl(u32::try_from(witnesses).unwrap_or(u32::MAX)).is_none_or(|sets| sets > limit) {
            let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
            let what = "the members of an object that have to be found";
            return Err(SchemaError::limit(&pointer, what, limit, "products"));
        }
        let mut members = vec![];
        for name in &names {
            let required = shape.required.contains(name);
            match self.ex.property(shape, name)? {
                Some(set) => {
                    let member = self.named_member(shape, name, &set, required)?;
                    if required && member.ways.is_empty() {
                        return Ok(None);
                    }
                    members.push(member);
                }
                None if required => return Ok(None),
                None => {}
            }
        }
        names.extend(shape.forbidden.iter().cloned());
        let others = self.others(set, shape, &names, &mut members)?;
        let object = match others.most.filter(|_| witnesses > 0) {
            // Every class of names keeps one name for a required witness. Few enough members are written to
            // guarantee it.
            Some(most) => {
                // The members are counted for each set of found witnesses.
                let room = (limit >> witnesses).saturating_sub(2);
                let most = most.min(u32::try_from(room).unwrap_or(u32::MAX));
                let required = u32::try_from(shape.required.len() + witnesses).unwrap_or(u32::MAX);
                let node = set.first().map_or(Document::ROOT, |literal| literal.node);
                let why = format!(
                    "objects in which some member has to be found have at most {most} members, since names run out"
                );
                if most < shape.min_properties.max(required) {
                    let keyword = if most < shape.min_properties { "minProperties" } else { "required" };
                    self.ex.reject(node, keyword, &why, "ask for fewer members, or allow more names");
                }
                let max_properties = shape.max_properties.into_iter().chain([most]).min();
                if max_properties != shape.max_properties {
                    self.ex.narrow_down(node, "", why);
                }
                let others = Others { most: None, ways: others.ways.clone() };
                self.members(set, &Shape { max_properties, ..shape.clone() }, &members, &others)?
            }
            None => self.members(set, shape, &members, &others)?,
        };
        // No name occurs twice: each listed name has one position, and the engine remembers the others.
        Ok(object.map(|object| if others.ways.is_empty() { object } else { self.scope("object", object) }))
    }

    /// The member `name` with a value that satisfies `set`.
    fn named_member(
        &mut self,
        shape: &Shape,
        name: &str,
        set: &[Literal],
        required: bool,
    ) -> Result<Member, SchemaError> {
        // Its name alone makes it some of the witnesses, and its value may make it more.
        let (mut by_name, mut by_value) = (0, vec![]);
        for (index, witness) in shape.witnesses.iter().enumerate() {
            if self.ex.is_in(name, &witness.names)? {
                match witness.value {
                    Some(value) => by_value.push((1 << index, value)),
                    None => by_name |= 1 << index,
                }
            }
        }
        let (mut ways, mut rules) = (vec![], vec![]);
        for choice in 0..1usize << by_value.len() {
            let chosen = by_value.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
            let found = chosen.clone().fold(by_name, |found, (_, (bit, _))| found | bit);
            let whole = set.iter().copied().chain(chosen.map(|(_, (_, value))| *value)).collect();
            if let Some(whole) = self.ex.normal(whole)
                && let Some(rule) = self.rule(&whole)?
            {
                let value = self.builder.call(rule);
                ways.push((found, self.member(name, value)));
                rules.push(rule);
            }
        }
        Ok(Member { rules, ways, required })
    }

    /// Members with names that are not in `names`. If a pattern has few names, each becomes one of `members`.
    fn others(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        names: &[Box<str>],
        members: &mut Vec<Member>,
    ) -> Result<Others, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let mut groups = vec![];
        for group in &shape.properties {
            let additional = self.ex.schemas.document.member(*group, "additionalProperties");
            let patterns = keywords::patterns(&mut self.ex, *group)?;
            let patterns: Vec<_> =
                patterns.into_iter().map(|(names, schema)| (names, Some(schema))).collect();
            groups.push((patterns, additional));
        }
        for unevaluated in &shape.unevaluated_properties {
            let mut patterns = vec![];
            for group in unevaluated.groups.iter() {
                patterns.extend(
                    keywords::patterns(&mut self.ex, *group)?.into_iter().map(|(names, _)| (names, None)),
                );
            }
            groups.push((patterns, Some(unevaluated.schema.node)));
        }
        let closed = groups.iter().any(|(patterns, additional)| {
            let closed =
                additional.is_some_and(|additional| self.ex.schemas.trivial(additional) == Some(false));
            closed && patterns.is_empty()
        });
        if closed {
            return Ok(Others::default());
        }
        if shape.names.is_empty()
            && shape.witnesses.is_empty()
            && groups.iter().all(|(kinds, _)| kinds.is_empty())
        {
            // No pattern distinguishes names.
            let name = self.other_name(names)?;
            let schemas = groups.iter().filter_map(|(_, additional)| *additional);
            let all = schemas.map(|schema| self.ex.schemas.literal(schema)).collect::<Result<_, _>>()?;
            let Some(all) = self.ex.normal(all) else { return Ok(Others::default()) };
            let Some(rule) = self.rule(&all)? else { return Ok(Others::default()) };
            let value = self.builder.call(rule);
            let other = self.named(name, value);
            let other = self.shared("other members", vec![other]).map(|other| (0, other));
            return Ok(Others { ways: other.into_iter().collect(), most: None });
        }
        // The names of each witness are a class too.
        for witness in &shape.witnesses {
            groups.push((vec![(self.ex.name_set(&witness.names)?, None)], None));
        }
        let mut all = self.ex.languages.pattern(TEXT);
        for literal in &shape.names {
            let allowed = self.ex.names(&[*literal])?;
            all = all.and_then(|all| self.ex.languages.and(&all, &allowed));
        }
        let texts: Vec<&str> = names.iter().map(|name| &**name).collect();
        let declared = self.ex.languages.texts(&texts);
        let all = all.and_then(|all| self.ex.languages.minus(&all, &declared?));
        let all = self.ex.located(node, all)?;
        // Classes of names by the patterns that they match: the names, the schemas, and the groups with a match.
        let mut kinds: Vec<(Language, Vec<NodeId>, Vec<bool>)> =
            vec![(all, vec![], vec![false; groups.len()])];
        for (index, (patterns, _)) in groups.iter().enumerate() {
            for (pattern, schema) in patterns {
                let mut split = vec![];
                for (language, schemas, matched) in kinds {
                    let within = self.ex.languages.and(&language, pattern);
                    let within = self.ex.located(node, within)?;
                    let without = self.ex.languages.minus(&language, pattern);
                    let without = self.ex.located(node, without)?;
                    if within.is_some() {
                        let (mut schemas, mut matched) = (schemas.clone(), matched.clone());
                        schemas.extend(*schema);
                        matched[index] = true;
                        split.push((within, schemas, matched));
                    }
                    if without.is_some() {
                        split.push((without, schemas, matched));
                    }
                }
                kinds = split;
                let limit = self.ex.limits.name_patterns;
                if kinds.len() > limit {
                    let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
                    return Err(SchemaError::limit(&pointer, "the kinds of names", limit, "name_patterns"));
                }
            }
        }
        let mut named = vec![];
        for (language, mut schemas, matched) in kinds {
            let few = language.as_deref().and_then(|names| few_texts(names, u64::from(self.ex.limits.names)));
            if let Some(few) = few {
                for name in few {
                    if let Some(set) = self.ex.property(shape, &name)? {
                        let member = self.named_member(shape, &name, &set, false)?;
                        members.push(member);
                    }
                }
                continue;
            }
            let additional = groups.iter().zip(matched).filter(|(_, matched)| !matched);
            schemas.extend(additional.filter_map(|((_, additional), _)| *additional));
            let set: Vec<Literal> = schemas
                .into_iter()
                .map(|schema| self.ex.schemas.literal(schema))
                .collect::<Result<_, _>>()?;
            named.push((language, set));
        }
        let mut ways = vec![];
        // For each class and set of witnesses: the witnesses, the number of names, and the rule of the values.
        let mut counts: Vec<(usize, Option<u32>, RuleId)> = vec![];
        for found in 0..1usize << shape.witnesses.len() {
            let witnesses = shape.witnesses.iter().enumerate().filter(|(index, _)| found >> index & 1 == 1);
            let witnesses: Vec<_> = witnesses.map(|(_, witness)| witness).collect();
            let mut all = vec![];
            for (language, set) in &named {
                let mut language = language.clone();
                for witness in &witnesses {
                    let names = self.ex.name_set(&witness.names)?;
                    let both = self.ex.languages.and(&language, &names);
                    language = self.ex.located(node, both)?;
                }
                let set = set.iter().copied().chain(witnesses.iter().filter_map(|witness| witness.value));
                if let (Some(language), Some(set)) = (language, self.ex.normal(set.collect()))
                    && let Some(rule) = self.rule(&set)?
                {
                    let name = self.new_name(node, &language)?;
                    counts.push((found, name.most, rule));
                    let value = self.builder.call(rule);
                    all.push(self.named(name.expr, value));
                }
            }
            ways.extend(self.shared("other members", all).map(|other| (found, other)));
        }
        let are_few = counts.iter().any(|(_, count, _)| count.is_some());
        if are_few && counts.len() > 1 {
            self.count_on(counts.iter().map(|(.., rule)| *rule));
        }
        // A member may take a name of any class that has one left, and a witness takes a name of its own classes.
        let all = |of: usize| {
            let mut kinds = counts.iter().filter(|(found, ..)| found & of == of).peekable();
            kinds.peek()?;
            kinds.try_fold(0u32, |all, (_, count, _)| Some(all.saturating_add((*count)?)))
        };
        let most = (0..shape.witnesses.len()).map(|index| 1 << index).chain([0]).filter_map(all).min();
        Ok(Others { ways, most })
    }

    /// Any name that is not in `names` and that the object does not have. Each name has one spelling, so equal
    /// names have equal texts.
    fn other_name(&mut self, names: &[Box<str>]) -> Result<ExprId, SchemaError> {
        let made = standard::written(self.ascii);
        let name = self.ex.located(None, made)?;
        let written: Vec<String> = names.iter().map(|name| self.written(name)).collect();
        Ok(self.builder.distinct("name", &name, written, None)?)
    }

    /// One of `names` that the object does not have. `names` has more than a few names.
    fn new_name(&mut self, node: Option<NodeId>, names: &Arc<Dfa>) -> Result<Once, SchemaError> {
        if let Some(known) = self.distinct.get(&Arc::as_ptr(names)) {
            return Ok(*known);
        }
        let written = self.ex.languages.written(names);
        let written = self.ex.located(node, written)?.ok_or(SchemaError::Unsatisfiable)?;
        let most = texts(&written);
        let made = Once { expr: self.builder.distinct("name", &written, [""; 0], most)?, most };
        self.keep(names);
        self.distinct.insert(Arc::as_ptr(names), made);
        Ok(made)
    }

    /// An object with `members` in this order and `others` after them.
    fn members(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        members: &[Member],
        others: &Others,
    ) -> Result<Option<ExprId>, SchemaError> {
        let (others, most) = (&others.ways, others.most);
        let required =
            u32::try_from(members.iter().filter(|member| member.required).count()).unwrap_or(u32::MAX);
        let total = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let min = if shape.min_properties <= required { 0 } else { shape.min_properties };
        let mut max = shape.max_properties.filter(|max| !others.is_empty() || *max < total);
        if self.order == MemberOrder::Any {
            let empty = required == 0 && min == 0;
            if let Some(most) = most {
                // The other members run out of names at `most`; together with the named members that bounds the
                // object.
                let written: Vec<RuleId> =
                    members.iter().flat_map(|member| member.rules.iter().copied()).collect();
                let named = members.iter().filter(|member| !member.ways.is_empty()).count();
                self.count_on(written);
                let all = most.saturating_add(u32::try_from(named).unwrap_or(u32::MAX));
                max = Some(max.map_or(all, |max| max.min(all)));
                if max < Some(min) {
                    return Ok(None);
                }
            }
            return self.any_order(set, shape, members, others, (min, max, empty));
        }
        let chain = Chain {
            // Members are counted only if a bound applies, and only up to the bound.
            most: max.unwrap_or(min),
            min,
            max,
            sets: 1 << shape.witnesses.len(),
            others: most,
        };
        let limit = self.ex.limits.products;
        if !others.is_empty() && chain.sets > 1 && chain.states(chain.most) > limit {
            let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
            let what = "the members of an object that are counted or found";
            return Err(SchemaError::limit(&pointer, what, limit, "products"));
        }
        // The continuations after the last named member, and the continuations that begin with a first member.
        let (mut rest, mut from) = self.tail(&chain, total, others)?;
        let mut all_optional = true;
        for (place, member) in (0..total).zip(members).rev() {
            self.check()?;
            let (mut rest_here, mut from_here) = (vec![], vec![]);
            all_optional &= !member.required;
            for (count, found) in chain.all(place) {
                let mut ways = vec![];
                for (next, expr) in chain.next(count, found, &member.ways) {
                    let behind = rest.get(next).copied().flatten();
                    ways.extend(behind.map(|behind| self.builder.sequence([expr, behind])));
                }
                let skipped = from.get(chain.index(count, found)).copied().flatten();
                ways.extend(skipped.filter(|_| !member.required));
                let next = self.shared("members", ways);
                from_here.push(next);
                let mut ways = vec![];
                ways.extend(next.map(|next| self.comma(next)));
                ways.extend((all_optional && chain.ends(count, found)).then(|| self.builder.empty()));
                rest_here.push(self.shared("more members", ways));
            }
            (rest, from) = (rest_here, from_here);
        }
        let empty = all_optional && chain.ends(0, 0);
        Ok(self.enclosed("{", "}", from.first().copied().flatten(), empty))
    }

    /// An object with `members` in any order. Each witness is one of the named members or of the others, and that
    /// member is required.
    fn any_order(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        members: &[Member],
        others: &[(usize, ExprId)],
        (min, max, empty): (u32, Option<u32>, bool),
    ) -> Result<Option<ExprId>, SchemaError> {
        let way = |ways: &[(usize, ExprId)], found: usize| {
            ways.iter().find(|(of, _)| of & found == found).map(|(_, expr)| *expr)
        };
        let given = members.iter().filter(|member| member.required);
        let given = given.map(|member| member.ways.iter().fold(usize::MAX, |all, (found, _)| all & found));
        let given = given.fold(0, |all, found| all | found);
        let mut casts: Vec<Cast> = vec![(vec![], vec![])];
        let wanted = (0..shape.witnesses.len()).map(|index| 1usize << index).filter(|bit| given & bit == 0);
        let wanted: Vec<usize> = wanted.collect();
        for bit in &wanted {
            let mut longer = vec![];
            for (named, unnamed) in casts {
                for (index, member) in members.iter().enumerate() {
                    let cast = named.iter().position(|(of, _)| *of == index);
                    let found = cast.map_or(0, |cast| named[cast].1) | bit;
                    if way(&member.ways, found).is_some() {
                        let mut named = named.clone();
                        match cast {
                            Some(cast) => named[cast].1 = found,
                            None => named.push((index, found)),
                        }
                        longer.push((named, unnamed.clone()));
                    }
                }
                for index in 0..=unnamed.len() {
                    let mut unnamed = unnamed.clone();
                    match unnamed.get_mut(index) {
                        Some(found) => *found |= bit,
                        None => unnamed.push(*bit),
                    }
                    if others.iter().any(|(found, _)| *found == unnamed[index]) {
                        longer.push((named.clone(), unnamed));
                    }
                }
            }
            casts = longer;
            let limit = self.ex.limits.products;
            if casts.len() > limit {
                let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
                let what = "the members of an object that have to be found";
                return Err(SchemaError::limit(&pointer, what, limit, "products"));
            }
        }
        let any = way(others, 0);
        let mut ways = vec![];
        for (named, unnamed) in casts {
            self.check()?;
            let mut parts = vec![];
            for (index, member) in members.iter().enumerate() {
                let cast = named.iter().find(|(of, _)| *of == index);
                let expr = way(&member.ways, cast.map_or(0, |(_, found)| *found));
                parts.extend(expr.map(|expr| (expr, member.required || cast.is_some())));
            }
            for found in unnamed {
                parts.extend(way(others, found).map(|expr| (expr, true)));
            }
            if (!parts.is_empty() || any.is_some()) && max != Some(0) {
                ways.push(self.in_any_order(parts, any, min.max(1), max));
            }
        }
        let inner = self.shared("members in any order", ways);
        Ok(self.enclosed("{", "}", inner, empty && wanted.is_empty()))
    }

    /// By state of the chain: the continuations after all named members, beginning with a comma, and the
    /// continuations without any member so far, beginning without one.
    #[allow(clippy::type_complexity, reason = "two lists of the same kind")]
    fn tail(
        &mut self,
        chain: &Chain,
        total: u32,
        others: &[(usize, ExprId)],
    ) -> Result<(Vec<Option<ExprId>>, Vec<Option<ExprId>>), SchemaError> {
        // Other members are counted one by one only if they may serve as witnesses.
        let last = if others.is_empty() || chain.sets == 1 { chain.most.min(total) } else { chain.most };
        let mut rest = vec![None; chain.states(last)];
        let any = others.iter().find(|(found, _)| *found == 0).map(|(_, expr)| *expr);
        for (count, found) in chain.all(last).into_iter().rev() {
            self.check()?;
            let index = chain.index(count, found);
            if found + 1 == chain.sets {
                rest[index] = self.repeated_others(chain, count, any, 0)?;
                continue;
            }
            let rule = self.builder.rule("other members");
            let mut ways = vec![];
            for (next, expr) in chain.next(count, found, others) {
                let behind = if next == index { Some(self.builder.call(rule)) } else { rest[next] };
                let Some(behind) = behind else { continue };
                let item = self.comma(expr);
                ways.push(self.builder.sequence([item, behind]));
            }
            if !ways.is_empty() {
                let body = self.builder.choice(ways);
                self.builder.define(rule, body);
                rest[index] = Some(self.builder.call(rule));
            } else {
                let body = self.builder.call(rule);
                self.builder.define(rule, body);
            }
        }
        let mut from = vec![];
        for (count, found) in chain.all(last) {
            let mut ways = vec![];
            for (next, expr) in chain.next(count, found, others) {
                let behind = match rest.get(next).filter(|_| chain.others.is_none()) {
                    Some(behind) => *behind,
                    None => self.repeated_others(chain, count + 1, any, 1)?,
                };
                ways.extend(behind.map(|behind| self.builder.sequence([expr, behind])));
            }
            from.push(self.shared("other members", ways));
        }
        Ok((rest, from))
    }

    /// The continuations after `count` members, of which `others` are unlisted, if all witnesses are found: as many
    /// other members as the bounds and the names allow.
    fn repeated_others(
        &mut self,
        chain: &Chain,
        count: u32,
        other: Option<ExprId>,
        others: u32,
    ) -> Result<Option<ExprId>, SchemaError> {
        match other.filter(|_| chain.max.is_none_or(|max| count < max)) {
            Some(other) => {
                let room = chain.max.map(|max| max - count).into_iter();
                let max = room.chain(chain.others.map(|most| most.saturating_sub(others))).min();
                self.more(other, chain.min.saturating_sub(count), max, WRITTEN_OUT)
            }
            None => Ok((count >= chain.min).then(|| self.builder.empty())),
        }
    }
}

/// The states of an object: the number of its members, and the witnesses found.
struct Chain {
    /// The largest count that is distinguished. Larger counts are equivalent to it, or exceed the maximum.
    most: u32,
    min: u32,
    max: Option<u32>,
    /// The number of sets of witnesses.
    sets: usize,
    /// The largest number of members with names that the schema does not list, if these names run out.
    others: Option<u32>,
}

impl Chain {
    fn index(&self, count: u32, found: usize) -> usize {
        count as usize * self.sets + found
    }

    /// All states with at most `most` members, in the order of their indices.
    fn all(&self, most: u32) -> Vec<(u32, usize)> {
        let counts = 0..=self.most.min(most);
        counts.flat_map(|count| (0..self.sets).map(move |found| (count, found))).collect()
    }

    fn states(&self, most: u32) -> usize {
        (most as usize + 1).saturating_mul(self.sets)
    }

    /// The successors of a state by `ways`, each with its first way.
    fn next<'w>(
        &self,
        count: u32,
        found: usize,
        ways: &'w [(usize, ExprId)],
    ) -> impl Iterator<Item = (usize, ExprId)> + use<'w> {
        let full = self.max.is_some_and(|max| count >= max);
        let (next, sets) = ((count + 1).min(self.most), self.sets);
        let mut seen = vec![];
        ways.iter().filter(move |_| !full).filter_map(move |(of, expr)| {
            // The ways with the fewest conditions come first.
            let found = found | of;
            if seen.contains(&found) {
                return None;
            }
            seen.push(found);
            Some((next as usize * sets + found, *expr))
        })
    }

    fn ends(&self, count: u32, found: usize) -> bool {
        count >= self.min && found + 1 == self.sets
    }
}

//! Objects as rules.
//!
//! Members come in the order of the schema, then members that are only required, then all others. So an object of n
//! properties is a chain of 2n rules and not n! orders. If members are counted, or a negation requires some member
//! (a [`Witness`](crate::normalize::shape::Witness)), there is one chain for each count and each set of witnesses
//! found so far. A member that could serve as a witness may also be read as an ordinary member; both readings end
//! only when all witnesses are found.

use unskew_grammar::{ExprId, RuleId};

use super::{
    chain::{Chain, ChainState},
    elements::Name,
    emitter::{Emitter, WRITTEN_OUT},
    members::{MemberWay, NamedMember, OtherMembers, WitnessSet},
};
use crate::{
    MemberOrder, SchemaError,
    document::{json::Document, literal::Literal},
    normalize::shape::Shape,
};

/// Which named members, and how many unnamed ones, serve as which witnesses.
#[derive(Clone, Default)]
struct Cast {
    /// Indices of named members.
    named: Vec<(usize, WitnessSet)>,
    /// One set for each unnamed member.
    unnamed: Vec<WitnessSet>,
}

impl Emitter {
    pub(crate) fn object(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        if !shape.factors.is_empty() {
            return self.factored(set, shape);
        }
        let mut names = self.listed_names(shape);
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
            match self.ex.member_conditions(shape, name)? {
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
                let others = OtherMembers { most: None, ways: others.ways.clone() };
                self.members(set, &Shape { max_properties, ..shape.clone() }, &members, &others)?
            }
            None => self.members(set, shape, &members, &others)?,
        };
        // No name occurs twice: each listed name has one position, and the engine remembers the others.
        Ok(object.map(|object| if others.ways.is_empty() { object } else { self.scope("object", object) }))
    }

    /// The member `name` with a value that satisfies `set`.
    pub(super) fn named_member(
        &mut self,
        shape: &Shape,
        name: &str,
        set: &[Literal],
        required: bool,
    ) -> Result<NamedMember, SchemaError> {
        // Its name alone makes it some of the witnesses, and its value may make it more.
        let (mut by_name, mut by_value) = (WitnessSet::EMPTY, vec![]);
        for (index, witness) in shape.witnesses.iter().enumerate() {
            if self.ex.is_in(name, &witness.names)? {
                match witness.value {
                    Some(value) => by_value.push((WitnessSet::one(index), value)),
                    None => by_name = by_name.union(WitnessSet::one(index)),
                }
            }
        }
        let (mut ways, mut rules) = (vec![], vec![]);
        for choice in 0..1usize << by_value.len() {
            let chosen = by_value.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
            let found = chosen.clone().fold(by_name, |found, (_, (one, _))| found.union(*one));
            let whole = set.iter().copied().chain(chosen.map(|(_, (_, value))| *value)).collect();
            if let Some(whole) = self.ex.normal(whole)
                && let Some((expr, own)) = self.member_of(Name::Listed(name), &whole)?
            {
                ways.push(MemberWay { found, expr });
                rules.extend(own);
            }
        }
        Ok(NamedMember { rules, ways, required })
    }

    /// An object with `members` in this order and `others` after them.
    fn members(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        members: &[NamedMember],
        others: &OtherMembers,
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
            witnesses: shape.witnesses.len(),
            others: most,
        };
        let limit = self.ex.limits.products;
        if !others.is_empty() && chain.witnesses > 0 && chain.states(chain.most) > limit {
            let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
            let what = "the members of an object that are counted or found";
            return Err(SchemaError::limit(&pointer, what, limit, "products"));
        }
        // The continuations after the last named member, and the continuations that begin with a first member.
        let layer = |before| chain.layer(before, others.is_empty().then(|| total - before));
        let (mut rest, mut from) = self.tail(&chain, total, others)?;
        let mut all_optional = true;
        for (before, member) in (0..total).zip(members).rev() {
            self.check()?;
            let (mut rest_here, mut from_here) = (vec![], vec![]);
            all_optional &= !member.required;
            let later = layer(before + 1);
            for state in layer(before).all() {
                let mut ways = vec![];
                for (next, expr) in chain.next(state, &member.ways) {
                    let after = rest.get(later.index(next)).copied().flatten();
                    ways.extend(after.map(|after| self.sequence([expr, after])));
                }
                let skipped = from.get(later.index(state)).copied().flatten();
                ways.extend(skipped.filter(|_| !member.required));
                let next = self.shared("members", ways);
                from_here.push(next);
                let mut ways = vec![];
                ways.extend(next.map(|next| self.comma(next)));
                ways.extend((all_optional && chain.ends(state)).then(|| self.nothing()));
                rest_here.push(self.shared("more members", ways));
            }
            (rest, from) = (rest_here, from_here);
        }
        let empty = all_optional && chain.ends(Chain::START);
        Ok(self.enclosed("{", "}", from.first().copied().flatten(), empty))
    }

    /// An object with `members` in any order. Each witness is one of the named members or of the others, and that
    /// member is required.
    fn any_order(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        members: &[NamedMember],
        others: &[MemberWay],
        (min, max, empty): (u32, Option<u32>, bool),
    ) -> Result<Option<ExprId>, SchemaError> {
        let way = |ways: &[MemberWay], found: WitnessSet| {
            ways.iter().find(|way| way.found.includes(found)).map(|way| way.expr)
        };
        let given = members.iter().filter(|member| member.required);
        let given = given
            .filter_map(|member| member.ways.iter().map(|way| way.found).reduce(WitnessSet::intersection));
        let given = given.fold(WitnessSet::EMPTY, WitnessSet::union);
        let mut casts: Vec<Cast> = vec![Cast::default()];
        let wanted = (0..shape.witnesses.len()).filter(|index| !given.has(*index)).map(WitnessSet::one);
        let wanted: Vec<WitnessSet> = wanted.collect();
        for one in &wanted {
            let mut longer = vec![];
            for cast in casts {
                for (index, member) in members.iter().enumerate() {
                    let role = cast.named.iter().position(|(of, _)| *of == index);
                    let found = role.map_or(WitnessSet::EMPTY, |role| cast.named[role].1).union(*one);
                    if way(&member.ways, found).is_some() {
                        let mut cast = cast.clone();
                        match role {
                            Some(role) => cast.named[role].1 = found,
                            None => cast.named.push((index, found)),
                        }
                        longer.push(cast);
                    }
                }
                for index in 0..=cast.unnamed.len() {
                    let mut cast = cast.clone();
                    match cast.unnamed.get_mut(index) {
                        Some(found) => *found = found.union(*one),
                        None => cast.unnamed.push(*one),
                    }
                    if others.iter().any(|way| way.found == cast.unnamed[index]) {
                        longer.push(cast);
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
        let any = way(others, WitnessSet::EMPTY);
        let mut ways = vec![];
        for cast in casts {
            self.check()?;
            let mut parts = vec![];
            for (index, member) in members.iter().enumerate() {
                let role = cast.named.iter().find(|(of, _)| *of == index);
                let expr = way(&member.ways, role.map_or(WitnessSet::EMPTY, |(_, found)| *found));
                parts.extend(expr.map(|expr| (expr, member.required || role.is_some())));
            }
            for found in cast.unnamed {
                parts.extend(way(others, found).map(|expr| (expr, true)));
            }
            if (!parts.is_empty() || any.is_some()) && max != Some(0) {
                ways.push(self.in_any_order(parts, any, min.max(1), max));
            }
        }
        let inner = self.shared("members in any order", ways);
        Ok(self.enclosed("{", "}", inner, empty && wanted.is_empty()))
    }

    /// By state of the chain's last layer: the continuations after all named members, beginning with a comma, and the
    /// continuations without any member so far, beginning without one.
    #[allow(clippy::type_complexity, reason = "two lists of the same kind")]
    pub(super) fn tail(
        &mut self,
        chain: &Chain,
        total: u32,
        others: &[MemberWay],
    ) -> Result<(Vec<Option<ExprId>>, Vec<Option<ExprId>>), SchemaError> {
        // Other members are counted one by one only if they may serve as witnesses.
        let last = if others.is_empty() || chain.witnesses == 0 { chain.most.min(total) } else { chain.most };
        let layer = chain.layer(last, others.is_empty().then_some(0));
        let states: Vec<ChainState> = layer.all().collect();
        let mut rest = vec![None; states.len()];
        let any = others.iter().find(|way| way.found == WitnessSet::EMPTY).map(|way| way.expr);
        for (index, state) in states.iter().copied().enumerate().rev() {
            self.check()?;
            if chain.is_complete(state.found) {
                rest[index] = self.repeated_others(chain, state.count, any, 0)?;
                continue;
            }
            let rule = self.builder.rule("other members");
            let mut ways = vec![];
            for (next, expr) in chain.next(state, others) {
                let after = if next == state { Some(self.call(rule)) } else { rest[layer.index(next)] };
                let Some(after) = after else { continue };
                let item = self.comma(expr);
                ways.push(self.sequence([item, after]));
            }
            if !ways.is_empty() {
                let body = self.builder.choice(ways);
                self.builder.define(rule, body);
                rest[index] = Some(self.call(rule));
            } else {
                let body = self.call(rule);
                self.builder.define(rule, body);
            }
        }
        let mut from = vec![];
        for state in states {
            let mut ways = vec![];
            for (next, expr) in chain.next(state, others) {
                let after = match rest.get(layer.index(next)).filter(|_| chain.others.is_none()) {
                    Some(after) => *after,
                    None => self.repeated_others(chain, state.count + 1, any, 1)?,
                };
                ways.extend(after.map(|after| self.sequence([expr, after])));
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
            None => Ok((count >= chain.min).then(|| self.nothing())),
        }
    }
}

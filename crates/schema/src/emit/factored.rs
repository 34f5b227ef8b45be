//! Objects with independent choices about their members.
//!
//! A member of a factor may have several values, by the shape that the object has for the factor. Which shapes are
//! left follows from the members that were read, so conditions that do not depend on each other are never combined.
//! In any order the object is one group, with a choice for each factor. In the order of the schema it is a chain,
//! whose states have the shapes that are left of the factors with members on both sides; shapes that ask the same of
//! all later members are one.
//!
//! Two values of one member that have a common text are read side by side, and such readings do multiply: "any value"
//! and "an integer" before the member that decides between them. Where they become many, the values are divided into
//! those that satisfy both, or one and not the other, and each shape into one for each. If that fails, their number
//! has a limit, since each is read in every mask.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use unskew_grammar::{ExprId, MemberChoice, MemberWay};

use super::{
    chain::Chain,
    elements::Name,
    emitter::Emitter,
    members::{NamedMember, OtherMembers, WitnessSet},
};
use crate::{
    MemberOrder, SchemaError,
    document::literal::Literal,
    normalize::{factors::may_have_factors, shape::Shape},
};

/// The number of readings of an object up to which values with a common text are not divided.
const SIDE_BY_SIDE: usize = 16;

/// The largest number of schemas by which the values of one member are divided.
const DIVIDED: usize = 3;

/// The largest number of ways of a factor after its values are divided.
const WAYS: usize = 256;

/// A member with a value: its index among those of the factor, and whether it is required.
type Asked = Option<(usize, bool)>;

/// The schemas of a part of values, and the values of which it is a part.
type Part = (Vec<Literal>, Vec<usize>);

/// A factor, as members of the object.
#[derive(Default)]
struct Factor {
    names: Vec<Rc<str>>,
    /// Members with a value.
    members: Vec<ExprId>,
    /// For each shape, by name: the member that it asks for or allows.
    ways: Vec<Vec<Asked>>,
    /// For each name and the names after it, by shape: the number of the class of shapes that ask the same of them.
    classes: Vec<Vec<usize>>,
}

/// A member of the object by its name.
enum Slot {
    /// An index of the members that are in no factor.
    Plain(usize),
    /// A factor, and the index of the name in it.
    Of(usize, usize),
}

/// The shapes that are left of each factor, as classes.
type State = Vec<Vec<usize>>;

/// The rest after a state: at least one member, without the comma before it; and whether the object may end.
type Rest = (Option<ExprId>, bool);

impl Emitter {
    /// An object of a shape with factors.
    pub(super) fn factored(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        if let Some(made) = self.with_factors(set, shape)? {
            return Ok(made);
        }
        let mut ways = vec![];
        for shape in self.ex.multiplied(set, shape)? {
            self.check()?;
            ways.extend(self.object(set, &shape)?);
        }
        Ok(self.shared("objects", ways))
    }

    /// An object of a shape with factors. `None` if its members are counted, or under a condition that names none.
    #[allow(clippy::option_option, reason = "no such object, and one without a text")]
    fn with_factors(
        &mut self,
        set: &[Literal],
        shape: &Shape,
    ) -> Result<Option<Option<ExprId>>, SchemaError> {
        if !may_have_factors(shape) {
            return Ok(None);
        }
        let all = shape.factors.iter().flat_map(|factor| factor.iter());
        let whole = all.clone().fold(shape.clone(), |all, one| all.with(one));
        let mut names = self.listed_names(&whole);
        names.extend(shape.forbidden.iter().chain(all.flat_map(|one| &one.forbidden)).cloned());
        let mut known: HashSet<Rc<str>> = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        let (mut factors, mut readings) = (vec![], 1usize);
        for splits in [false, true] {
            (factors, readings) = (vec![], 1);
            for shapes in &shape.factors {
                let Some((factor, side_by_side)) = self.factor(&names, shape, shapes, splits)? else {
                    return Ok(Some(None));
                };
                readings = readings.saturating_mul(side_by_side);
                factors.push(factor);
            }
            if readings <= SIDE_BY_SIDE {
                break;
            }
        }
        let limit = self.ex.limits.products;
        let pointer = set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
        if readings > limit {
            let what = "the ways to read an object, since values of its conditions overlap,";
            return Err(SchemaError::limit(&pointer, what, limit, "products"));
        }
        let (mut members, mut slots): (Vec<NamedMember>, Vec<Slot>) = (vec![], vec![]);
        for name in &names {
            let of = factors.iter().enumerate().find_map(|(index, factor)| {
                Some(Slot::Of(index, factor.names.iter().position(|own| own == name)?))
            });
            if let Some(slot) = of {
                slots.push(slot);
                continue;
            }
            let required = shape.required.contains(name);
            match self.ex.member_conditions(shape, name)? {
                Some(set) => {
                    slots.push(Slot::Plain(members.len()));
                    members.push(self.named_member(shape, name, &set, required)?);
                }
                None if required => return Ok(Some(None)),
                None => {}
            }
        }
        let listed = members.len();
        let others = match self.is_closed_by_style(&whole, &names) {
            true => OtherMembers::default(),
            false => self.others(set, shape, &names, &mut members)?,
        };
        if others.most.is_some() {
            return Ok(None);
        }
        if members.iter().any(|member| member.required && member.ways.is_empty()) {
            return Ok(Some(None));
        }
        slots.extend((listed..members.len()).map(Slot::Plain));
        let (inner, may_end) = match self.order {
            MemberOrder::Any => self.group_of(&factors, &members, &others),
            MemberOrder::Declared => self.chain_of(&pointer, &factors, &members, &slots, &others)?,
        };
        let object = self.enclosed("{", "}", inner, may_end && shape.min_properties == 0);
        let is_closed = others.ways.is_empty();
        Ok(Some(object.map(|object| if is_closed { object } else { self.scope("object", object) })))
    }

    /// The members of a factor, in the order of `names`, and the number of its shapes that are read side by side;
    /// `None` if no shape has a text. With `splits`, values with a common text are divided so that they have none.
    fn factor(
        &mut self,
        names: &[Rc<str>],
        shape: &Shape,
        shapes: &[Shape],
        splits: bool,
    ) -> Result<Option<(Factor, usize)>, SchemaError> {
        let own = shapes.iter().fold(Shape::any(), |all, one| all.with(one));
        let own: HashSet<Rc<str>> = self.listed_names(&own).into_iter().chain(own.forbidden).collect();
        let own: Vec<Rc<str>> = names.iter().filter(|name| own.contains(*name)).cloned().collect();
        let mut made = Factor::default();
        let all: Vec<Shape> = shapes.iter().map(|one| shape.with(one)).collect();
        let mut ways: Vec<Vec<Asked>> = vec![vec![]; all.len()];
        // By way: its shape.
        let mut shape_of: Vec<usize> = (0..all.len()).collect();
        let mut is_sure = true;
        for name in &own {
            // By shape: the index of the schemas that the value satisfies.
            let mut values: Vec<Vec<Literal>> = vec![];
            let mut asked: Vec<Option<usize>> = vec![];
            for shape in &all {
                asked.push(self.ex.member_conditions(shape, name)?.map(|set| {
                    let known = values.iter().position(|known| *known == set);
                    known.unwrap_or_else(|| {
                        values.push(set);
                        values.len() - 1
                    })
                }));
            }
            let are_apart = self.are_apart(&values)?;
            let parts = if are_apart || !splits { None } else { self.parts_of(&values)? };
            is_sure &= are_apart || parts.is_some();
            let whole = |index: usize| (values[index].clone(), vec![index]);
            let parts = parts.unwrap_or_else(|| (0..values.len()).map(whole).collect());
            // By value: the members that have it.
            let mut members: Vec<Vec<usize>> = vec![vec![]; values.len()];
            for (set, of) in parts {
                let Some((member, _)) = self.member_of(Name::Listed(name), &set)? else { continue };
                of.iter().for_each(|value| members[*value].push(made.members.len()));
                made.members.push(member);
            }
            let (mut longer, mut shape_of_longer) = (vec![], vec![]);
            for (way, shape) in ways.into_iter().zip(shape_of) {
                let required = all[shape].required.contains(name);
                let members = asked[shape].map_or(&[][..], |value| &members[value]);
                let mut next: Vec<Asked> = members.iter().map(|member| Some((*member, required))).collect();
                if next.is_empty() && !required {
                    next.push(None);
                }
                for asked in next {
                    longer.push([&way[..], &[asked]].concat());
                    shape_of_longer.push(shape);
                }
            }
            (ways, shape_of) = (longer, shape_of_longer);
            self.ex.carry(ways.len())?;
            if splits && ways.len() > WAYS {
                return self.factor(names, shape, shapes, false);
            }
        }
        made.ways = ways;
        made.names = own;
        for from in 0..=made.names.len() {
            let mut known: HashMap<&[Asked], usize> = HashMap::new();
            let mut classes = vec![];
            for way in &made.ways {
                let next = known.len();
                classes.push(*known.entry(&way[from..]).or_insert(next));
            }
            made.classes.push(classes);
        }
        let side_by_side = if is_sure { 1 } else { made.ways.len() };
        Ok((!made.ways.is_empty()).then_some((made, side_by_side)))
    }

    /// Values without a common text, and the values of which each is a part; `None` if these would be many.
    fn parts_of(&mut self, values: &[Vec<Literal>]) -> Result<Option<Vec<Part>>, SchemaError> {
        let common: Vec<Literal> =
            values[0].iter().copied().filter(|one| values.iter().all(|set| set.contains(one))).collect();
        let mut open: Vec<Literal> = values.iter().flatten().map(|one| (*one).min(one.not())).collect();
        open.retain(|one| !common.contains(one) && !common.contains(&one.not()));
        open.sort_unstable();
        open.dedup();
        if open.len() > DIVIDED {
            return Ok(None);
        }
        let mut parts = vec![];
        for signs in 0..1usize << open.len() {
            let signed = open
                .iter()
                .enumerate()
                .map(|(bit, one)| if signs >> bit & 1 == 0 { *one } else { one.not() });
            let whole: Vec<Literal> = common.iter().copied().chain(signed).collect();
            let of = (0..values.len()).filter(|value| values[*value].iter().all(|one| whole.contains(one)));
            let of: Vec<usize> = of.collect();
            let Some(whole) = self.ex.normal(whole).filter(|_| !of.is_empty()) else { continue };
            let shapes = self.ex.shapes(&whole)?;
            // The negation of a schema may be beyond a grammar where the schema is not.
            if shapes.iter().any(|shape| !shape.refusals.is_empty()) {
                return Ok(None);
            }
            if !shapes.is_empty() {
                parts.push((whole, of));
            }
        }
        Ok(Some(parts))
    }

    /// Whether no two of these values have a common text.
    fn are_apart(&mut self, values: &[Vec<Literal>]) -> Result<bool, SchemaError> {
        for (index, left) in values.iter().enumerate() {
            for right in &values[..index] {
                let pairs = || left.iter().flat_map(|one| right.iter().map(move |other| (*one, *other)));
                let mut are_apart = pairs().any(|(one, other)| one == other.not());
                for (one, other) in pairs() {
                    are_apart = are_apart || self.ex.disjoint(one, other)?;
                }
                if !are_apart {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Members in any order, with a choice for each factor.
    fn group_of(&mut self, factors: &[Factor], members: &[NamedMember], others: &OtherMembers) -> Rest {
        let mut parts: Vec<(ExprId, bool)> = vec![];
        let (mut choices, mut may_end) = (vec![], true);
        for factor in factors {
            // Not every member is in a way: a shape that has it may have no text.
            let mut indices: Vec<Option<u32>> = vec![None; factor.members.len()];
            for (member, _) in factor.ways.iter().flatten().flatten() {
                if indices[*member].is_none() {
                    indices[*member] = u32::try_from(parts.len()).ok();
                    parts.push((factor.members[*member], false));
                }
            }
            let way = |way: &Vec<Asked>| {
                let asked = way.iter().flatten();
                MemberWay::new(asked.filter_map(|(member, required)| Some((indices[*member]?, *required))))
            };
            choices.push(MemberChoice::new(factor.ways.iter().map(way)));
            may_end &= factor.ways.iter().any(|way| way.iter().flatten().all(|(_, required)| !required));
        }
        for member in members {
            parts.extend(member.ways.first().map(|way| (way.expr, member.required)));
            may_end &= !member.required;
        }
        let any = others.ways.iter().find(|way| way.found == WitnessSet::EMPTY).map(|way| way.expr);
        let is_empty = parts.is_empty() && any.is_none();
        ((!is_empty).then(|| self.in_any_order_with(parts, choices, any)), may_end)
    }

    /// Members in the order of `slots`, then others.
    fn chain_of(
        &mut self,
        pointer: &str,
        factors: &[Factor],
        members: &[NamedMember],
        slots: &[Slot],
        others: &OtherMembers,
    ) -> Result<Rest, SchemaError> {
        // The states before each slot.
        let first: State = factors.iter().map(|factor| distinct(factor.classes[0].iter().copied())).collect();
        let mut levels: Vec<HashMap<State, usize>> = vec![HashMap::from_iter([(first, 0)])];
        let limit = self.ex.limits.products;
        for slot in slots {
            self.check()?;
            let mut next: HashMap<State, usize> = HashMap::new();
            let last = levels.last().expect("there is a first");
            let mut states: Vec<(&State, usize)> =
                last.iter().map(|(state, index)| (state, *index)).collect();
            states.sort_unstable_by_key(|(_, index)| *index);
            for (state, _) in states {
                for (_, after) in ways(factors, slot, state) {
                    let index = next.len();
                    next.entry(after).or_insert(index);
                }
            }
            if next.len() > limit {
                let what = "the states of an object whose conditions wait for later members";
                return Err(SchemaError::limit(pointer, what, limit, "products"));
            }
            levels.push(next);
        }
        let chain = Chain { most: 0, min: 0, max: None, witnesses: 0, others: None };
        let (end, begin) = self.tail(&chain, 0, &others.ways)?;
        let end = end.first().copied().flatten();
        // By state of the next level: the continuations after a comma, without one, and whether the object may end.
        let mut behind: Vec<(Option<ExprId>, Rest)> = levels
            .last()
            .map_or(vec![], |last| vec![(end, (begin.first().copied().flatten(), true)); last.len()]);
        for ((slot, level), next) in slots.iter().zip(&levels).zip(&levels[1..]).rev() {
            self.check()?;
            let mut states: Vec<(&State, usize)> =
                level.iter().map(|(state, index)| (state, *index)).collect();
            states.sort_unstable_by_key(|(_, index)| *index);
            let mut here = vec![];
            for (state, _) in states {
                let (mut found, mut may_end) = (vec![], false);
                for (read, after) in ways(factors, slot, state) {
                    let (rest, (from, ends)) = behind[next[&after]];
                    let exprs: Vec<ExprId> = match (read, slot) {
                        (Some(_), Slot::Plain(member)) => {
                            members[*member].ways.iter().take(1).map(|way| way.expr).collect()
                        }
                        (Some(member), Slot::Of(factor, _)) => vec![factors[*factor].members[member]],
                        (None, Slot::Plain(member)) if members[*member].required => continue,
                        (None, _) => {
                            found.extend(from);
                            may_end |= ends;
                            continue;
                        }
                    };
                    for expr in exprs {
                        found.extend(rest.map(|rest| self.sequence([expr, rest])));
                    }
                }
                let from = self.shared("members", found);
                let mut rest = vec![];
                rest.extend(from.map(|from| self.comma(from)));
                rest.extend(may_end.then(|| self.nothing()));
                here.push((self.shared("more members", rest), (from, may_end)));
            }
            behind = here;
        }
        Ok(behind[0].1)
    }
}

/// The ways to pass a slot in a state: with a member of a factor, with another one (0), or without; and the state
/// after it.
fn ways(factors: &[Factor], slot: &Slot, state: &State) -> Vec<(Option<usize>, State)> {
    let Slot::Of(index, name) = slot else {
        return vec![(Some(0), state.clone()), (None, state.clone())];
    };
    let factor = &factors[*index];
    // A shape for each class, the members that they allow, and the states after these.
    let mut found: Vec<(Option<usize>, Vec<usize>)> = vec![];
    for class in &state[*index] {
        let shape = factor.classes[*name].iter().position(|of| of == class).expect("each class has a shape");
        let asked = factor.ways[shape][*name];
        let after = factor.classes[*name + 1][shape];
        let with = asked.map(|(member, _)| Some(member));
        let without = asked.is_none_or(|(_, required)| !required).then_some(None);
        for read in [with, without].into_iter().flatten() {
            match found.iter_mut().find(|(of, _)| *of == read) {
                Some((_, classes)) => classes.push(after),
                None => found.push((read, vec![after])),
            }
        }
    }
    let next = |(read, classes): (Option<usize>, Vec<usize>)| {
        let mut state = state.clone();
        state[*index] = distinct(classes.into_iter());
        (read, state)
    };
    found.into_iter().map(next).collect()
}

/// These classes, each once and in ascending order.
fn distinct(classes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut classes: Vec<usize> = classes.collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

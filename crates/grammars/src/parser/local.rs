//! What is left to do without what encloses it.
//!
//! Behind `(` an expression is read in the same way wherever in a program it stands; what differs is where the parser goes on behind
//! the `)`. A todo names all of that, so it comes again in the same nesting only. Here the returns that lead out are **cut**: in
//! their place stands a **hole**, a position that reads nothing, and what is left is the same in every nesting. What has been
//! found out about it once serves all of them, up to where a hole is reached; there it goes on with what the hole stands for.
//!
//! Cut is where few tokens come through: in front of what must be a terminal, as behind the expression in parentheses, and where
//! a list goes on with its next element. Nothing tells one hole from another but the order in which they come: a condition and an
//! argument are read alike.
//!
//! XGrammar (Dong et al. 2024, section 3.1) cuts at the end of every rule, ahead of time and for all states, and looks at the tokens
//! that come through one by one, in every mask. Expressions end at a dozen rules at once, so that most tokens come through.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    engine::{Item, Parser, ROOT, Return, Todo},
    returns::inner,
};
use crate::{
    ids::NONE,
    network::{
        rules::{Position, Rules},
        unordered::is_of_group,
    },
};

/// The returns that holes stand for, by hole.
pub(crate) type Holes = SmallVec<[Return; 4]>;

/// A todo without what encloses it.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) todo: Todo,
    pub(crate) holes: Holes,
}

/// What was cut so far.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    /// By return: its index in `cuts`, or [`NONE`].
    by_return: Vec<u32>,
    /// The returns that are cut in a return, in the order in which they come, and how many levels are above them; `None` where
    /// these are too many.
    cuts: Vec<Option<(Holes, u32)>>,
    /// By a return and the holes that come in the places of those: the return with holes.
    made: HashMap<(Return, SmallVec<[u32; 4]>), Return>,
    /// By todo: its index in `locals`, or [`NONE`].
    by_todo: Vec<u32>,
    locals: Vec<Option<Local>>,
}

impl Locals {
    /// `todo` without what encloses it; `None` where it cannot be taken apart.
    pub(crate) fn local(&mut self, parser: &mut Parser, rules: &Rules, todo: Todo) -> Option<&Local> {
        let at = todo as usize;
        if self.by_todo.len() <= at {
            self.by_todo.resize(at + 1, NONE);
        }
        if self.by_todo[at] == NONE {
            let made = self.make_local(parser, rules, todo);
            self.by_todo[at] = u32::try_from(self.locals.len()).expect("bounded memory");
            self.locals.push(made);
        }
        self.locals[self.by_todo[at] as usize].as_ref()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        (self.by_return.len() + self.by_todo.len()) * size_of::<u32>()
            + self.cuts.len() * size_of::<Option<(Holes, u32)>>()
            + self.locals.len() * size_of::<Option<Local>>()
            + self.made.len() * 2 * size_of::<((Return, SmallVec<[u32; 4]>), Return)>()
    }

    fn make_local(&mut self, parser: &mut Parser, rules: &Rules, todo: Todo) -> Option<Local> {
        // Holes are numbered as they come, so that it does not matter what is behind them.
        let mut holes = Holes::new();
        let mut items: Vec<Item> = parser.items(todo).to_vec();
        for (position, back, _) in &mut items {
            *back = self.with_holes(parser, rules, *back, &mut holes)?;
            follow_hole(parser, rules, position, *back);
        }
        Some(Local { todo: parser.todo(&mut items, rules), holes })
    }

    /// `back` with holes, which are added to `holes` if they are new.
    fn with_holes(
        &mut self,
        parser: &mut Parser,
        rules: &Rules,
        back: Return,
        holes: &mut Holes,
    ) -> Option<Return> {
        if back == ROOT {
            return Some(ROOT);
        }
        if is_cut(parser, rules, back) {
            return add_hole(holes, back).map(|hole| parser.hole(rules, hole));
        }
        let (cuts, _) = self.cuts(parser, rules, back, 0)?;
        let key: Option<SmallVec<[u32; 4]>> = cuts.iter().map(|cut| add_hole(holes, *cut)).collect();
        let key = (back, key?);
        if let Some(made) = self.made.get(&key) {
            return Some(*made);
        }
        let group = parser.returns().group(back);
        let members: SmallVec<[Return; 4]> = group.filter(|member| !is_cut(parser, rules, *member)).collect();
        let mut groups: Vec<Vec<Item>> = Vec::with_capacity(members.len());
        for member in &members {
            let mut frames: Vec<Item> = parser.returns().frames(*member).to_vec();
            for (position, target, _) in &mut frames {
                if let Some(member) = members.iter().position(|member| member == target) {
                    *target = inner(u32::try_from(member).expect("bounded"));
                } else {
                    *target = self.with_holes(parser, rules, *target, holes)?;
                    follow_hole(parser, rules, position, *target);
                }
            }
            groups.push(frames);
        }
        let first = parser.returns_mut().insert(&mut groups);
        for (member, made) in members.iter().zip(first..) {
            self.made.insert((*member, key.1.clone()), made);
        }
        self.made.get(&key).copied()
    }

    /// The returns that are cut in `back`, which is not cut itself; those of its group are the same.
    fn cuts(&mut self, parser: &Parser, rules: &Rules, back: Return, depth: u32) -> Option<(Holes, u32)> {
        /// More than any rules without recursion that people write.
        const MOST_LEVELS: u32 = 64;
        let at = back as usize;
        if self.by_return.len() <= at {
            self.by_return.resize(at + 1, NONE);
        }
        if self.by_return[at] != NONE {
            return self.cuts[self.by_return[at] as usize].clone();
        }
        let group = parser.returns().group(back);
        let mut found = if depth < MOST_LEVELS { Some((Holes::new(), 1)) } else { None };
        for member in group.clone().filter(|member| !is_cut(parser, rules, *member)) {
            for (_, target, _) in parser.returns().frames(member) {
                let Some((holes, levels)) = &mut found else { break };
                if *target == ROOT || group.contains(target) && !is_cut(parser, rules, *target) {
                    continue;
                }
                if is_cut(parser, rules, *target) {
                    add(holes, *target);
                    continue;
                }
                match self.cuts(parser, rules, *target, depth + 1) {
                    Some((more, below)) if below < MOST_LEVELS => {
                        more.iter().for_each(|cut| add(holes, *cut));
                        *levels = below.max(*levels - 1) + 1;
                    }
                    _ => found = None,
                }
            }
        }
        let index = u32::try_from(self.cuts.len()).expect("bounded memory");
        for member in group {
            if self.by_return.len() <= member as usize {
                self.by_return.resize(member as usize + 1, NONE);
            }
            self.by_return[member as usize] = index;
        }
        self.cuts.push(found.clone());
        found
    }
}

/// The number of the hole that stands for `back`, if there are not too many.
fn add_hole(holes: &mut Holes, back: Return) -> Option<u32> {
    add(holes, back);
    let hole = holes.iter().position(|other| *other == back)?;
    u32::try_from(hole).ok().filter(|hole| *hole < Rules::HOLES)
}

/// Where `position` is a hole, `back` is the return that stands for it, by its new number.
fn follow_hole(parser: &Parser, rules: &Rules, position: &mut Position, back: Return) {
    if rules.hole_of(*position).is_some() {
        *position = parser.returns().frames(back)[0].0;
    }
}

fn add(holes: &mut Holes, back: Return) {
    if !holes.contains(&back) {
        holes.push(back);
    }
}

/// Whether what encloses `back` is cut off there. Holes are, too.
fn is_cut(parser: &Parser, rules: &Rules, back: Return) -> bool {
    let frames = parser.returns().frames(back);
    frames.iter().all(|(position, ..)| is_narrow(rules, *position))
        || frames.iter().any(|(position, ..)| is_list(rules, *position))
}

/// Whether few tokens come through `position`: a terminal must follow.
fn is_narrow(rules: &Rules, position: Position) -> bool {
    !is_of_group(position) && rules.calls(position).is_empty() && !rules.is_accepting(position)
}

/// Whether a list goes on at `position`.
fn is_list(rules: &Rules, position: Position) -> bool {
    is_of_group(position) || rules.calls(position).iter().any(|(_, to)| *to == position)
}

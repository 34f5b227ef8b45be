//! From the parser that tracks texts to the one that does not: a place without the texts that were used.
//!
//! Each of the two [parsers](crate::unique::distinct) has tables of its own, so a place is read off, reading by reading, with what is left to
//! do behind it. What was read off once is known by its number: along a text little is new.

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::{
    engine::{Item, Return, Todo},
    places::{BOUNDARY, Compiled, Place, Places, Reading},
    returns::inner,
};
use crate::network::{rules::Position, unordered::is_of_group};
use crate::unique::distinct::{INHERITED, NOTHING, Text, Used};

/// What is known of the numbers of the tracking parser: those of the other.
#[derive(Debug, Default)]
pub(crate) struct Untracked {
    places: HashMap<Place, Place>,
    todos: HashMap<Todo, Todo>,
    /// By the first return of a group.
    groups: HashMap<Return, Return>,
    /// Positions of groups in any order.
    positions: HashMap<Position, Position>,
    /// Sets of texts that were met.
    used: HashSet<Used>,
    /// The texts of these; and those that came to them since they were asked for.
    texts: HashSet<Text>,
    new_texts: Vec<Text>,
}

/// Both parsers' places.
pub(crate) struct Both<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) tracking: &'a Places,
    pub(crate) places: &'a mut Places,
}

impl Untracked {
    /// The place that is left of `place` without the texts that were used.
    pub(crate) fn place(&mut self, both: &mut Both<'_>, place: Place) -> Place {
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        let terminals = &both.compiled.terminals;
        let mut readings = Vec::new();
        let tracking = both.tracking;
        for reading in tracking.readings(place) {
            let Reading { terminal, mut state, todo, .. } = *reading;
            let mut todo = self.todo(both, todo);
            if terminal != BOUNDARY && terminals.is_distinct(terminal) {
                let Some(texts) = tracking.texts() else { continue };
                // What is left to do stands behind it there.
                let Some(behind) = both.places.pending(both.compiled, todo, terminal) else { continue };
                (state, todo) = (texts.state(state), behind);
            }
            readings.push(Reading { terminal, state, ended: 0, todo });
        }
        let made = both.places.place(&mut readings, both.compiled);
        self.places.insert(place, made);
        made
    }

    /// The texts that were used in some place that was asked for since the last time.
    pub(crate) fn take_used(&mut self) -> Vec<Text> {
        std::mem::take(&mut self.new_texts)
    }

    /// The memory that its tables take, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 16;
        let numbers = self.places.len() + self.todos.len() + self.groups.len() + self.positions.len();
        (numbers + self.used.len() + self.texts.len()) * ENTRY
    }

    fn todo(&mut self, both: &mut Both<'_>, todo: Todo) -> Todo {
        if let Some(known) = self.todos.get(&todo) {
            return *known;
        }
        let mut items: Vec<Item> = Vec::new();
        let tracking = both.tracking;
        for (position, back, used) in tracking.parser.items(todo).iter().copied() {
            self.meet(both, used);
            let back = self.back(both, back);
            items.push((self.position(both, position), back, NOTHING));
        }
        let made = both.places.parser.todo(&mut items, &both.compiled.rules);
        self.todos.insert(todo, made);
        made
    }

    fn position(&mut self, both: &mut Both<'_>, position: Position) -> Position {
        if !is_of_group(position) {
            return position;
        }
        *self.positions.entry(position).or_insert_with(|| {
            let (seen, offset) = both.tracking.parser.states().spelled_out(position);
            both.places.parser.position(&both.compiled.rules, &seen, offset)
        })
    }

    /// Without recursion: a text may be nested deeper than a thread has stack.
    fn back(&mut self, both: &mut Both<'_>, back: Return) -> Return {
        let tracking = both.tracking;
        let returns = tracking.parser.returns();
        let first_of = |back: Return| returns.group(back).start;
        let mut open: SmallVec<[Return; 8]> = SmallVec::from_slice(&[first_of(back)]);
        while let Some(first) = open.last().copied() {
            if self.groups.contains_key(&first) {
                open.pop();
                continue;
            }
            let group = returns.group(first);
            let known = open.len();
            for (_, back, _) in group.clone().flat_map(|member| returns.frames(member)) {
                if !group.contains(back) && !self.groups.contains_key(&first_of(*back)) {
                    open.push(first_of(*back));
                }
            }
            if open.len() > known {
                continue;
            }
            let mut members: Vec<Vec<Item>> = Vec::with_capacity(group.len());
            for member in group.clone() {
                let frames = returns.frames(member).iter().map(|(position, back, used)| {
                    self.meet(both, *used);
                    let back = match group.contains(back) {
                        true => inner(back - first),
                        false => self.groups[&first_of(*back)] + (back - first_of(*back)),
                    };
                    (self.position(both, *position), back, INHERITED)
                });
                members.push(frames.collect());
            }
            let made = both.places.parser.returns_mut().insert(&mut members);
            self.groups.insert(first, made);
            open.pop();
        }
        self.groups[&first_of(back)] + (back - first_of(back))
    }

    /// Takes note of the texts of `used`, the last ones first: those of a set that was met are known.
    fn meet(&mut self, both: &Both<'_>, used: Used) {
        let mut at = used;
        while at != INHERITED && self.used.insert(at) {
            let Some((others, text)) = both.tracking.parser.used.last(at) else { break };
            if self.texts.insert(text) {
                self.new_texts.push(text);
            }
            at = others;
        }
    }
}

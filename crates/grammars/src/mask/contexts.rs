//! Parts of masks that are the same in every context, found once.
//!
//! A **part** is what a walk over paths adds from one point on, for a todo from which what encloses it was [cut](crate::parser::local); and
//! with it, where tokens come through to a hole. In a mask, the part is added as it lies ready, and from the points at the holes it
//! goes on with what they stand for, again in parts. So the mask of a state that was never seen, in a nesting that never was, is
//! put together from a few lists, if the same rules were in use before.
//!
//! Inside a part the same is done: behind the `(` of a call the same part is added as behind that of a condition.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use unskew_core::TokenId;
use unskew_trie::ByteSet;

use super::{
    maker::{Maker, Trees},
    paths::{Last, LastKey, Loop, Open, Origin, OriginKey},
    shared::shared_key,
};
use crate::{
    network::rules::Rules,
    parser::{
        engine::{Parser, Return, Todo},
        local::{Holes, Locals},
    },
    trees::{
        kept::{LibraryId, hold_node},
        nodes::Node,
        remainders::{At, Group},
    },
};

/// Up to how many parts are put into each other; beyond, all is done as if it came once.
const MOST_NESTED: u32 = 24;

/// Up to how many points are looked at for one mask, before it is made without parts.
const MOST_POINTS: usize = 4_000;

/// What fewer terminals follow is sooner done than looked for.
const FEW_EDGES: usize = 8;

/// After so many masks that had to be made without, all are.
const MOST_FAILURES: u32 = 4;

/// Where tokens go on with what follows.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    /// At their beginning.
    Root,
    /// Where they leave a node; what is left to do does not count.
    Open(Open),
    /// At a place among the exits of a node, or among all tokens: in the group at this index.
    Behind(Option<Arc<Node>>, usize, At),
}

/// Which point it is, in a scratch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PointKey {
    Root,
    /// The node, what was read, whether that was begun before, and whether the tokens inside are left out.
    Open(LibraryId, LastKey, bool, bool),
    /// Group and place.
    Behind(LibraryId, At),
}

/// What is added from a point on.
#[derive(Debug)]
pub(crate) struct Part {
    ids: Box<[TokenId]>,
    /// And whether their tokens are there because a terminal that was begun goes on.
    nodes: Box<[(Arc<Node>, bool)]>,
    doubtful: Box<[TokenId]>,
    /// Where tokens come through, and to which hole; and places where they do.
    points: Box<[(Point, u32)]>,
    places: Box<[Places]>,
}

/// Places of a group, and the holes that are reached there.
#[derive(Debug)]
struct Places {
    holder: Option<Arc<Node>>,
    index: usize,
    places: Box<[(At, u32)]>,
}

/// What is behind a hole, here.
#[derive(Clone, Copy)]
struct Behind {
    back: Return,
    is: Is,
}

#[derive(Clone, Copy)]
enum Is {
    /// A hole of the part in the making.
    Hole(u32),
    /// What is left to do, and the bytes with which that begins.
    Todo(Todo, ByteSet),
}

/// Parts, and those in the making.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    locals: Locals,
    /// By point and a todo with holes; `None` where it cannot be made.
    parts: HashMap<(PointKey, Todo), Option<Arc<Part>>>,
    bytes: usize,
    /// Of the part in the making, as there.
    nodes: Vec<(Arc<Node>, bool)>,
    reached: Vec<(Point, u32)>,
    /// Where it has come through, in the part or the mask.
    through: HashSet<(PointKey, Return)>,
    /// What was read up to there since the same origin.
    lasts: HashMap<(OriginKey, Return), SmallVec<[Last; 2]>>,
    /// The group whose places the heap of those where literals have ended is of, while it is looked at.
    pub(crate) on_heap: Option<LibraryId>,
    /// The group whose places the part in the making goes through. Parts of places behind each other would hold the same tokens
    /// again and again.
    pub(crate) made_in: Option<LibraryId>,
    /// How many parts are in the making, one inside the other.
    making: u32,
    nested: u32,
    looked_at: usize,
    has_failed: bool,
    is_off: bool,
    /// How many masks had to be made without.
    failures: u32,
}

impl Contexts {
    /// Begins a mask.
    pub(crate) fn begin(&mut self) {
        (self.making, self.nested, self.looked_at) = (0, 0, 0);
        (self.has_failed, self.is_off) = (false, self.failures == MOST_FAILURES);
        self.nodes.clear();
        self.reached.clear();
        self.through.clear();
        self.lasts.clear();
    }

    /// Begins the same mask again, without parts.
    pub(crate) fn turn_off(&mut self) {
        self.failures += 1;
        self.begin();
        self.is_off = true;
    }

    /// What was added is not all.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(crate) fn is_making(&self) -> bool {
        self.making > 0
    }

    /// The tokens inside `node` belong to the part in the making.
    pub(crate) fn meet(&mut self, node: &Arc<Node>, goes_on: bool) {
        if self.making > 0 && node.words().is_some() {
            self.nodes.push((Arc::clone(node), goes_on));
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes + self.locals.memory_usage()
    }
}

impl Maker<'_> {
    /// Adds the tokens that go on from `point` with what follows `todo`, and opens nodes, if there is a part for that or one can be
    /// made. Answers whether that is so.
    pub(crate) fn add_by_part(&mut self, point: &Point, todo: Todo) -> bool {
        if self.contexts.is_off || self.contexts.nested == MOST_NESTED {
            return false;
        }
        self.contexts.looked_at += 1;
        if self.contexts.looked_at > MOST_POINTS {
            self.contexts.fail();
            return true;
        }
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        if self.places.parser.edges(followers).len() < FEW_EDGES && !self.trees.library.keeps_all() {
            return false;
        }
        let local = self.contexts.locals.local(&mut self.places.parser, &self.compiled.rules, todo);
        let Some(local) = local.cloned() else { return false };
        let key = (self.key(point), local.todo);
        let part = match self.contexts.parts.get(&key).cloned() {
            Some(Some(part)) => {
                self.add_part(&part);
                Some(part)
            }
            Some(None) => None,
            None => {
                let part = self.find_part(point, local.todo);
                let bytes = part.as_ref().map_or(0, |part| part.memory_usage());
                self.contexts.bytes += bytes + 2 * size_of::<((PointKey, Todo), Option<Arc<Part>>)>();
                self.contexts.parts.insert(key, part.clone());
                part
            }
        };
        let Some(part) = part else {
            // What fails here fails in what encloses it too.
            self.contexts.has_failed |= self.contexts.is_making();
            return self.contexts.is_making();
        };
        self.contexts.nested += 1;
        self.come_through(&part, &local.holes, point);
        self.contexts.nested -= 1;
        true
    }

    /// Adds the part from `point` on for `todo`, which has holes, if the library knows it or it can be made.
    fn find_part(&mut self, point: &Point, todo: Todo) -> Option<Arc<Part>> {
        let library = &self.trees.library;
        let key = point.is_kept().then(|| self.key(point));
        let key = key.and_then(|key| shared_key(self.trees, self.compiled, &self.places.parser, key, todo));
        if let Some(known) = key.as_ref().and_then(|key| library.shared_part(key)) {
            if let Some(part) = &known {
                self.add_part(part);
            }
            return known;
        }
        let part = self.make_part(point, todo).map(Arc::new);
        if let Some(key) = key.filter(|_| self.contexts.looked_at <= MOST_POINTS) {
            library.share_part(key, &part);
        }
        part
    }

    /// Adds the tokens that begin with what follows `todo`, and opens nodes.
    pub(crate) fn add_from_root(&mut self, todo: Todo) {
        if !self.add_by_part(&Point::Root, todo) {
            self.add_root(todo);
        }
    }

    fn add_root(&mut self, todo: Todo) {
        self.reach_holes(todo, || Point::Root);
        let trees = self.trees;
        self.add_exits(trees.library.all(), None, &Origin::Root, todo, None);
    }

    /// Remembers the holes that are reached where `todo` is left to do.
    #[inline]
    pub(crate) fn reach_holes(&mut self, todo: Todo, point: impl FnOnce() -> Point) {
        let followers = self.places.parser.followers(todo, &self.compiled.rules);
        if followers.holes != 0 {
            let point = point();
            let holes = (0..Rules::HOLES).filter(|hole| followers.holes >> hole & 1 != 0);
            self.contexts.reached.extend(holes.map(|hole| (point.clone(), hole)));
        }
    }

    /// Goes on where tokens came through `part`, which is that of `from`, to the holes that stand for `holes`; nodes are opened.
    fn come_through(&mut self, part: &Part, holes: &Holes, from: &Point) {
        let behind: SmallVec<[Behind; 4]> =
            holes.iter().map(|back| Behind { back: *back, is: self.behind_hole(*back) }).collect();
        for (point, hole) in &part.points {
            let Behind { back, is } = behind[*hole as usize];
            match is {
                Is::Hole(hole) => self.contexts.reached.push((point.clone(), hole)),
                Is::Todo(todo, first) => match point {
                    Point::Open(open) => {
                        let goes_on =
                            first.meets(&open.node.exits.bytes) || first.meets(&open.node.extending);
                        if goes_on
                            && self.contexts.through.insert((self.key(point), back))
                            && self.is_new(open, back)
                        {
                            let mut open = Open { edge: None, is_met: true, todo, ..open.clone() };
                            if let Point::Open(Open { node, last, .. }) = from
                                && (node.id, last.key()) == (open.node.id, open.last.key())
                            {
                                open.last = last.clone();
                            }
                            self.buffers.open.push(open);
                        }
                    }
                    _ => {
                        if self.contexts.through.insert((self.key(point), back)) {
                            self.add_from_root(todo);
                        }
                    }
                },
            }
        }
        let trees = self.trees;
        for Places { holder, index, places } in &part.places {
            let exits = holder.as_ref().map_or(trees.library.all(), |holder| &holder.exits);
            let group = &exits.groups[*index];
            let trie = group.trie(&trees.library);
            // What goes on at several places of a trie may meet there.
            let is_at_hand = self.contexts.on_heap == Some(group.id);
            let mut ended = BinaryHeap::new();
            if !is_at_hand {
                std::mem::swap(&mut ended, &mut self.buffers.ended);
            }
            for (at, hole) in places {
                let Behind { back, is } = behind[*hole as usize];
                match is {
                    Is::Hole(hole) => {
                        let point = Point::Behind(holder.clone(), *index, *at);
                        self.contexts.reached.push((point, hole));
                    }
                    Is::Todo(todo, first) => {
                        if trie.children(*at).any(|(byte, _)| first.contains(byte))
                            && self.contexts.through.insert((PointKey::Behind(group.id, *at), back))
                        {
                            self.buffers.ended.push(Reverse((*at, todo)));
                        }
                    }
                }
            }
            if !is_at_hand {
                self.go_on(holder.as_ref(), group, *index);
                self.buffers.ended = ended;
            }
        }
    }

    /// Whether `open`, which has come through to `back`, reads more up to there than what has come through before, from the same
    /// place on. A list of names without separators ends otherwise only where it has been joined too often.
    fn is_new(&mut self, open: &Open, back: Return) -> bool {
        let origin = open.origin.parent(&self.trees.library).map(|parent| parent.key());
        let mut lasts = self.contexts.lasts.remove(&(origin, back)).unwrap_or_default();
        let is_new = !lasts.iter().any(|last| self.is_within(&open.last, last));
        if is_new {
            lasts.push(open.last.clone());
        }
        self.contexts.lasts.insert((origin, back), lasts);
        is_new
    }

    /// What is behind a rule that returns to `back`.
    fn behind_hole(&mut self, back: Return) -> Is {
        let Self { places, compiled, .. } = self;
        if let [(position, ..)] = places.parser.returns().frames(back)
            && let Some(hole) = compiled.rules.hole_of(*position)
        {
            return Is::Hole(hole);
        }
        let todo = places.parser.behind(back, &compiled.rules);
        let reaches_holes = places.parser.followers(todo, &compiled.rules).holes != 0;
        Is::Todo(
            todo,
            if reaches_holes { (0..=u8::MAX).collect() } else { places.first_bytes(compiled, todo) },
        )
    }

    /// Adds the tokens that go on from `point` with what follows `todo`, which has holes; and makes the part of it.
    fn make_part(&mut self, point: &Point, todo: Todo) -> Option<Part> {
        let (added, doubtful) = (self.pieces.added(), self.doubtful.len());
        let nodes = std::mem::take(&mut self.contexts.nodes);
        let reached = std::mem::take(&mut self.contexts.reached);
        let through = (std::mem::take(&mut self.contexts.through), std::mem::take(&mut self.contexts.lasts));
        let had_failed = std::mem::take(&mut self.contexts.has_failed);
        let outer = (std::mem::take(&mut self.buffers.open), std::mem::take(&mut self.buffers.ended));
        let (on_heap, made_in) = (self.contexts.on_heap.take(), self.contexts.made_in.take());
        self.contexts.making += 1;
        self.contexts.nested += 1;
        match point {
            Point::Root => self.add_root(todo),
            Point::Open(open) => {
                let mut last = open.last.clone();
                if let Last::Joined { loops, .. } = &mut last {
                    let leads_back = *loops == Some(Loop { from: open.todo, to: open.todo });
                    *loops = leads_back.then_some(Loop { from: todo, to: todo });
                }
                self.add_open(&Open { last, todo, ..open.clone() });
            }
            Point::Behind(holder, index, at) => {
                let group = point.group(self.trees).expect("it is a place");
                self.contexts.made_in = Some(group.id);
                self.add_behind(holder.as_ref(), (group, *index), *at, todo);
                self.go_on(holder.as_ref(), group, *index);
            }
        }
        self.add_paths();
        self.contexts.nested -= 1;
        self.contexts.making -= 1;
        (self.contexts.on_heap, self.contexts.made_in) = (on_heap, made_in);
        (self.buffers.open, self.buffers.ended) = outer;
        (self.contexts.through, self.contexts.lasts) = through;
        let nodes = std::mem::replace(&mut self.contexts.nodes, nodes);
        let reached = std::mem::replace(&mut self.contexts.reached, reached);
        let has_failed = std::mem::replace(&mut self.contexts.has_failed, had_failed);
        if has_failed {
            self.pieces.truncate(added);
            self.doubtful.truncate(doubtful);
            return None;
        }
        nodes.iter().for_each(|(node, goes_on)| self.contexts.meet(node, *goes_on));
        self.pieces.dedup(added, self.buffer);
        let (mut places, mut points): (Vec<_>, Vec<_>) =
            reached.into_iter().partition(|(point, _)| matches!(point, Point::Behind(..)));
        for (point, _) in &mut points {
            if let Point::Open(open) = point {
                // What was left to do here is a number of this scratch, and nothing to whoever goes on.
                (open.todo, open.edge) = (Parser::START, None);
                if let Last::Joined { loops, .. } = &mut open.last {
                    *loops = None;
                }
            }
        }
        let group = |point: &Point| point.group(self.trees).map(|group| group.id);
        places.sort_by_key(|(point, _)| group(point));
        let places = places.chunk_by(|(left, _), (right, _)| group(left) == group(right));
        let places = places.filter_map(|places| {
            let Point::Behind(holder, index, _) = &places[0].0 else { return None };
            let at = |(point, hole): &(Point, u32)| match point {
                Point::Behind(_, _, at) => Some((*at, *hole)),
                _ => None,
            };
            let places = places.iter().filter_map(at).collect();
            Some(Places { holder: holder.clone(), index: *index, places })
        });
        Some(Part {
            ids: self.pieces.ids[added.1..].into(),
            nodes: nodes.into(),
            doubtful: self.doubtful[doubtful..].into(),
            points: points.into(),
            places: places.collect(),
        })
    }

    fn add_part(&mut self, part: &Part) {
        self.pieces.ids.extend_from_slice(&part.ids);
        self.doubtful.extend_from_slice(&part.doubtful);
        part.nodes.iter().for_each(|(node, goes_on)| self.add_node(node, *goes_on));
    }

    fn key(&self, point: &Point) -> PointKey {
        match point {
            Point::Root => PointKey::Root,
            Point::Open(Open { node, last, origin, is_met, .. }) => {
                let is_begun = matches!((origin, last), (Origin::Begun, Last::Terminal(..)));
                PointKey::Open(node.id, last.key(), is_begun, *is_met)
            }
            Point::Behind(_, _, at) => {
                PointKey::Behind(point.group(self.trees).expect("it is a place").id, *at)
            }
        }
    }
}

impl Point {
    /// Whether its key means the same in every scratch.
    fn is_kept(&self) -> bool {
        match self {
            Self::Root | Self::Behind(None, ..) => true,
            Self::Open(Open { node, .. }) | Self::Behind(Some(node), ..) => node.is_kept,
        }
    }

    /// The group in which it is a place.
    fn group<'p>(&'p self, trees: &'p Trees) -> Option<&'p Group> {
        let Self::Behind(holder, index, _) = self else { return None };
        let exits = holder.as_ref().map_or(trees.library.all(), |holder| &holder.exits);
        Some(&exits.groups[*index])
    }
}

impl Part {
    /// Calls `each` with every node and automaton that the part refers to, and the bytes of that.
    pub(crate) fn each_held(&self, each: &mut dyn FnMut(LibraryId, usize)) {
        let holders = self.places.iter().filter_map(|places| places.holder.as_ref());
        let nodes = self.nodes.iter().map(|(node, _)| node).chain(holders);
        nodes.for_each(|node| hold_node(node, each));
        for (point, _) in &self.points {
            match point {
                Point::Root | Point::Behind(None, ..) => {}
                Point::Behind(Some(node), ..) => hold_node(node, each),
                Point::Open(open) => open.each_held(each),
            }
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&self.ids[..])
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.doubtful[..])
            + size_of_val(&self.points[..])
            + self
                .places
                .iter()
                .map(|places| size_of::<Places>() + size_of_val(&places.places[..]))
                .sum::<usize>()
    }
}

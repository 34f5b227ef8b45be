//! The parser: a general one, as an automaton over terminals whose states are made when they are reached.
//!
//! A state of it is a set of **items**: a position of a rule and where to go on when that rule ends. Earley's items are that,
//! with the index of an input position for where to go on; so no state ever comes twice. Here it is a **return**, a set of
//! such items again, kept once (hash-consed): the same nesting is the same number wherever in the text it stands. That is
//! the graph-structured stack of GLR and GLL parsers (Tomita 1985; Scott and Johnstone 2010) with its nodes named by what
//! they hold and not by where they were made.
//!
//! - *A call that is the last thing in its rule* leaves no frame: the callee returns to where the caller would have
//!   returned. So lists that recurse on the right do not grow.
//! - *A rule that may begin with itself* returns to itself: a return refers to itself, or to others made at the same place.
//!   Such a group is made and named as a whole. So lists that recurse on the left do not grow either, and no grammar has to
//!   be rewritten: left recursion, hidden behind what may be empty or not, and cycles are nothing special.
//! - *Two readings of one text* that want the same terminal in the same state merge: their items become one set.
//!
//! Measured in the number of states after n elements, an Earley parser by positions grows with n for both kinds of
//! recursion, one by sets of origins for recursion on the right, and stacks without groups do not terminate on the left.
//!
//! Ambiguity merges too: an item goes if another one of the same position covers it, as [`returns`](crate::parser::returns) says. So the
//! states of `s = s s | "a"` and of operators without levels do not grow with the text, in which they have O(n) items for Earley.
//! Where nothing can be merged, as in palindromes, a step takes O(n) as there, and O(n^2) at worst;
//! [`GrammarLimits::state_items`](crate::GrammarLimits::state_items) bounds that.
//!
//! A parser that [tracks](Parser::tracking) texts also has, in every item, the texts that may not come again: a set, kept once.
//! A call hands it on and takes it back as the callee leaves it; a call of a scope begins with none, and behind it goes on with
//! what was before. Other parsers have the empty set everywhere, and are what they would be without.

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::returns::{Groups, inner};
use crate::{
    ids::Ids,
    ids::NONE,
    network::{
        rules::{END, Position, Rules},
        unordered::{Edge, Seen, States, is_of_group},
    },
    unique::distinct::{INHERITED, NOTHING, Text, Used, UsedTexts},
};

/// What is left to do, as a set of items: a state of the parser.
pub(crate) type Todo = u32;

/// Where to go on when a rule ends: a set of items.
pub(crate) type Return = u32;

/// A position; where to go on when its rule ends; and the texts that were used. Of where to go on these may be
/// [`INHERITED`] from what has ended.
pub(crate) type Item = (Position, Return, Used);

/// What is left to do behind a text that may not come again, as long as that is not known.
pub(crate) type Pending = u32;

/// The return of the start rule: the output may end.
pub(crate) const ROOT: Return = 0;

/// The parser's tables: all that was made so far.
#[derive(Debug)]
pub(crate) struct Parser {
    returns: Groups,
    /// The items of each [`Todo`].
    todos: Lists<Item>,
    /// The most items that one of them has.
    longest: usize,
    /// By [`Todo`]: what follows, once it was asked for.
    followers: Vec<Option<Followers>>,
    /// Terminals and what is left to do behind them.
    edges: Vec<(u32, Todo)>,
    /// Positions of groups in any order.
    states: States,
    /// Whether texts are tracked.
    tracks: bool,
    pub(crate) used: UsedTexts,
    /// The items of each [`Pending`].
    pending: Lists<Item>,
    /// By what is pending and the text: what is left to do, if it may come.
    behind: HashMap<(Pending, Text), Option<Todo>>,
    /// What [`covers`](Self::covers) was asked last, and what it said: a list of a thousand terminals asks for each of them.
    covered: Option<((Todo, Todo), bool)>,
    /// How many items were looked at, in states and among the frames of returns.
    looked_at: u64,
    work: Work,
}

/// What follows where something is left to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followers {
    first: u32,
    end: u32,
    /// Whether the output may end here.
    pub(crate) ends: bool,
    /// The [holes](crate::parser::local) that are reached, one bit each.
    pub(crate) holes: u64,
}

/// Lists that are kept once.
#[derive(Debug)]
struct Lists<T> {
    items: Vec<T>,
    first: Vec<u32>,
    ids: Ids,
}

/// A reference to a return that may not be made yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ref {
    Made(Return),
    /// That of a rule which is called here.
    Called(u32),
}

/// A rule that is called at the place in question.
#[derive(Debug, Default)]
struct Call {
    rule: u32,
    /// The texts that were used before.
    used: Used,
    frames: SmallVec<[(Position, Ref, Used); 4]>,
    /// Those whose frames it has too: of callers that end with it; and what these inherit.
    also: SmallVec<[(Ref, Used); 2]>,
    made: Return,
    /// The next call of the same rule, or [`NONE`].
    next: u32,
}

/// Buffers.
#[derive(Debug, Default)]
struct Work {
    items: Vec<Item>,
    calls: Vec<Call>,
    /// How many of `calls` are in use.
    used: usize,
    /// By rule: the place of one of its calls, or [`NONE`].
    call_of: Vec<u32>,
    /// Terminals read from here, and where that leads.
    read: Vec<(u32, Position, Ref, Used)>,
    todo: Vec<Item>,
    edges: Vec<(u32, Todo)>,
    /// Calls in the order in which their returns are made.
    order: Vec<(u32, Used, u32, u32)>,
    /// The frames of returns that are made together; those in use come first.
    members: Vec<Vec<Item>>,
}

impl Parser {
    pub(crate) fn new(rules: &Rules, start: u32) -> Self {
        Self::with(rules, start, false)
    }

    /// A parser that knows which texts may not come again.
    pub(crate) fn tracking(rules: &Rules, start: u32) -> Self {
        Self::with(rules, start, true)
    }

    fn with(rules: &Rules, start: u32, tracks: bool) -> Self {
        let mut parser = Self {
            returns: Groups::new(),
            todos: Lists::new(),
            longest: 0,
            followers: Vec::new(),
            edges: Vec::new(),
            states: States::new(&rules.groups),
            tracks,
            used: UsedTexts::default(),
            pending: Lists::new(),
            behind: HashMap::new(),
            covered: None,
            looked_at: 0,
            work: Work { call_of: vec![NONE; rules.order.len()], ..Work::default() },
        };
        let root = parser.returns.insert(&mut [vec![(END, inner(0), INHERITED)]]);
        debug_assert_eq!(root, ROOT);
        let start = parser.todo(&mut vec![(rules.start(start), ROOT, NOTHING)], rules);
        debug_assert_eq!(start, Self::START);
        parser
    }

    /// What is left to do before anything was read.
    pub(crate) const START: Todo = 0;

    /// The items of `todo`, in ascending order.
    pub(crate) fn items(&self, todo: Todo) -> &[Item] {
        self.todos.get(todo)
    }

    /// The return that stands for what `hole` stands for.
    pub(crate) fn hole(&mut self, rules: &Rules, hole: u32) -> Return {
        self.returns.insert(&mut [vec![(rules.hole(hole), inner(0), INHERITED)]])
    }

    /// What is left to do where a rule that returns to `back` has ended.
    pub(crate) fn behind(&mut self, back: Return, rules: &Rules) -> Todo {
        let frames = self.returns.frames(back).iter();
        let mut items = frames.map(|frame| inheriting(*frame, NOTHING)).collect();
        self.todo(&mut items, rules)
    }

    pub(crate) fn returns(&self) -> &Groups {
        &self.returns
    }

    pub(crate) fn returns_mut(&mut self) -> &mut Groups {
        &mut self.returns
    }

    /// The set of `items`, which may repeat; they are left in order.
    pub(crate) fn todo(&mut self, items: &mut Vec<Item>, rules: &Rules) -> Todo {
        // Nothing waits at the end of a rule: it goes on where the rule returns to.
        let mut at = 0;
        while let Some((position, back, used)) = items.get(at).copied() {
            if is_final(rules, &self.states, position) {
                items.swap_remove(at);
                // Of these none is at the end of its rule, so this ends.
                items.extend(self.returns.frames(back).iter().map(|frame| inheriting(*frame, used)));
            } else {
                at += 1;
            }
        }
        items.sort_unstable();
        items.dedup();
        self.looked_at += items.len() as u64;
        self.returns.leave_out_covered(items);
        let id = self.todos.insert(items);
        if id as usize == self.followers.len() {
            self.followers.push(None);
            self.longest = self.longest.max(items.len());
        }
        id
    }

    /// The union of two sets.
    pub(crate) fn union(&mut self, left: Todo, right: Todo, rules: &Rules) -> Todo {
        if left == right {
            return left;
        }
        let mut items = std::mem::take(&mut self.work.todo);
        items.clear();
        items.extend_from_slice(self.todos.get(left));
        items.extend_from_slice(self.todos.get(right));
        let union = self.todo(&mut items, rules);
        self.work.todo = items;
        union
    }

    /// What follows.
    #[inline]
    pub(crate) fn followers(&mut self, todo: Todo, rules: &Rules) -> Followers {
        match self.followers[todo as usize] {
            Some(followers) => followers,
            None => self.follow(todo, rules),
        }
    }

    /// Terminals that follow, in ascending order, and what is left to do behind them. Literals come first, in the order of
    /// their texts.
    #[inline]
    pub(crate) fn edges(&self, followers: Followers) -> &[(u32, Todo)] {
        &self.edges[followers.first as usize..followers.end as usize]
    }

    /// Whether all that may follow where `todo` is left to do may follow where `wider` is, and leaves the same.
    pub(crate) fn covers(&mut self, wider: Todo, todo: Todo, rules: &Rules) -> bool {
        if wider == todo {
            return true;
        }
        if let Some((pair, covers)) = self.covered
            && pair == (wider, todo)
        {
            return covers;
        }
        let (wide, narrow) = (self.followers(wider, rules), self.followers(todo, rules));
        let mut wide_edges = self.edges(wide).iter();
        let covers = narrow.ends <= wide.ends
            && narrow.holes & !wide.holes == 0
            && self.edges(narrow).len() <= wide_edges.len()
            && self.edges(narrow).iter().all(|edge| wide_edges.any(|other| other == edge));
        self.covered = Some(((wider, todo), covers));
        covers
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.returns.memory_usage()
            + self.todos.memory_usage()
            + self.followers.len() * size_of::<Option<Followers>>()
            + self.edges.len() * size_of::<(u32, Todo)>()
            + self.states.memory_usage()
            + self.used.memory_usage()
            + self.pending.memory_usage()
            + self.behind.len() * 2 * size_of::<((Pending, Text), Option<Todo>)>()
    }

    /// A number of the position that is the same in every parser of the rules. Those of a group have one.
    pub(crate) fn name(&self, position: Position) -> Position {
        if is_of_group(position) { NONE - self.states.group(position) } else { position }
    }

    /// Positions of groups in any order, as this parser numbers them.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// The position of a group that is [spelled out](States::spelled_out).
    pub(crate) fn position(&mut self, rules: &Rules, seen: &Seen, offset: u32) -> Position {
        self.states.position(&rules.groups, seen, offset)
    }

    /// Whether the items of these and the frames of their returns are more than `limit`. O(1) where no set is long.
    pub(crate) fn are_more_than(&self, limit: usize, todos: impl ExactSizeIterator<Item = Todo>) -> bool {
        let most = self.longest.saturating_mul(1 + self.returns.longest());
        if most.saturating_mul(todos.len()) <= limit {
            return false;
        }
        let items = todos.flat_map(|todo| self.todos.get(todo));
        items.map(|(_, back, _)| 1 + self.returns.frames(*back).len()).sum::<usize>() > limit
    }

    /// How many items were looked at so far: in sets, in rules that end, and to find out which of them others cover.
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at + self.returns.looked_at()
    }

    /// The number of states and returns made so far.
    pub(crate) fn made(&self) -> (usize, usize) {
        (self.followers.len(), self.returns.len())
    }

    fn follow(&mut self, todo: Todo, rules: &Rules) -> Followers {
        let mut work = std::mem::take(&mut self.work);
        work.items.clear();
        work.items.extend_from_slice(self.todos.get(todo));
        self.complete(&mut work.items, rules);
        let ends = work.items.iter().any(|(position, ..)| *position == END);
        let holes = work.items.iter().filter_map(|(position, ..)| rules.hole_of(*position));
        let holes = holes.fold(0, |holes, hole| holes | 1 << hole);
        work.call(rules, &mut self.states, self.tracks);
        self.make_returns(&mut work, rules);

        // What each terminal leaves to do.
        work.read.sort_unstable();
        let mut edges = std::mem::take(&mut work.edges);
        edges.clear();
        // Of a thousand literals that may stand in one place each leaves the same, and so do most kinds of values.
        let mut before: [Option<(Item, Todo)>; 4] = [None; 4];
        for group in work.read.chunk_by(|left, right| left.0 == right.0) {
            work.todo.clear();
            work.todo.extend(group.iter().map(|(_, position, back, used)| match back {
                Ref::Made(back) => (*position, *back, *used),
                Ref::Called(call) => (*position, work.calls[*call as usize].made, *used),
            }));
            let terminal = group[0].0;
            if self.tracks && rules.is_distinct(terminal) {
                work.todo.sort_unstable();
                work.todo.dedup();
                self.returns.leave_out_covered(&mut work.todo);
                edges.push((terminal, self.pending.insert(&work.todo)));
                continue;
            }
            let only = if let [only] = &work.todo[..] { Some(*only) } else { None };
            let known = before.iter().flatten().find(|(item, _)| only == Some(*item));
            let next = match known {
                Some((_, next)) => *next,
                None => {
                    let next = self.todo(&mut work.todo, rules);
                    if let Some(only) = only {
                        before.rotate_right(1);
                        before[0] = Some((only, next));
                    }
                    next
                }
            };
            edges.push((terminal, next));
        }
        for call in &work.calls[..work.used] {
            work.call_of[call.rule as usize] = NONE;
        }
        let first = u32::try_from(self.edges.len()).expect("bounded memory");
        self.edges.extend_from_slice(&edges);
        work.edges = edges;
        let end = u32::try_from(self.edges.len()).expect("bounded memory");
        let followers = Followers { first, end, ends, holes };
        self.followers[todo as usize] = Some(followers);
        self.work = work;
        followers
    }

    /// What is left to do behind `text`, or nothing if it was used already.
    pub(crate) fn behind_text(&mut self, pending: Pending, text: Text, rules: &Rules) -> Option<Todo> {
        if let Some(known) = self.behind.get(&(pending, text)) {
            return *known;
        }
        let mut items: Vec<Item> = Vec::new();
        for (position, back, used) in self.pending.get(pending) {
            if !self.used.contains(*used, text) {
                items.push((*position, *back, self.used.with(*used, text)));
            }
        }
        let behind = if items.is_empty() { None } else { Some(self.todo(&mut items, rules)) };
        self.behind.insert((pending, text), behind);
        behind
    }

    /// What is left to do behind a text that may come in every way.
    pub(crate) fn behind_any(&mut self, pending: Pending, rules: &Rules) -> Todo {
        let mut items = self.pending.get(pending).to_vec();
        self.todo(&mut items, rules)
    }

    /// The sets of texts one of which was used where this is pending.
    pub(crate) fn used_before(&self, pending: Pending) -> impl Iterator<Item = Used> {
        self.pending.get(pending).iter().map(|(.., used)| *used)
    }

    /// Adds what the rules that may end here return to, but for what is covered: where much may be empty, each return leads to
    /// all that came before it.
    fn complete(&mut self, items: &mut Vec<Item>, rules: &Rules) {
        /// So many are sooner looked through than hashed.
        const FEW: usize = 16;
        self.returns.begin_set();
        let mut seen: HashSet<Item> = HashSet::new();
        let mut alike: HashMap<(Position, Used), SmallVec<[Return; 2]>> = HashMap::new();
        let mut at = 0;
        while let Some((position, back, used)) = items.get(at).copied() {
            let accepting = match is_of_group(position) {
                true => self.states.is_accepting(&rules.groups, position),
                false => rules.is_accepting(position),
            };
            let frames = if accepting { self.returns.frames(back).len() } else { 0 };
            self.looked_at += frames as u64;
            for index in 0..frames {
                let item = inheriting(self.returns.frames(back)[index], used);
                let letter = (item.0, item.2);
                let is_new;
                if items.len() < FEW {
                    let mut others = items.iter().filter(|other| (other.0, other.2) == letter);
                    is_new = !others.any(|other| self.returns.covers(other.1, item.1));
                } else {
                    if seen.is_empty() {
                        seen.extend(items.iter().copied());
                        items.iter().for_each(|item| add_alike(&mut alike, *item));
                    }
                    let others = alike.get(&letter).into_iter().flatten();
                    is_new =
                        seen.insert(item) && !others.copied().any(|other| self.returns.covers(other, item.1));
                    if is_new {
                        add_alike(&mut alike, item);
                    }
                }
                if is_new {
                    items.push(item);
                }
            }
            at += 1;
        }
    }

    /// Makes the returns of all calls: those of callers before those of what they begin with.
    fn make_returns(&mut self, work: &mut Work, rules: &Rules) {
        let calls = work.calls[..work.used].iter().zip(0u32..);
        // Rules that begin with each other have used the same texts, for none of them is a scope.
        let mut order = std::mem::take(&mut work.order);
        order.clear();
        order.extend(calls.map(|(call, at)| (rules.order[call.rule as usize], call.used, call.rule, at)));
        order.sort_unstable();
        for group in order.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1)) {
            self.add_frames_of_callers(&mut work.calls, group);
            self.make_group(work, group);
        }
        work.order = order;
    }

    /// Adds the frames of the callers that end with the calls of `group`. Callers outside of it are complete.
    fn add_frames_of_callers(&mut self, calls: &mut [Call], group: &[(u32, Used, u32, u32)]) {
        let is_member = |call: u32| group.iter().any(|(.., member)| *member == call);
        for (.., call) in group {
            // Callers in the group, in which each may end with the next.
            let mut open: SmallVec<[u32; 4]> = SmallVec::from_slice(&[*call]);
            let mut frames = std::mem::take(&mut calls[*call as usize].frames);
            let mut at = 0;
            while let Some(member) = open.get(at).copied() {
                if member != *call {
                    frames.extend_from_slice(&calls[member as usize].frames);
                }
                for (other, inherited) in &calls[member as usize].also {
                    let inherit = |(position, back, used): (Position, Ref, Used)| {
                        (position, back, if used == INHERITED { *inherited } else { used })
                    };
                    match *other {
                        Ref::Made(back) => {
                            let made = self.returns.frames(back).iter();
                            let made =
                                made.map(|(position, back, used)| (*position, Ref::Made(*back), *used));
                            frames.extend(made.map(inherit));
                        }
                        Ref::Called(other) if group.len() > 1 && is_member(other) => {
                            if !open.contains(&other) {
                                open.push(other);
                            }
                        }
                        Ref::Called(other) if other == *call => {}
                        Ref::Called(other) => {
                            frames.extend(calls[other as usize].frames.iter().copied().map(inherit));
                        }
                    }
                }
                at += 1;
            }
            self.looked_at += frames.len() as u64;
            frames.sort_unstable();
            frames.dedup();
            calls[*call as usize].frames = frames;
        }
    }

    /// Makes the returns of `group`: the last of each triple is a call.
    fn make_group(&mut self, work: &mut Work, group: &[(u32, Used, u32, u32)]) {
        let Work { calls, members, .. } = work;
        if members.len() < group.len() {
            members.resize_with(group.len(), Vec::new);
        }
        for ((.., call), member) in group.iter().zip(members.iter_mut()) {
            member.clear();
            member.extend(calls[*call as usize].frames.iter().map(|(position, back, used)| {
                let back = match back {
                    Ref::Made(back) => *back,
                    Ref::Called(other) => match group.iter().position(|(.., member)| member == other) {
                        Some(member) => inner(u32::try_from(member).expect("bounded")),
                        None => calls[*other as usize].made,
                    },
                };
                (*position, back, *used)
            }));
        }
        let first = self.returns.insert(&mut members[..group.len()]);
        for ((.., call), made) in group.iter().zip(first..) {
            calls[*call as usize].made = made;
        }
    }
}

impl Work {
    /// What is read and called from `items`, and from the beginnings of what is called.
    fn call(&mut self, rules: &Rules, states: &mut States, tracks: bool) {
        self.used = 0;
        self.read.clear();
        for at in 0..self.items.len() {
            let (position, back, used) = self.items[at];
            self.look(rules, states, position, Ref::Made(back), used, tracks);
        }
        let mut at = 0;
        while at < self.used {
            let Call { rule, used, .. } = self.calls[at];
            let call = Ref::Called(u32::try_from(at).expect("bounded"));
            self.look(rules, states, rules.start(rule), call, used, tracks);
            at += 1;
        }
    }

    fn look(
        &mut self,
        rules: &Rules,
        states: &mut States,
        position: Position,
        back: Ref,
        used: Used,
        tracks: bool,
    ) {
        let before =
            |rule: u32| if tracks && rules.is_scope(rule) { (NOTHING, used) } else { (used, INHERITED) };
        if is_of_group(position) {
            for Edge { rule, to, is_last } in states.edges(&rules.groups, position).iter().copied() {
                self.add_call(rule, before(rule), to, is_last, back);
            }
            return;
        }
        let read = rules.terminals(position).iter();
        self.read.extend(read.map(|(terminal, to)| (*terminal, *to, back, used)));
        for (rule, to) in rules.calls(position) {
            self.add_call(*rule, before(*rule), *to, rules.is_final(*to), back);
        }
    }

    /// Calls `rule`, behind which `to` follows: with what was used before it, and what that is behind it.
    fn add_call(&mut self, rule: u32, (used, behind): (Used, Used), to: Position, is_final: bool, back: Ref) {
        let first = self.call_of[rule as usize];
        let mut found = first;
        while found != NONE && self.calls[found as usize].used != used {
            found = self.calls[found as usize].next;
        }
        if found == NONE {
            found = u32::try_from(self.used).expect("bounded");
            self.call_of[rule as usize] = found;
            if self.used == self.calls.len() {
                self.calls.push(Call::default());
            }
            let call = &mut self.calls[self.used];
            (call.rule, call.used, call.next) = (rule, used, first);
            call.frames.clear();
            call.also.clear();
            self.used += 1;
        }
        let call = &mut self.calls[found as usize];
        if is_final { call.also.push((back, behind)) } else { call.frames.push((to, back, behind)) }
    }
}

/// Adds `item` to the first few of its letter, which are the most likely to cover others: they came last in the text.
fn add_alike(alike: &mut HashMap<(Position, Used), SmallVec<[Return; 2]>>, (position, back, used): Item) {
    let returns = alike.entry((position, used)).or_default();
    if returns.len() < returns.inline_size() {
        returns.push(back);
    }
}

/// The item that `frame` is where a rule has ended that has used these texts.
#[inline]
fn inheriting((position, back, used): Item, ended: Used) -> Item {
    (position, back, if used == INHERITED { ended } else { used })
}

/// Whether nothing but the end of its rule follows `position`.
fn is_final(rules: &Rules, states: &States, position: Position) -> bool {
    match is_of_group(position) {
        true => states.is_final(&rules.groups, position),
        false => rules.is_final(position),
    }
}

impl<T: Copy + Eq + std::hash::Hash> Lists<T> {
    fn new() -> Self {
        Self { items: Vec::new(), first: vec![0], ids: Ids::default() }
    }

    fn get(&self, list: u32) -> &[T] {
        &self.items[self.first[list as usize] as usize..self.first[list as usize + 1] as usize]
    }

    fn insert(&mut self, list: &[T]) -> u32 {
        let (items, first) = (&self.items, &self.first);
        let get = |id: u32| &items[first[id as usize] as usize..first[id as usize + 1] as usize];
        let next = u32::try_from(first.len() - 1).expect("bounded memory");
        let id = self.ids.get_or_insert(self.ids.hash(list), next, |id| get(id) == list);
        if id == next {
            self.items.extend_from_slice(list);
            self.first.push(u32::try_from(self.items.len()).expect("bounded memory"));
        }
        id
    }

    fn memory_usage(&self) -> usize {
        self.items.len() * size_of::<T>() + self.first.len() * (size_of::<u32>() + Ids::ENTRY)
    }
}

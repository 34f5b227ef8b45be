//! Places that do not depend on the tables of a scratch: what the state of a sequence holds.
//!
//! Inside a scratch everything is a number, and so it is fast; but a number means nothing in another thread's scratch, nor
//! after a scratch was emptied because it was full. So a state also holds a place spelled out, as a shared tree, and the few tokens
//! that were read behind it. Such a place shares all that earlier ones hold: a deeper nesting adds one node. Reading it into another
//! scratch looks up what is known there by address, and makes only the rest.
//!
//! Tried instead: replaying all tokens, which costs the length of the text each time a sequence changes threads; and spelling out
//! every place that a token leads to, which took a third of the time of a token and was hardly ever read.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    engine::{Item, Parser, Return},
    places::{BOUNDARY, Compiled, Place, Places, Reading},
};
use crate::{
    ids::NONE,
    network::{
        rules::Position,
        terminals::Terminals,
        unordered::{Seen, is_of_group},
    },
    unique::distinct::{Begun, INHERITED, NOTHING, Texts, Used},
};

/// A place, spelled out.
#[derive(Debug)]
pub(crate) struct PortablePlace {
    readings: Box<[PortableReading]>,
}

#[derive(Debug)]
struct PortableReading {
    terminal: u32,
    state: u32,
    /// Where texts are tracked, the beginning of one that the state is.
    begun: Option<Arc<PortableBegun>>,
    todo: Box<[(PortablePosition, Link, PortableUsed)]>,
}

/// The texts that were used.
#[derive(Clone, Debug)]
enum PortableUsed {
    Nothing,
    Inherited,
    Texts(Arc<UsedTexts>),
}

/// The last text, and those before it.
#[derive(Debug)]
struct UsedTexts {
    others: PortableUsed,
    text: Arc<[u8]>,
}

/// The beginning of a text: a shorter one that was spelled out, and the bytes behind that. So a long text is not spelled out again at
/// each place of it.
#[derive(Debug)]
struct PortableBegun {
    before: Option<Arc<PortableBegun>>,
    bytes: Box<[u8]>,
}

impl Drop for PortableBegun {
    /// Without recursion: a text may be long.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut begun) = next.and_then(Arc::into_inner) {
            next = begun.before.take();
        }
    }
}

impl Drop for UsedTexts {
    /// Without recursion: they may be many.
    fn drop(&mut self) {
        let mut next = std::mem::replace(&mut self.others, PortableUsed::Nothing);
        while let PortableUsed::Texts(texts) = next {
            let Some(mut texts) = Arc::into_inner(texts) else { break };
            next = std::mem::replace(&mut texts.others, PortableUsed::Nothing);
        }
    }
}

/// A position that does not depend on a scratch.
#[derive(Clone, Debug)]
enum PortablePosition {
    /// One of a rule's automaton.
    Fixed(Position),
    /// One of a group in any order: what was read of it, and where it stands behind that.
    OfGroup(Box<(Seen, u32)>),
}

impl PortablePosition {
    fn new(parser: &Parser, position: Position) -> Self {
        match is_of_group(position) {
            true => Self::OfGroup(Box::new(parser.states().spelled_out(position))),
            false => Self::Fixed(position),
        }
    }

    fn number(&self, parser: &mut Parser, compiled: &Compiled) -> Position {
        match self {
            Self::Fixed(position) => *position,
            Self::OfGroup(place) => parser.position(&compiled.rules, &place.0, place.1),
        }
    }
}

/// A return of a group.
#[derive(Clone, Debug)]
struct Link {
    group: Arc<Group>,
    member: u32,
}

/// Returns that were made together; see [`crate::parser::engine`].
#[derive(Debug)]
struct Group {
    members: Box<[Frames]>,
}

type Frames = Box<[(PortablePosition, Target, PortableUsed)]>;

#[derive(Debug)]
enum Target {
    Inner(u32),
    Outer(Link),
}

impl Drop for Group {
    /// Without recursion: a text may be nested deeper than a thread has stack.
    fn drop(&mut self) {
        let mut open: Vec<Arc<Self>> = Vec::new();
        let take = |members: &mut [Frames], open: &mut Vec<Arc<Self>>| {
            for (_, target, _) in members.iter_mut().flat_map(|frames| frames.iter_mut()) {
                if let Target::Outer(link) = std::mem::replace(target, Target::Inner(0)) {
                    open.push(link.group);
                }
            }
        };
        take(&mut self.members, &mut open);
        while let Some(group) = open.pop() {
            if let Some(mut group) = Arc::into_inner(group) {
                take(&mut group.members, &mut open);
            }
        }
    }
}

/// What of the tables of a scratch is spelled out.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// By address, and with it what keeps the address in use.
    places: HashMap<usize, (Arc<PortablePlace>, Place)>,
    groups: HashMap<usize, Return>,
    used: HashMap<usize, (Arc<UsedTexts>, Used)>,
    by_place: HashMap<Place, Arc<PortablePlace>>,
    by_group: HashMap<Return, Arc<Group>>,
    by_used: HashMap<Used, Arc<UsedTexts>>,
    /// The items of places and groups that were spelled out or read, which these tables keep.
    items: usize,
    /// By address, as above, and terminal.
    begun: HashMap<(usize, u32), (Arc<PortableBegun>, Begun)>,
    by_begun: HashMap<Begun, Arc<PortableBegun>>,
    /// The bytes of beginnings.
    bytes: usize,
}

impl PortablePlace {
    fn items(&self) -> usize {
        self.readings.iter().map(|reading| 1 + reading.todo.len()).sum()
    }
}

impl Group {
    fn items(&self) -> usize {
        self.members.iter().map(|frames| 1 + frames.len()).sum()
    }
}

impl Exchange {
    /// `place`, spelled out.
    pub(crate) fn export(
        &mut self,
        places: &Places,
        compiled: &Compiled,
        place: Place,
    ) -> Arc<PortablePlace> {
        if let Some(known) = self.by_place.get(&place) {
            return Arc::clone(known);
        }
        let readings: Vec<Reading> = places.readings(place).to_vec();
        let readings = readings.iter().map(|reading| {
            let items: Vec<Item> = places.parser.items(reading.todo).to_vec();
            let todo = items.iter().map(|(position, back, used)| {
                (
                    PortablePosition::new(&places.parser, *position),
                    self.export_return(places, *back),
                    self.export_used(places, *used),
                )
            });
            let is_begun = reading.terminal != BOUNDARY && compiled.terminals.is_distinct(reading.terminal);
            let todo = todo.collect();
            let begun = places.texts().filter(|_| is_begun);
            let begun = begun.map(|texts| self.export_begun(texts, reading.terminal, reading.state));
            PortableReading { terminal: reading.terminal, state: reading.state, begun, todo }
        });
        let portable = Arc::new(PortablePlace { readings: readings.collect() });
        self.items += portable.items();
        self.places.insert(Arc::as_ptr(&portable).addr(), (Arc::clone(&portable), place));
        self.by_place.insert(place, Arc::clone(&portable));
        portable
    }

    /// The place that is spelled out here.
    pub(crate) fn import(
        &mut self,
        places: &mut Places,
        compiled: &Compiled,
        portable: &Arc<PortablePlace>,
    ) -> Place {
        let address = Arc::as_ptr(portable).addr();
        if let Some((_, place)) = self.places.get(&address) {
            return *place;
        }
        let mut readings = Vec::with_capacity(portable.readings.len());
        for reading in &portable.readings {
            let items = reading.todo.iter().map(|(position, link, used)| {
                let back = self.import_group(places, compiled, &link.group) + link.member;
                (position.number(&mut places.parser, compiled), back, self.import_used(places, used))
            });
            let mut items: Vec<Item> = items.collect();
            let todo = places.parser.todo(&mut items, &compiled.rules);
            let mut state = reading.state;
            if let Some((begun, texts)) = reading.begun.as_ref().zip(places.texts_mut()) {
                state = self.import_begun(texts, &compiled.terminals, reading.terminal, begun);
            }
            readings.push(Reading { terminal: reading.terminal, state, ended: 0, todo });
        }
        let place = places.place(&mut readings, compiled);
        self.items += portable.items();
        self.places.insert(address, (Arc::clone(portable), place));
        self.by_place.entry(place).or_insert_with(|| Arc::clone(portable));
        place
    }

    /// The memory that its tables take, in bytes, about.
    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 64;
        let ours = self.by_place.len() + self.by_group.len() + self.by_used.len() + self.by_begun.len();
        let all = self.places.len() + self.groups.len() + self.used.len() + self.begun.len();
        (all + ours * 4) * ENTRY
            + self.items * size_of::<(PortablePosition, Target, PortableUsed)>()
            + self.bytes
    }

    fn export_begun(&mut self, texts: &Texts, terminal: u32, begun: Begun) -> Arc<PortableBegun> {
        let known = texts.since(NONE, begun).find_map(|(at, _)| Some((at, self.by_begun.get(&at)?)));
        let (from, before) = match known {
            Some((at, known)) if at == begun => return Arc::clone(known),
            Some((at, known)) => (at, Some(Arc::clone(known))),
            None => (NONE, None),
        };
        let made = Arc::new(PortableBegun { before, bytes: texts.bytes(from, begun).into() });
        self.bytes += made.bytes.len();
        self.begun.insert((Arc::as_ptr(&made).addr(), terminal), (Arc::clone(&made), begun));
        self.by_begun.insert(begun, Arc::clone(&made));
        made
    }

    fn import_begun(
        &mut self,
        texts: &mut Texts,
        terminals: &Terminals,
        terminal: u32,
        begun: &Arc<PortableBegun>,
    ) -> Begun {
        let address = |begun: &Arc<PortableBegun>| (Arc::as_ptr(begun).addr(), terminal);
        let mut open: Vec<&Arc<PortableBegun>> = Vec::new();
        let mut next = Some(begun);
        let mut at = NONE;
        while let Some(begun) = next {
            if let Some((_, known)) = self.begun.get(&address(begun)) {
                at = *known;
                break;
            }
            open.push(begun);
            next = begun.before.as_ref();
        }
        for begun in open.into_iter().rev() {
            at = texts.begun(terminals, terminal, at, &begun.bytes);
            self.begun.insert(address(begun), (Arc::clone(begun), at));
            self.by_begun.entry(at).or_insert_with(|| Arc::clone(begun));
        }
        at
    }

    fn export_used(&mut self, places: &Places, used: Used) -> PortableUsed {
        if used == INHERITED {
            return PortableUsed::Inherited;
        }
        let (sets, texts) = (&places.parser.used, places.texts());
        // What is not spelled out yet: the last ones.
        let mut open: Vec<(Used, u32)> = Vec::new();
        let mut at = used;
        let mut made = PortableUsed::Nothing;
        while let Some((others, text)) = sets.last(at) {
            if let Some(known) = self.by_used.get(&at) {
                made = PortableUsed::Texts(Arc::clone(known));
                break;
            }
            open.push((at, text));
            at = others;
        }
        for (set, text) in open.into_iter().rev() {
            let text = texts.map_or_else(|| [].into(), |texts| Arc::clone(texts.of(text)));
            let link = Arc::new(UsedTexts { others: made, text });
            self.used.insert(Arc::as_ptr(&link).addr(), (Arc::clone(&link), set));
            self.by_used.insert(set, Arc::clone(&link));
            made = PortableUsed::Texts(link);
        }
        made
    }

    fn import_used(&mut self, places: &mut Places, used: &PortableUsed) -> Used {
        let mut open: Vec<&Arc<UsedTexts>> = Vec::new();
        let mut at = used;
        let mut set = loop {
            match at {
                PortableUsed::Nothing => break NOTHING,
                PortableUsed::Inherited => return INHERITED,
                PortableUsed::Texts(link) => match self.used.get(&Arc::as_ptr(link).addr()) {
                    Some((_, set)) => break *set,
                    None => {
                        open.push(link);
                        at = &link.others;
                    }
                },
            }
        };
        for link in open.into_iter().rev() {
            let Some(text) = places.texts_mut().map(|texts| texts.text(&link.text)) else { break };
            set = places.parser.used.with(set, text);
            self.used.insert(Arc::as_ptr(link).addr(), (Arc::clone(link), set));
            self.by_used.entry(set).or_insert_with(|| Arc::clone(link));
        }
        set
    }

    fn export_return(&mut self, places: &Places, back: Return) -> Link {
        let returns = places.parser.returns();
        let mut open = vec![returns.group(back).start];
        while let Some(first) = open.last().copied() {
            if self.by_group.contains_key(&first) {
                open.pop();
                continue;
            }
            let range = returns.group(first);
            let outer = range.clone().flat_map(|member| returns.frames(member)).map(|(_, back, _)| *back);
            let missing: Vec<Return> = outer
                .filter(|back| !range.contains(back))
                .map(|back| returns.group(back).start)
                .filter(|first| !self.by_group.contains_key(first))
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let members = range.clone().map(|member| {
                let frames = returns.frames(member).iter().map(|(position, back, used)| {
                    let target = if range.contains(back) {
                        Target::Inner(back - first)
                    } else {
                        let outer = returns.group(*back).start;
                        Target::Outer(Link {
                            group: Arc::clone(&self.by_group[&outer]),
                            member: back - outer,
                        })
                    };
                    let used = self.export_used(places, *used);
                    (PortablePosition::new(&places.parser, *position), target, used)
                });
                frames.collect()
            });
            let members = members.collect();
            let group = Arc::new(Group { members });
            self.items += group.items();
            // The map keeps the group, and so its address.
            self.groups.insert(Arc::as_ptr(&group).addr(), first);
            self.by_group.insert(first, group);
            open.pop();
        }
        let first = returns.group(back).start;
        Link { group: Arc::clone(&self.by_group[&first]), member: back - first }
    }

    /// The first return of `group`.
    fn import_group(&mut self, places: &mut Places, compiled: &Compiled, group: &Arc<Group>) -> Return {
        let address = |group: &Arc<Group>| Arc::as_ptr(group).addr();
        let mut open: Vec<&Arc<Group>> = vec![group];
        while let Some(group) = open.last().copied() {
            if self.groups.contains_key(&address(group)) {
                open.pop();
                continue;
            }
            let targets = group.members.iter().flatten().map(|(_, target, _)| target);
            let missing: Vec<&Arc<Group>> = targets
                .filter_map(|target| match target {
                    Target::Outer(link) => Some(&link.group),
                    Target::Inner(_) => None,
                })
                .filter(|group| !self.groups.contains_key(&address(group)))
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let members = group.members.iter().map(|frames| {
                let frames = frames.iter().map(|(position, target, used)| {
                    let back = match target {
                        Target::Inner(member) => crate::parser::returns::inner(*member),
                        Target::Outer(link) => self.groups[&address(&link.group)] + link.member,
                    };
                    (position.number(&mut places.parser, compiled), back, self.import_used(places, used))
                });
                frames.collect()
            });
            let mut members: Vec<Vec<Item>> = members.collect();
            let first = places.parser.returns_mut().insert(&mut members);
            self.items += group.items();
            // A group that is known under another address keeps that one for itself: this one is kept by its place.
            self.groups.insert(address(group), first);
            self.by_group.entry(first).or_insert_with(|| Arc::clone(group));
            open.pop();
        }
        self.groups[&address(group)]
    }
}

//! Earley's algorithm over an output, and the first reading that its items have.
//!
//! All that a chart keeps is which symbol reads which text. The first reading is found from the outside: the texts at
//! which the parts of a production may end are those that the parts after it allow, found backwards, and of these
//! each part takes the farthest, forwards.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use unskew_grammar::kit::terminal::reading;

use super::{
    CaptureError, Input, Text,
    rules::{Reads, Rules, Symbol},
};

/// A production with so many parts read, and where it began.
type Item = (u32, u32, u32);

/// The terminals of a reading: by the place where a text begins, its terminal by name and its end.
type Cuts = HashMap<u32, Vec<(Arc<str>, u32)>>;

pub(super) struct Chart<'a> {
    rules: &'a Rules,
    start: u32,
    text: &'a Text,
    span: Range<u32>,
    limit: usize,
    /// By symbol and the end of its text: where the text begins.
    begins: HashMap<(Symbol, u32), Vec<u32>>,
    /// Productions that read a text, with its begin and its end.
    whole: HashSet<Item>,
    /// By place: the items that wait there for a nonterminal.
    waiting: Vec<HashMap<u32, Vec<Item>>>,
    /// Productions, with where they began, of which a terminal may go on after the text.
    open: HashSet<(u32, u32)>,
}

/// The set of one place.
#[derive(Default)]
struct Set {
    items: Vec<Item>,
    known: HashSet<Item>,
    /// By the nonterminal that they wait for.
    waiting: HashMap<u32, Vec<Item>>,
    predicted: HashSet<Symbol>,
}

impl Set {
    fn add(&mut self, item: Item) {
        if self.known.insert(item) {
            self.items.push(item);
        }
    }
}

impl<'a> Chart<'a> {
    /// The readings of the text in `span` by the rule `start`; with `cuts`, those with these terminals.
    pub(super) fn new(
        rules: &'a Rules,
        start: u32,
        text: &'a Text,
        span: Range<u32>,
        cuts: Option<&Cuts>,
        limit: usize,
    ) -> Result<Self, CaptureError> {
        // Of more places than numbers there are more items than any limit.
        if text.places.len() >= u32::MAX as usize {
            return Err(CaptureError::TooCostly { limit });
        }
        let (first, end) = (span.start, span.end);
        let (begins, whole, waiting, open) = (HashMap::new(), HashSet::new(), Vec::new(), HashSet::new());
        let mut chart = Self { rules, start, text, span, limit, begins, whole, waiting, open };
        let mut sets: Vec<Set> = (0..=end).map(|_| Set::default()).collect();
        let mut completed: HashSet<(Symbol, u32, u32)> = HashSet::new();
        let mut items = 0;
        let productions = |of: u32| rules.nonterminals[of as usize].productions.iter().map(|at| (*at, 0));
        productions(start).for_each(|(at, dot)| sets[first as usize].add((at, dot, first)));
        for here in first..=end {
            let mut next = 0;
            while let Some(&item) = sets[here as usize].items.get(next) {
                next += 1;
                let (at, dot, from) = item;
                let production = &rules.productions[at as usize];
                let Some(&symbol) = production.parts.get(dot as usize) else {
                    let own = Symbol::Nonterminal(production.of);
                    chart.whole.insert((at, from, here));
                    if completed.insert((own, from, here)) {
                        chart.begins.entry((own, here)).or_default().push(from);
                        let waiting =
                            sets[from as usize].waiting.get(&production.of).cloned().unwrap_or_default();
                        waiting
                            .iter()
                            .for_each(|(at, dot, from)| sets[here as usize].add((*at, dot + 1, *from)));
                    }
                    continue;
                };
                let is_new = sets[here as usize].predicted.insert(symbol);
                match symbol {
                    Symbol::Nonterminal(of) => {
                        sets[here as usize].waiting.entry(of).or_default().push(item);
                        if is_new {
                            productions(of).for_each(|(at, dot)| sets[here as usize].add((at, dot, here)));
                        }
                        // Where it is complete only later in this set, the item waits.
                        if completed.contains(&(symbol, here, here)) {
                            sets[here as usize].add((at, dot + 1, from));
                        }
                    }
                    Symbol::Terminal(of) => {
                        if cuts.is_none() && goes_on(&rules.terminals[of as usize], text, here as usize) {
                            chart.open.insert((at, from));
                        }
                        let to = match cuts {
                            None => ends(&rules.terminals[of as usize], text, here as usize),
                            Some(cuts) => {
                                let own = |(name, _): &&(Arc<str>, u32)| *name == rules.names[of as usize];
                                let cut = cuts.get(&here).into_iter().flatten().filter(own);
                                // The rules that were rewritten have no terminals without a text.
                                let none = may_be_empty(&rules.terminals[of as usize]).then_some(here);
                                cut.map(|(_, to)| *to).filter(|to| *to != here).chain(none).collect()
                            }
                        };
                        for to in to.into_iter().filter(|to| *to <= end) {
                            if is_new {
                                chart.begins.entry((symbol, to)).or_default().push(here);
                            }
                            sets[to as usize].add((at, dot + 1, from));
                            items += 1;
                        }
                    }
                }
                items += 1;
                if items > limit {
                    return Err(CaptureError::TooCostly { limit });
                }
            }
            // Later sets complete what waits here.
            let set = &mut sets[here as usize];
            (set.items, set.known, set.predicted) = (Vec::new(), HashSet::new(), HashSet::new());
        }
        chart.waiting = sets.into_iter().map(|set| set.waiting).collect();
        Ok(chart)
    }

    /// The highest temperature of the terminals that may go on after the text; each has that of the innermost rule
    /// around it that has one.
    pub(super) fn temperature(&self) -> Result<Option<f64>, CaptureError> {
        let mut highest: Option<f64> = None;
        let own = |at: u32| self.rules.productions[at as usize].of;
        let mut open: Vec<(u32, u32)> = self.open.iter().map(|(at, from)| (own(*at), *from)).collect();
        let mut seen: HashSet<(u32, u32)> = open.iter().copied().collect();
        while let Some((of, from)) = open.pop() {
            let nonterminal = &self.rules.nonterminals[of as usize];
            if nonterminal.origin.is_some() {
                return Err(CaptureError::Unsupported {
                    construct: "a lazy terminal that competes with others",
                });
            }
            if let Some(own) = nonterminal.temperature {
                highest = Some(highest.map_or(own, |highest| highest.max(own)));
                continue;
            }
            for (at, _, from) in self.waiting[from as usize].get(&of).into_iter().flatten() {
                let around = (own(*at), *from);
                if seen.insert(around) {
                    open.push(around);
                }
            }
        }
        Ok(highest)
    }

    fn begins(&self, symbol: Symbol, end: u32) -> &[u32] {
        self.begins.get(&(symbol, end)).map_or(&[], Vec::as_slice)
    }

    /// The captures of the first reading, with their begins and ends.
    pub(super) fn first_reading(&self) -> Result<Vec<(Arc<str>, usize, usize)>, CaptureError> {
        let whole = (self.start, self.span.start, self.span.end);
        if !self.begins(Symbol::Nonterminal(whole.0), whole.2).contains(&whole.1) {
            return Err(CaptureError::Unfinished);
        }
        let mut found = Vec::new();
        let mut open = vec![whole];
        while let Some((of, from, to)) = open.pop() {
            let nonterminal = &self.rules.nonterminals[of as usize];
            if let Some((rules, start)) = &nonterminal.origin {
                let cuts = self.cuts(of, from, to);
                let chart = Chart::new(rules, *start, self.text, from..to, Some(&cuts), self.limit)?;
                found.extend(chart.first_reading().map_err(|error| match error {
                    // Names of terminals tell them apart only inside of one grammar.
                    CaptureError::Unfinished => {
                        CaptureError::Unsupported { construct: "terminals that compete with lazy ones" }
                    }
                    error => error,
                })?);
                continue;
            }
            if let Some(name) = &nonterminal.captures {
                found.push((Arc::clone(name), from as usize, to as usize));
            }
            for (symbol, from, to) in self.expand(of, from, to).into_iter().rev() {
                if let Symbol::Nonterminal(of) = symbol {
                    open.push((of, from, to));
                }
            }
        }
        Ok(found)
    }

    /// The terminals of the first reading of a text.
    fn cuts(&self, of: u32, from: u32, to: u32) -> Cuts {
        let mut cuts = Cuts::new();
        let mut open = vec![(of, from, to)];
        while let Some((of, from, to)) = open.pop() {
            for (symbol, from, to) in self.expand(of, from, to) {
                match symbol {
                    Symbol::Nonterminal(of) => open.push((of, from, to)),
                    Symbol::Terminal(of) => {
                        let name = Arc::clone(&self.rules.names[of as usize]);
                        cuts.entry(from).or_default().push((name, to));
                    }
                }
            }
        }
        cuts
    }

    /// The symbols of the first reading of a text by a nonterminal.
    fn expand(&self, of: u32, from: u32, to: u32) -> Vec<(Symbol, u32, u32)> {
        let nonterminal = &self.rules.nonterminals[of as usize];
        if let Some(round) = nonterminal.round {
            return self.rounds(of, round, from, to);
        }
        let first = nonterminal.productions.iter().find(|at| self.whole.contains(&(**at, from, to)));
        let first = *first.expect("a text that is read has a production");
        self.parts(&self.rules.productions[first as usize].parts, from, to)
    }

    /// The parts of a production, each as long as the rest allows.
    fn parts(&self, parts: &[Symbol], from: u32, to: u32) -> Vec<(Symbol, u32, u32)> {
        // By part: the places where it may begin so that the rest ends at `to`, each with those where it then may end.
        let mut ways: Vec<HashMap<u32, u32>> = Vec::with_capacity(parts.len());
        let mut ends: HashSet<u32> = HashSet::from([to]);
        for part in parts.iter().rev() {
            let mut farthest: HashMap<u32, u32> = HashMap::new();
            for end in ends {
                for begin in self.begins(*part, end).iter().filter(|begin| **begin >= from) {
                    let known = farthest.entry(*begin).or_insert(end);
                    *known = end.max(*known);
                }
            }
            ends = farthest.keys().copied().collect();
            ways.push(farthest);
        }
        let mut at = from;
        let chosen = parts.iter().zip(ways.iter().rev()).map(|(part, farthest)| {
            let begin = at;
            at = farthest[&begin];
            (*part, begin, at)
        });
        chosen.collect()
    }

    /// Rounds of a repetition, each with a text, as long as the rest allows.
    fn rounds(&self, of: u32, round: Symbol, from: u32, to: u32) -> Vec<(Symbol, u32, u32)> {
        let own = Symbol::Nonterminal(of);
        let mut farthest: HashMap<u32, u32> = HashMap::new();
        let mut open = vec![to];
        let mut seen = HashSet::from([to]);
        while let Some(end) = open.pop() {
            for begin in self.begins(round, end) {
                // The rounds before must lead there.
                if *begin >= end || *begin < from || !self.begins(own, *begin).contains(&from) {
                    continue;
                }
                let known = farthest.entry(*begin).or_insert(end);
                *known = end.max(*known);
                if seen.insert(*begin) {
                    open.push(*begin);
                }
            }
        }
        let mut at = from;
        let mut chosen = Vec::new();
        while at < to {
            let end = farthest[&at];
            chosen.push((round, at, end));
            at = end;
        }
        chosen
    }
}

/// Whether a text of a terminal that begins at `from` may go on after the whole text.
fn goes_on(reads: &Reads, text: &Text, from: usize) -> bool {
    match reads {
        Reads::End => false,
        Reads::Tokens(_) => from == text.places.len(),
        Reads::Text(terminal) => {
            let state =
                text.places[from..].iter().try_fold(reading::start(terminal), |state, place| match place {
                    Input::Byte(byte) => reading::step(terminal, state, *byte),
                    Input::Control => None,
                });
            state.is_some_and(|state| (0..=255).any(|byte| reading::step(terminal, state, byte).is_some()))
        }
    }
}

fn may_be_empty(reads: &Reads) -> bool {
    matches!(reads, Reads::Text(terminal) if reading::accepts(terminal, reading::start(terminal)))
}

/// Where texts of a terminal that begin at `from` end.
fn ends(reads: &Reads, text: &Text, from: usize) -> Vec<u32> {
    let place = |at: usize| u32::try_from(at).expect("the text is shorter");
    match reads {
        Reads::End => (from == text.places.len()).then(|| place(from)).into_iter().collect(),
        Reads::Tokens(mask) => {
            let token = text.tokens.get(from).copied().flatten();
            token.filter(|(id, _)| mask.contains(*id)).map(|(_, end)| place(end)).into_iter().collect()
        }
        Reads::Text(terminal) => {
            let mut found = Vec::new();
            let mut state = reading::start(terminal);
            for at in from..=text.places.len() {
                if reading::accepts(terminal, state) {
                    found.push(place(at));
                }
                let Some(Input::Byte(byte)) = text.places.get(at) else { break };
                match reading::step(terminal, state, *byte) {
                    Some(next) => state = next,
                    None => break,
                }
            }
            found
        }
    }
}

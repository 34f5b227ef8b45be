//! The automaton over terminals whose states are pending conditions and promises.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
    sync::Arc,
};

use indexmap::IndexSet;
use unskew_automata::{
    Dfa, Limits, RegexError, StateId,
    dfa::{Explored, Graph, strata},
};
use unskew_grammar::{BudgetLanguage, Grammar, Terminal, TerminalId};

use super::{Condition, Stop, follow::Follow};

/// Conditions on the text that follows: numbers of automata with their states, in ascending order.
type Pending = Vec<(u32, StateId)>;

/// By condition on the text before, as far as not every text fulfils it: for each of its [borders](Before), whether
/// the text before may have led there. In ascending order.
type Promise = Vec<(u32, Box<[bool]>)>;

/// A state of the machine.
pub(super) type State = u32;

/// Nothing is pending and nothing is promised.
pub(super) const FREE: State = 0;

/// The conditions of a use of a terminal, as numbers of automata.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Marks {
    before: Option<u32>,
    after: Option<u32>,
    /// What may come after it, as an index of [`Machine::follows`].
    follow: u32,
}

/// An automaton of texts before.
struct Before {
    dfa: Arc<Dfa>,
    /// The states between two terminals, the start first; `None` after a text that no other completes.
    borders: Vec<Option<StateId>>,
}

/// The ways through a terminal from one set of pending conditions.
pub(super) struct Paths {
    /// By configuration.
    graph: Graph,
    /// By configuration: the class of the texts that end there.
    ends: Vec<Option<usize>>,
    /// By class: what is pending after its texts, and for each [`Before`] the borders that its borders are led to.
    classes: Vec<(Pending, Rc<Vec<Vec<u32>>>)>,
    /// Whether a pending condition forbids some text.
    lost: bool,
}

/// A configuration inside a terminal: its state, the pending conditions, and the states of each [`Before`] by border.
type Place = (StateId, Pending, Vec<Vec<Option<StateId>>>);

/// A step of the machine over a terminal: the next state, and the classes of texts that lead there; `None` if they
/// cannot be told.
pub(super) type Step = (State, Option<Vec<usize>>);

pub(super) struct Machine<'g> {
    grammar: &'g Grammar,
    afters: Vec<Arc<Dfa>>,
    befores: Vec<Before>,
    /// By automaton of texts after, or before: the offset of a terminal that has it.
    after_at: Vec<usize>,
    before_at: Vec<usize>,
    states: IndexSet<(Pending, Promise)>,
    /// All promises that may be made.
    promises: Vec<Promise>,
    texts: HashMap<TerminalId, Option<Arc<Dfa>>>,
    paths: HashMap<(TerminalId, Pending), Rc<Paths>>,
    steps: HashMap<(TerminalId, Marks, State), Rc<Vec<Step>>>,
    follows: Vec<Follow>,
    /// By follower, condition and its state: whether it can still be broken.
    matters: HashMap<(u32, u32, StateId), bool>,
    /// The work so far, in configurations, and its limit.
    work: usize,
    limit: usize,
}

impl<'g> Machine<'g> {
    pub(super) fn new<'c>(
        grammar: &'g Grammar,
        conditions: impl Iterator<Item = (TerminalId, &'c Condition, Follow)>,
        limit: usize,
    ) -> Result<(Self, Vec<Marks>), Stop> {
        let mut machine = Self {
            grammar,
            afters: vec![],
            befores: vec![],
            after_at: vec![],
            before_at: vec![],
            states: IndexSet::new(),
            promises: vec![Promise::new()],
            texts: HashMap::new(),
            paths: HashMap::new(),
            steps: HashMap::new(),
            follows: vec![],
            matters: HashMap::new(),
            work: 0,
            limit,
        };
        machine.state((Pending::new(), Promise::new()));
        let mut marks = vec![];
        let mut uses: BTreeSet<(TerminalId, Option<u32>)> =
            grammar.terminals().map(|of| (of, None)).collect();
        for (terminal, condition, follow) in conditions {
            let known = machine.follows.iter().position(|known| *known == follow);
            let follow = id(known.unwrap_or_else(|| {
                machine.follows.push(follow);
                machine.follows.len() - 1
            }));
            let after = condition.after.as_ref().map(|dfa| {
                let known = machine.afters.iter().position(|known| known == dfa);
                id(known.unwrap_or_else(|| {
                    machine.afters.push(Arc::clone(dfa));
                    machine.after_at.push(condition.at);
                    machine.afters.len() - 1
                }))
            });
            let before = condition.before.as_ref().map(|dfa| {
                let known = machine.befores.iter().position(|known| known.dfa == *dfa);
                id(known.unwrap_or_else(|| {
                    let borders = vec![Some(dfa.start())];
                    machine.befores.push(Before { dfa: Arc::clone(dfa), borders });
                    machine.before_at.push(condition.at);
                    machine.befores.len() - 1
                }))
            });
            uses.insert((terminal, before));
            marks.push(Marks { before, after, follow });
        }
        if !machine.befores.is_empty() {
            machine.find_borders()?;
            machine.find_promises(&uses)?;
        }
        Ok((machine, marks))
    }

    pub(super) fn has_befores(&self) -> bool {
        !self.befores.is_empty()
    }

    /// The states before the first byte of the output.
    pub(super) fn starts(&mut self) -> Vec<State> {
        // The first border of each is its start.
        let right = self.promises.iter().filter(|promise| promise.iter().all(|(_, borders)| borders[0]));
        let right: Vec<Promise> = right.cloned().collect();
        right.into_iter().map(|promise| self.state((Pending::new(), promise))).collect()
    }

    /// Whether the output may end in `state`.
    pub(super) fn may_end(&self, state: State) -> bool {
        let (pending, promise) = &self.states[state as usize];
        promise.is_empty() && pending.iter().all(|(of, at)| self.afters[*of as usize].is_accepting(*at))
    }

    pub(super) fn spend(&mut self, work: usize) -> Result<(), Stop> {
        self.work += work;
        if self.work > self.limit { Err(Stop::TooCostly) } else { Ok(()) }
    }

    fn state(&mut self, state: (Pending, Promise)) -> State {
        id(self.states.insert_full(state).0)
    }

    /// The offset of a terminal with a condition of `state`, or of any.
    pub(super) fn place_of(&self, state: State) -> usize {
        let (pending, promise) = &self.states[state as usize];
        let pending = pending.first().map(|(of, _)| self.after_at[*of as usize]);
        let promised = promise.first().map(|(of, _)| self.before_at[*of as usize]);
        pending.or(promised).unwrap_or(0)
    }

    /// The automaton of the texts of a terminal, if it has one.
    pub(super) fn text(&mut self, terminal: TerminalId) -> Result<Option<Arc<Dfa>>, Stop> {
        if let Some(known) = self.texts.get(&terminal) {
            return Ok(known.clone());
        }
        let made = match self.grammar.terminal(terminal) {
            Terminal::Automaton(dfa) => Some(Arc::clone(dfa)),
            Terminal::TokenBudget(budget) => match &budget.language {
                BudgetLanguage::Automaton(dfa) => Some(Arc::clone(dfa)),
                BudgetLanguage::Grammar(_) => None,
            },
            Terminal::Literal(text) => {
                let made = Dfa::from_literals([text], &Limits::default());
                Some(Arc::new(made.map_err(|source| self.error(terminal, source))?))
            }
            _ => None,
        };
        self.texts.insert(terminal, made.clone());
        Ok(made)
    }

    pub(super) fn error(&self, terminal: TerminalId, source: RegexError) -> Stop {
        let name = self.grammar.terminal_name(terminal).to_owned();
        Stop::Grammar(unskew_grammar::GrammarError::Terminal { name, location: None, source })
    }

    /// Finds the states of each automaton of texts before that lie between two terminals.
    fn find_borders(&mut self) -> Result<(), Stop> {
        let terminals: Vec<TerminalId> = self.grammar.terminals().collect();
        let is_known = |terminal: &TerminalId| match self.grammar.terminal(*terminal) {
            Terminal::Automaton(_) | Terminal::Literal(_) | Terminal::Token(_) => true,
            Terminal::TokenBudget(budget) => matches!(budget.language, BudgetLanguage::Automaton(_)),
            _ => false,
        };
        let all_known = terminals.iter().all(is_known);
        for before in 0..self.befores.len() {
            let dfa = Arc::clone(&self.befores[before].dfa);
            let mut borders = vec![Some(dfa.start())];
            if !all_known {
                // A text without an automaton may lead anywhere.
                borders.extend(dfa.states().filter(|state| *state != dfa.start()).map(Some));
                borders.push(None);
                self.befores[before].borders = borders;
                continue;
            }
            let mut at = 0;
            while let Some(border) = borders.get(at).copied() {
                at += 1;
                for terminal in &terminals {
                    let Some(text) = self.text(*terminal)? else { continue };
                    for end in self.ends(&text, &dfa, border)? {
                        if !borders.contains(&end) {
                            borders.push(end);
                        }
                    }
                }
            }
            self.befores[before].borders = borders;
        }
        Ok(())
    }

    /// The states of `dfa` after the texts of `text`, from `from`.
    fn ends(
        &mut self,
        text: &Dfa,
        dfa: &Dfa,
        from: Option<StateId>,
    ) -> Result<BTreeSet<Option<StateId>>, Stop> {
        let ranges = strata([text, dfa]);
        let mut found: Explored<_> = Explored::new((text.start(), from));
        let mut ends = BTreeSet::new();
        while let Some((state, own)) = found.next_state() {
            self.spend(1)?;
            if text.is_accepting(state) {
                ends.insert(own);
            }
            for range in &ranges {
                let byte = *range.start();
                let Some(next) = text.step(state, byte) else { continue };
                found.edge(range.clone(), (next, own.and_then(|own| dfa.step(own, byte))));
            }
        }
        Ok(ends)
    }

    /// Finds the promises that may be made: those of the terminals, and what they ask for before the terminals before
    /// them.
    fn find_promises(&mut self, uses: &BTreeSet<(TerminalId, Option<u32>)>) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(promise) = self.promises.get(at).cloned() {
            at += 1;
            for (terminal, before) in uses {
                let Some(paths) = self.paths(*terminal, &Pending::new())? else { continue };
                for (_, leads) in &paths.classes {
                    self.spend(1)?;
                    let asked = self.asked(*before, leads, &promise);
                    if let Some(asked) = asked
                        && !self.promises.contains(&asked)
                    {
                        self.promises.push(asked);
                    }
                }
            }
        }
        Ok(())
    }

    /// The promises that are needed before a text that leads borders to `leads`, for `promise` after it; `None` if no
    /// text before is right.
    fn asked(&self, own: Option<u32>, leads: &[Vec<u32>], promise: &Promise) -> Option<Promise> {
        let mut asked = Promise::new();
        for (of, before) in (0..).zip(&self.befores) {
            let after = promise.iter().find(|(promised, _)| *promised == of).map(|(_, borders)| borders);
            let is_own = own == Some(of);
            if after.is_none() && !is_own {
                continue;
            }
            let borders = before.borders.iter().zip(&leads[of as usize]);
            let right: Box<[bool]> = borders
                .map(|(border, led)| {
                    let accepts = border.is_some_and(|border| before.dfa.is_accepting(border));
                    (!is_own || accepts) && after.is_none_or(|after| after[*led as usize])
                })
                .collect();
            match (right.contains(&true), right.contains(&false)) {
                (false, _) => return None,
                (true, true) => asked.push((of, right)),
                (true, false) => {}
            }
        }
        Some(asked)
    }

    /// The ways through `terminal`; `None` if it has no automaton.
    pub(super) fn paths(
        &mut self,
        terminal: TerminalId,
        pending: &Pending,
    ) -> Result<Option<Rc<Paths>>, Stop> {
        let Some(text) = self.text(terminal)? else { return Ok(None) };
        if let Some(known) = self.paths.get(&(terminal, pending.clone())) {
            return Ok(Some(Rc::clone(known)));
        }
        let mut paths = Paths { graph: Graph::default(), ends: vec![], classes: vec![], lost: false };
        if pending.is_empty() && self.befores.is_empty() {
            // Every text leads to the same state.
            paths.classes.push((Pending::new(), Rc::default()));
        } else {
            self.walk(&text, pending, &mut paths)?;
        }
        let paths = Rc::new(paths);
        self.paths.insert((terminal, pending.clone()), Rc::clone(&paths));
        Ok(Some(paths))
    }

    fn walk(&mut self, text: &Dfa, pending: &Pending, paths: &mut Paths) -> Result<(), Stop> {
        let mut machines: Vec<&Dfa> = pending.iter().map(|(of, _)| &*self.afters[*of as usize]).collect();
        machines.extend(self.befores.iter().map(|before| &*before.dfa));
        machines.push(text);
        let ranges = strata(machines);
        let borders = self.befores.iter().map(|before| before.borders.clone()).collect();
        let mut classes: HashMap<(Pending, Vec<Vec<u32>>), usize> = HashMap::new();
        let mut places: Explored<Place> = Explored::new((text.start(), pending.clone(), borders));
        while let Some((state, pending, own)) = places.next_state() {
            self.spend(1 + pending.len())?;
            paths.ends.push(text.is_accepting(state).then(|| {
                let leads = self.befores.iter().zip(&own).map(|(before, own)| {
                    // After a whole terminal a state is at a border.
                    let at = |state: &Option<StateId>| before.borders.iter().position(|known| known == state);
                    own.iter().map(|state| id(at(state).expect("a border"))).collect()
                });
                let class = (pending.clone(), leads.collect::<Vec<Vec<u32>>>());
                *classes.entry(class).or_insert_with_key(|(pending, leads)| {
                    paths.classes.push((pending.clone(), Rc::new(leads.clone())));
                    paths.classes.len() - 1
                })
            }));
            for range in &ranges {
                let byte = *range.start();
                let Some(next) = text.step(state, byte) else { continue };
                let Some(pending) = self.stepped(&pending, byte) else {
                    paths.lost = true;
                    continue;
                };
                let own = self.befores.iter().zip(&own).map(|(before, own)| {
                    own.iter().map(|state| state.and_then(|state| before.dfa.step(state, byte))).collect()
                });
                places.edge(range.clone(), (next, pending, own.collect()));
            }
        }
        paths.graph = places.into_graph();
        Ok(())
    }

    /// The pending conditions after a byte; `None` if one is broken.
    fn stepped(&self, pending: &Pending, byte: u8) -> Option<Pending> {
        let mut next = Pending::new();
        for (of, state) in pending {
            let dfa = &self.afters[*of as usize];
            let to = dfa.step(*state, byte)?;
            let is_free = dfa.is_accepting(to) && (0..=255).all(|byte| dfa.step(to, byte) == Some(to));
            if !is_free {
                next.push((*of, to));
            }
        }
        next.sort_unstable();
        next.dedup();
        Some(next)
    }

    /// The steps from `state` over a use of `terminal`.
    pub(super) fn steps(
        &mut self,
        terminal: TerminalId,
        marks: Marks,
        state: State,
    ) -> Result<Rc<Vec<Step>>, Stop> {
        if let Some(known) = self.steps.get(&(terminal, marks, state)) {
            return Ok(Rc::clone(known));
        }
        let (pending, promise) = self.states[state as usize].clone();
        let mut found: Vec<Step> = vec![];
        match self.paths(terminal, &pending)? {
            Some(paths) => {
                for after in self.promises.clone() {
                    for (class, (pending, leads)) in paths.classes.iter().enumerate() {
                        self.spend(1)?;
                        if self.asked(marks.before, leads, &after).as_ref() != Some(&promise) {
                            continue;
                        }
                        let mut pending = pending.clone();
                        if let Some(own) = marks.after {
                            pending.push((own, self.afters[own as usize].start()));
                            pending.sort_unstable();
                            pending.dedup();
                            self.keep_what_matters(marks.follow, &mut pending)?;
                        }
                        let next = self.state((pending, after.clone()));
                        match found.iter_mut().find(|(known, _)| *known == next) {
                            Some((_, Some(classes))) => classes.push(class),
                            _ => found.push((next, Some(vec![class]))),
                        }
                    }
                }
            }
            // A control token has no text.
            None if matches!(self.grammar.terminal(terminal), Terminal::Token(_)) => {
                found.push((state, Some(vec![])));
            }
            None => found = self.opaque(state)?,
        }
        let found = Rc::new(found);
        self.steps.insert((terminal, marks, state), Rc::clone(&found));
        Ok(found)
    }

    /// Drops the conditions that nothing which may follow can break.
    fn keep_what_matters(&mut self, follow: u32, pending: &mut Pending) -> Result<(), Stop> {
        let mut kept = Pending::new();
        for (of, at) in std::mem::take(pending) {
            let matters = match self.matters.get(&(follow, of, at)) {
                Some(known) => *known,
                None => {
                    let matters = self.can_be_broken(follow, (of, at))?;
                    self.matters.insert((follow, of, at), matters);
                    matters
                }
            };
            kept.extend(matters.then_some((of, at)));
        }
        *pending = kept;
        Ok(())
    }

    fn can_be_broken(&mut self, follow: u32, (of, at): (u32, StateId)) -> Result<bool, Stop> {
        let Follow { terminals, may_end, is_unknown } = self.follows[follow as usize].clone();
        if is_unknown || (may_end && !self.afters[of as usize].is_accepting(at)) {
            return Ok(true);
        }
        let state = self.state((vec![(of, at)], Promise::new()));
        for terminal in terminals {
            if self.is_affected(terminal, state)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The steps over a text without an automaton.
    pub(super) fn opaque(&mut self, state: State) -> Result<Vec<Step>, Stop> {
        let (pending, promise) = self.states[state as usize].clone();
        if !pending.is_empty() {
            return Err(Stop::Opaque(self.place_of(state)));
        }
        let mut found = vec![];
        for after in self.promises.clone() {
            match (after.is_empty(), promise.is_empty()) {
                (true, true) => found.push((state, Some(vec![]))),
                (true, false) => {}
                (false, _) => {
                    let next = self.state((Pending::new(), after));
                    found.push((next, None));
                }
            }
        }
        Ok(found)
    }

    /// The state with the same promise in which nothing is pending.
    pub(super) fn without_pending(&mut self, state: State) -> State {
        let (pending, promise) = &self.states[state as usize];
        if pending.is_empty() {
            return state;
        }
        let promise = promise.clone();
        self.state((Pending::new(), promise))
    }

    /// The same, if it was asked for before; else `state`.
    pub(super) fn known_without_pending(&self, state: State) -> State {
        let base = (Pending::new(), self.states[state as usize].1.clone());
        self.states.get_index_of(&base).map_or(state, id)
    }

    /// Whether what is pending in `state` forbids some text of `terminal`, or is still pending after one.
    pub(super) fn is_affected(&mut self, terminal: TerminalId, state: State) -> Result<bool, Stop> {
        let pending = self.pending(state);
        let paths = self.paths(terminal, &pending)?;
        Ok(paths
            .is_none_or(|paths| paths.lost || paths.classes.iter().any(|(pending, _)| !pending.is_empty())))
    }

    /// The promises that are pending in `state`.
    pub(super) fn pending(&self, state: State) -> Pending {
        self.states[state as usize].0.clone()
    }
}

impl Paths {
    /// Whether these classes are all texts of the terminal.
    pub(super) fn is_whole(&self, classes: &[usize]) -> bool {
        !self.lost && classes.len() == self.classes.len()
    }

    /// The automaton of the texts of these classes.
    pub(super) fn automaton(&self, classes: &[usize], limits: &Limits) -> Result<Dfa, RegexError> {
        self.graph.automaton(|at| self.ends[at].is_some_and(|class| classes.contains(&class)), limits)
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).expect("limited")
}

//! Sequences and repetitions in the product.
//!
//! The parts of a sequence are planned from its end. A node of a plan is a rest of the sequence: states before a part
//! that have the same rest are one node. So a condition that the rest does not concern costs nothing, however many
//! states there are in which a part can be left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use unskew_grammar::{ExprId, GrammarError, RuleId};

use super::{
    Stop,
    machine::State,
    product::{Part, Product},
};

/// A rest: whether it may be empty, and its first parts, each with the rest after it.
type Rest = (bool, Vec<(Part, usize)>);

/// The rest that is empty alone.
const END: usize = 0;

/// Rests, those after others first.
pub(super) struct Plan {
    rests: Vec<Rest>,
    ids: HashMap<Rest, usize>,
    /// The rests that become rules, because they go round in a loop.
    loops: BTreeSet<usize>,
}

impl Plan {
    fn new() -> Self {
        let end: Rest = (true, vec![]);
        Self { rests: vec![end.clone()], ids: HashMap::from([(end, END)]), loops: BTreeSet::new() }
    }

    fn rest(&mut self, rest: Rest) -> usize {
        let rests = &mut self.rests;
        *self.ids.entry(rest).or_insert_with_key(|rest| {
            rests.push(rest.clone());
            rests.len() - 1
        })
    }
}

impl Product<'_> {
    /// The first parts of a rest that begins with `part` in `state`, where `after` has the rests after it by state.
    fn first_parts(
        &mut self,
        part: ExprId,
        state: State,
        after: &BTreeMap<State, usize>,
    ) -> Result<Vec<(Part, usize)>, Stop> {
        let mut by_rest: BTreeMap<usize, BTreeSet<State>> = BTreeMap::new();
        for next in self.settled(part, state) {
            if let Some(rest) = after.get(&next) {
                by_rest.entry(*rest).or_default().insert(next);
            }
        }
        self.machine.spend(1 + by_rest.len())?;
        if !self.shares {
            let single = by_rest
                .into_iter()
                .flat_map(|(rest, states)| states.into_iter().map(move |state| (rest, state)));
            return single
                .map(|(rest, next)| Ok((self.part_of(part, state, BTreeSet::from([next]))?, rest)))
                .collect();
        }
        by_rest.into_iter().map(|(rest, states)| Ok((self.part_of(part, state, states)?, rest))).collect()
    }

    /// The plan of a sequence from `from` to any of `to`, and its first rest.
    pub(super) fn sequence(
        &mut self,
        parts: &[ExprId],
        from: State,
        to: &BTreeSet<State>,
    ) -> Result<(Plan, usize), Stop> {
        let mut layers = vec![BTreeSet::from([from])];
        for part in parts {
            let last = layers.last().expect("the first");
            layers.push(last.iter().flat_map(|state| self.settled(*part, *state)).collect());
        }
        let mut plan = Plan::new();
        let mut after: BTreeMap<State, usize> = to.iter().map(|state| (*state, END)).collect();
        for (part, layer) in parts.iter().zip(&layers).rev() {
            let mut before = BTreeMap::new();
            for state in layer {
                let first = self.first_parts(*part, *state, &after)?;
                if !first.is_empty() {
                    before.insert(*state, plan.rest((false, first)));
                }
            }
            after = before;
        }
        Ok((plan, after[&from]))
    }

    pub(super) fn repeat(
        &mut self,
        item: ExprId,
        (min, max): (u32, Option<u32>),
        from: State,
        to: &BTreeSet<State>,
        missing: &mut Vec<Part>,
    ) -> Result<Option<ExprId>, Stop> {
        // The states between two rounds.
        let (mut reached, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(state) = open.pop() {
            self.machine.spend(1)?;
            open.extend(self.settled(item, state).into_iter().filter(|next| reached.insert(*next)));
        }
        // Those of them from which `to` is reached.
        let mut useful: BTreeSet<State> = reached.intersection(to).copied().collect();
        loop {
            let more = reached.difference(&useful).copied();
            let more: Vec<State> =
                more.filter(|state| !self.settled(item, *state).is_disjoint(&useful)).collect();
            if more.is_empty() {
                break;
            }
            useful.extend(more);
        }
        let classes = self.classes(item, &useful, to)?;
        let own = self.first_parts(item, from, &classes)?;
        if let ([(part, class)], true) = (&own[..], to.contains(&from))
            && *class == classes[&from]
        {
            // Every round is alike.
            return Ok(match self.made.get(part).copied() {
                Some(item) => Some(self.builder.repeat(item, min, max)),
                None => {
                    missing.push(*part);
                    None
                }
            });
        }
        let mut plan = Plan::new();
        let (mut after, rounds): (BTreeMap<State, usize>, u32) = match max {
            Some(max) => (to.iter().map(|state| (*state, END)).collect(), max),
            None => (self.loops(item, &classes, to, &mut plan)?, min),
        };
        for round in (0..rounds).rev() {
            let mut before = BTreeMap::new();
            for state in &useful {
                let first = self.first_parts(item, *state, &after)?;
                let may_end = round >= min && to.contains(state);
                if may_end && first.is_empty() {
                    before.insert(*state, END);
                } else if !first.is_empty() {
                    before.insert(*state, plan.rest((may_end, first)));
                }
            }
            // From here on, all rounds are alike.
            if before == after && round < min {
                break;
            }
            after = before;
        }
        self.built(&plan, after[&from], missing)
    }

    /// By state between two rounds of any number: the number of its class. States of a class have the same rests.
    fn classes(
        &mut self,
        item: ExprId,
        useful: &BTreeSet<State>,
        to: &BTreeSet<State>,
    ) -> Result<BTreeMap<State, usize>, Stop> {
        let mut classes: BTreeMap<State, usize> =
            useful.iter().map(|state| (*state, usize::from(to.contains(state)))).collect();
        let mut count = 0;
        loop {
            let mut ids: HashMap<(usize, Vec<(Part, usize)>), usize> = HashMap::new();
            let mut finer = BTreeMap::new();
            for state in useful {
                let first = self.first_parts(item, *state, &classes)?;
                let next = ids.len();
                finer.insert(*state, *ids.entry((classes[state], first)).or_insert(next));
            }
            classes = finer;
            if ids.len() == count {
                return Ok(classes);
            }
            count = ids.len();
        }
    }

    /// The rests of any number of rounds, as rules: one for each class.
    fn loops(
        &mut self,
        item: ExprId,
        classes: &BTreeMap<State, usize>,
        to: &BTreeSet<State>,
        plan: &mut Plan,
    ) -> Result<BTreeMap<State, usize>, Stop> {
        let first_rest = plan.rests.len();
        let mut states: BTreeMap<usize, State> = BTreeMap::new();
        for (state, class) in classes {
            states.entry(*class).or_insert(*state);
        }
        // The numbers of classes are those of their rests, in ascending order.
        for (class, state) in &states {
            let first = self.first_parts(item, *state, classes)?;
            let first = first.into_iter().map(|(part, class)| (part, first_rest + class)).collect();
            plan.rests.push((to.contains(state), first));
            plan.loops.insert(first_rest + class);
        }
        Ok(classes.iter().map(|(state, class)| (*state, first_rest + class)).collect())
    }

    /// The expression of a rest of a plan. `None` if expressions of its parts are missing.
    pub(super) fn built(
        &mut self,
        plan: &Plan,
        start: usize,
        missing: &mut Vec<Part>,
    ) -> Result<Option<ExprId>, Stop> {
        // Only what `start` uses. Rests of loops use one another.
        let mut uses = vec![0usize; plan.rests.len()];
        let mut open = vec![start];
        uses[start] = 1;
        while let Some(rest) = open.pop() {
            for (part, next) in &plan.rests[rest].1 {
                if !self.made.contains_key(part) {
                    missing.push(*part);
                }
                uses[*next] += 1;
                if uses[*next] == 1 {
                    open.push(*next);
                }
            }
        }
        if !missing.is_empty() {
            return Ok(None);
        }
        let mut made: Vec<Option<ExprId>> = vec![None; plan.rests.len()];
        let name = self.grammar.rule_name(self.grammar.start()).to_owned();
        let mut rules: HashMap<usize, RuleId> = HashMap::new();
        for rest in plan.loops.iter().filter(|rest| uses[**rest] > 0) {
            let rule = self.builder.rule(&name);
            rules.insert(*rest, rule);
            made[*rest] = Some(self.builder.call(rule));
        }
        // A rest with one part and one use is written where it is used.
        let is_inside = |rest: usize| {
            rest != start && uses[rest] == 1 && !plan.rests[rest].0 && plan.rests[rest].1.len() == 1
        };
        for rest in (0..plan.rests.len()).filter(|rest| uses[*rest] > 0 && *rest != END) {
            let is_rule = rules.contains_key(&rest);
            if is_inside(rest) && !is_rule {
                continue;
            }
            let (may_end, first) = &plan.rests[rest];
            let mut ways = vec![];
            if *may_end {
                ways.push(self.builder.empty());
            }
            for (part, next) in first {
                let (mut parts, mut next) = (vec![self.made[part]], *next);
                while made[next].is_none() && next != END {
                    // It is inside, because rests after others come first.
                    let (part, after) = plan.rests[next].1[0];
                    parts.push(self.made[&part]);
                    next = after;
                }
                parts.extend(made[next]);
                ways.push(self.builder.sequence(parts));
            }
            let body = self.builder.choice(ways);
            match rules.get(&rest) {
                Some(rule) => self.builder.define(*rule, body),
                None => made[rest] = Some(body),
            }
        }
        if self.builder.size() > self.limits.nodes {
            return Err(GrammarError::TooManyNodes { limit: self.limits.nodes }.into());
        }
        Ok(Some(made[start].unwrap_or_else(|| self.builder.empty())))
    }
}

//! Fewer rules, and alternatives that do not begin alike.
//!
//! A rule that is called once, or is short, takes the place of its calls. Then alternatives with a common beginning
//! become that beginning and a choice, so that a reader has one stack where it would have one for each.

use hashbrown::{HashMap, HashSet};
use petgraph::{algo::kosaraju_scc, graph::DiGraph};

use super::forms::{Form, FormId, Forms, Written};

/// The longest rule that takes the place of several calls, in bytes.
const SHORT: usize = 12;

/// The longest rule that takes the place of its only call, in bytes.
const LONG: usize = 160;

/// How often alternatives are divided by their beginnings, one inside the other.
const MAX_FACTORED: u32 = 100;

impl Forms {
    /// Shortens the rules that `start` calls. The names of forms move to the forms that take their place.
    pub(super) fn shorten(&mut self, start: Written, names: &mut HashMap<FormId, String>) {
        // A rule in the place of a call may bring a common beginning with it, and equal rules.
        for _ in 0..2 {
            let inlined = self.inlined(start);
            let rules = self.reached(start);
            // The rules that take the place of calls come first, each after those in it.
            let others = rules.iter().copied().filter(|rule| !inlined.contains(rule));
            let order: Vec<Written> = inlined.iter().copied().chain(others).collect();
            let inlined: HashSet<Written> = inlined.iter().copied().collect();
            let (mut new, mut done) = (HashMap::<FormId, FormId>::new(), HashSet::new());
            for rule in order {
                let body = self.body(rule);
                for form in self.inside([body], &mut done) {
                    let made = match self.form(form).clone() {
                        Form::Rule(called) if inlined.contains(&called) => self.body(called),
                        Form::Choice(parts) => {
                            let parts: Vec<FormId> = parts.iter().map(|part| new[part]).collect();
                            let choice = self.choice(parts);
                            self.factored(choice, MAX_FACTORED)
                        }
                        _ => self.with_parts(form, |part| new[&part]),
                    };
                    new.insert(form, made);
                    if let Some(name) = names.get(&form).cloned() {
                        names.entry(made).or_insert(name);
                    }
                }
                self.define(rule, new[&body]);
            }
            self.merge_equal(start);
        }
    }

    /// The rules that take the place of their calls, each after those that it calls.
    fn inlined(&self, start: Written) -> Vec<Written> {
        let rules = self.reached(start);
        let mut graph = DiGraph::<Written, ()>::new();
        let nodes: HashMap<Written, _> = rules.iter().map(|rule| (*rule, graph.add_node(*rule))).collect();
        let (mut done, mut uses) = (HashSet::new(), HashMap::<Written, usize>::new());
        let mut is_alternative: HashSet<Written> = HashSet::new();
        for rule in &rules {
            let body = self.body(*rule);
            for form in self.inside([body], &mut HashSet::new()) {
                if let Form::Rule(called) = self.form(form) {
                    graph.update_edge(nodes[rule], nodes[called], ());
                    if form == body {
                        *uses.entry(*called).or_default() += 1;
                    }
                }
                if !done.insert(form) {
                    continue;
                }
                for part in self.parts(form) {
                    if let Form::Rule(called) = self.form(*part) {
                        *uses.entry(*called).or_default() += 1;
                        if matches!(self.form(form), Form::Choice(_)) {
                            is_alternative.insert(*called);
                        }
                    }
                }
            }
        }
        // Callees come first.
        let mut inlined = vec![];
        for component in kosaraju_scc(&graph) {
            let rule = graph[component[0]];
            if component.len() > 1 || graph.contains_edge(component[0], component[0]) || rule == start {
                continue;
            }
            let size = self.size(self.body(rule));
            let most = match uses.get(&rule) {
                Some(1) if is_alternative.contains(&rule) => usize::MAX,
                Some(1) => LONG,
                _ => SHORT,
            };
            if size <= most {
                inlined.push(rule);
            }
        }
        inlined
    }

    /// The length of a form, about.
    fn size(&self, form: FormId) -> usize {
        let mut size = 0usize;
        let (mut open, mut steps) = (vec![form], 0);
        while let Some(form) = open.pop() {
            steps += 1;
            if steps > LONG {
                return usize::MAX - 1;
            }
            size += match self.form(form) {
                Form::Text(text) | Form::Token(text) => text.len() + 3,
                Form::Class(ranges) => 4 * ranges.len() + 3,
                Form::Empty | Form::Rule(_) | Form::Sequence(_) | Form::Choice(_) | Form::Repeat(..) => 4,
            };
            open.extend(self.parts(form));
        }
        size
    }

    /// The alternatives of a choice, divided by their first parts.
    fn factored(&mut self, choice: FormId, left: u32) -> FormId {
        let (alternatives, is_optional) = match self.form(choice) {
            Form::Choice(parts) => (parts.to_vec(), false),
            Form::Repeat(item, 0, Some(1)) => match self.form(*item) {
                Form::Choice(parts) => (parts.to_vec(), true),
                _ => return choice,
            },
            _ => return choice,
        };
        let lists: Vec<Vec<FormId>> = alternatives
            .iter()
            .map(|form| match self.form(*form) {
                Form::Sequence(parts) => parts.to_vec(),
                _ => vec![*form],
            })
            .collect();
        // Groups in the order of their first members. The key of a text is its first character.
        let mut groups: Vec<Vec<usize>> = vec![];
        let mut of_key: HashMap<(Option<char>, FormId), usize> = HashMap::new();
        let none = self.empty();
        for (at, list) in lists.iter().enumerate() {
            let key = match self.form(list[0]) {
                Form::Text(text) => (text.chars().next(), none),
                _ => (None, list[0]),
            };
            let group = *of_key.entry(key).or_insert_with(|| {
                groups.push(vec![]);
                groups.len() - 1
            });
            groups[group].push(at);
        }
        if groups.len() == alternatives.len() || left == 0 {
            return choice;
        }
        let mut ways = vec![];
        for group in groups {
            if let [only] = group[..] {
                ways.push(alternatives[only]);
                continue;
            }
            let mut rests: Vec<Vec<FormId>> = group.iter().map(|at| lists[*at].clone()).collect();
            let mut common = vec![];
            loop {
                let firsts: Option<Vec<FormId>> = rests.iter().map(|rest| rest.first().copied()).collect();
                let Some(firsts) = firsts else { break };
                if firsts.iter().all(|first| *first == firsts[0]) {
                    common.push(firsts[0]);
                    rests.iter_mut().for_each(|rest| _ = rest.remove(0));
                    continue;
                }
                let texts: Option<Vec<String>> = firsts
                    .iter()
                    .map(|first| match self.form(*first) {
                        Form::Text(text) => Some(text.to_string()),
                        _ => None,
                    })
                    .collect();
                let Some(texts) = texts else { break };
                let shared = texts.iter().skip(1).fold(texts[0].len(), |shared, text| {
                    let pairs = texts[0].char_indices().zip(text.chars());
                    let equal = pairs.take_while(|((_, left), right)| left == right);
                    let len = equal.last().map_or(0, |((at, char), _)| at + char.len_utf8());
                    shared.min(len)
                });
                if shared == 0 {
                    break;
                }
                common.push(self.text(&texts[0][..shared]));
                for (rest, text) in rests.iter_mut().zip(&texts) {
                    match text.len() == shared {
                        true => _ = rest.remove(0),
                        false => rest[0] = self.text(&text[shared..]),
                    }
                }
            }
            let rests: Vec<FormId> = rests.into_iter().map(|rest| self.sequence(rest)).collect();
            let rest = self.choice(rests);
            let rest = self.factored(rest, left - 1);
            ways.push(self.sequence(common.into_iter().chain([rest])));
        }
        let made = self.choice(ways);
        if is_optional { self.optional(made) } else { made }
    }

    /// Calls of rules with equal bodies become calls of one of them.
    fn merge_equal(&mut self, start: Written) {
        let mut of_body: HashMap<FormId, Written> = HashMap::from_iter([(self.body(start), start)]);
        let mut same: HashMap<Written, Written> = HashMap::new();
        for rule in self.reached(start) {
            let first = *of_body.entry(self.body(rule)).or_insert(rule);
            if first != rule {
                same.insert(rule, first);
            }
        }
        if same.is_empty() {
            return;
        }
        let (mut new, mut done) = (HashMap::<FormId, FormId>::new(), HashSet::new());
        for rule in self.reached(start) {
            let body = self.body(rule);
            for form in self.inside([body], &mut done) {
                let made = match self.form(form) {
                    Form::Rule(called) => match same.get(called).copied() {
                        Some(first) => self.call(first),
                        None => form,
                    },
                    _ => self.with_parts(form, |part| new[&part]),
                };
                new.insert(form, made);
            }
            self.define(rule, new[&body]);
        }
    }
}

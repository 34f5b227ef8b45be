//! Rules without left recursion, and repetitions without an empty item: llama.cpp refuses the first, and neither
//! ends.
//!
//! A rule that begins with itself, over others too, is read from its first part on. Let `R` be the rules that begin
//! with each other. Each is one of its alternatives that do not begin in `R`, and then what may follow it in an
//! alternative of a rule of `R`, up to the wanted rule (left-corner transform; Rosenkrantz and Lewis, 1970). For one
//! rule it is `a = (rest) (suffix)*`. All of that is about the texts that are not empty; a rule that may be empty is
//! an option of its texts that are not.

use std::cell::RefCell;

use hashbrown::{HashMap, HashSet};
use petgraph::{algo::kosaraju_scc, graph::DiGraph};

use super::forms::{Form, FormId, Forms, Written};

/// An alternative that begins in a set of rules: the rule, and what follows it.
type Head = (Written, FormId);

/// The alternatives of a form: those that begin in a set of rules; the others, which are not empty; and whether the
/// form may be empty.
type Split = (Vec<Head>, Vec<FormId>, bool);

struct Pass<'f> {
    forms: &'f mut Forms,
    /// The rules that may be empty.
    nullable: HashSet<Written>,
    /// The rules with a text that is not empty.
    solid: HashSet<Written>,
    /// The rules of the texts that are not empty, of rules that may be empty.
    variants: HashMap<Written, Written>,
    /// Those without a body.
    open: Vec<(Written, Written)>,
    made: HashMap<FormId, Option<FormId>>,
    /// Which forms may be empty, as far as it was asked.
    empty: RefCell<HashMap<FormId, bool>>,
}

impl Forms {
    /// Rewrites the rules that `start` calls.
    pub(super) fn without_left_recursion(&mut self, start: Written) {
        let rules = self.reached(start);
        let nullable = self.rules_with(&rules, Self::has_empty);
        let solid = self.rules_with(&rules, Self::has_text);
        let (variants, open, made) = (HashMap::new(), vec![], HashMap::new());
        let mut pass = Pass { forms: self, nullable, solid, variants, open, made, empty: RefCell::default() };
        pass.repetitions(&rules);
        pass.settle();
        let rules = pass.forms.reached(start);
        pass.left_recursion(&rules);
        pass.settle();
    }

    /// The least set of rules whose bodies have a property, which is one of forms and such rules.
    fn rules_with(
        &self,
        rules: &[Written],
        property: fn(&Self, FormId, &HashSet<Written>, &HashMap<FormId, bool>) -> bool,
    ) -> HashSet<Written> {
        let mut users: HashMap<Written, Vec<Written>> = HashMap::new();
        let inside: HashMap<Written, Vec<FormId>> =
            rules.iter().map(|rule| (*rule, self.inside([self.body(*rule)], &mut HashSet::new()))).collect();
        for (rule, forms) in &inside {
            for form in forms {
                if let Form::Rule(called) = self.form(*form) {
                    users.entry(*called).or_default().push(*rule);
                }
            }
        }
        let mut found: HashSet<Written> = HashSet::new();
        let mut open: Vec<Written> = rules.to_vec();
        while let Some(rule) = open.pop() {
            if found.contains(&rule) {
                continue;
            }
            let mut known: HashMap<FormId, bool> = HashMap::new();
            for form in &inside[&rule] {
                known.insert(*form, property(self, *form, &found, &known));
            }
            if known[&self.body(rule)] {
                found.insert(rule);
                open.extend(users.get(&rule).into_iter().flatten());
            }
        }
        found
    }

    fn has_empty(&self, form: FormId, rules: &HashSet<Written>, parts: &HashMap<FormId, bool>) -> bool {
        match self.form(form) {
            Form::Empty => true,
            Form::Text(_) | Form::Class(_) | Form::Token(_) => false,
            Form::Rule(rule) => rules.contains(rule),
            Form::Sequence(all) => all.iter().all(|part| parts[part]),
            Form::Choice(all) => all.iter().any(|part| parts[part]),
            Form::Repeat(item, min, _) => *min == 0 || parts[item],
        }
    }

    fn has_text(&self, form: FormId, rules: &HashSet<Written>, parts: &HashMap<FormId, bool>) -> bool {
        match self.form(form) {
            Form::Empty => false,
            Form::Text(_) | Form::Class(_) | Form::Token(_) => true,
            Form::Rule(rule) => rules.contains(rule),
            Form::Sequence(all) | Form::Choice(all) => all.iter().any(|part| parts[part]),
            Form::Repeat(item, ..) => parts[item],
        }
    }
}

impl Pass<'_> {
    fn is_nullable(&self, form: FormId) -> bool {
        // Forms are not deep.
        if let Some(known) = self.empty.borrow().get(&form) {
            return *known;
        }
        let parts = self.forms.parts(form).iter().map(|part| (*part, self.is_nullable(*part))).collect();
        let is_nullable = self.forms.has_empty(form, &self.nullable, &parts);
        self.empty.borrow_mut().insert(form, is_nullable);
        is_nullable
    }

    /// The texts of `form` that are not empty, if it has some.
    fn solid(&mut self, form: FormId) -> Option<FormId> {
        if let Some(known) = self.made.get(&form) {
            return *known;
        }
        let made = if self.is_nullable(form) { self.solid_of_nullable(form) } else { Some(form) };
        self.made.insert(form, made);
        made
    }

    fn solid_of_nullable(&mut self, form: FormId) -> Option<FormId> {
        match self.forms.form(form).clone() {
            Form::Empty | Form::Text(_) | Form::Class(_) | Form::Token(_) => None,
            Form::Rule(rule) => {
                if !self.solid.contains(&rule) {
                    return None;
                }
                let variant = match self.variants.get(&rule) {
                    Some(known) => *known,
                    None => {
                        let variant = self.variant(rule);
                        self.open.push((rule, variant));
                        variant
                    }
                };
                Some(self.forms.call(variant))
            }
            Form::Sequence(parts) => {
                let mut ways = vec![];
                for at in 0..parts.len() {
                    if let Some(first) = self.solid(parts[at]) {
                        let rest = parts[at + 1..].iter().copied();
                        ways.push(self.forms.sequence([first].into_iter().chain(rest)));
                    }
                }
                (!ways.is_empty()).then(|| self.forms.choice(ways))
            }
            Form::Choice(parts) => {
                let ways: Vec<FormId> = parts.iter().filter_map(|part| self.solid(*part)).collect();
                (!ways.is_empty()).then(|| self.forms.choice(ways))
            }
            Form::Repeat(item, _, max) => self.solid(item).map(|item| self.forms.repeat(item, 1, max)),
        }
    }

    /// A rule for the texts of `rule` that are not empty.
    fn variant(&mut self, rule: Written) -> Written {
        let name = format!("{}-text", self.forms.rules[rule].name);
        let variant = self.forms.rule(&name);
        self.variants.insert(rule, variant);
        variant
    }

    /// Gives each variant its body.
    fn settle(&mut self) {
        while let Some((rule, variant)) = self.open.pop() {
            let body = self.forms.body(rule);
            let body = self.solid(body).expect("the rule has a text");
            self.forms.define(variant, body);
        }
    }

    /// Repetitions of what may be empty, as optional ones of what is not.
    fn repetitions(&mut self, rules: &[Written]) {
        let bodies: Vec<FormId> = rules.iter().map(|rule| self.forms.body(*rule)).collect();
        let mut new: HashMap<FormId, FormId> = HashMap::new();
        for form in self.forms.inside(bodies, &mut HashSet::new()) {
            let made = match *self.forms.form(form) {
                Form::Repeat(item, _, max) if self.is_nullable(item) => match self.solid(item) {
                    // The item that is not empty has repetitions of its own.
                    Some(solid) => {
                        let solid = self.renewed(solid, &mut new);
                        self.forms.repeat(solid, 0, max)
                    }
                    None => self.forms.empty(),
                },
                _ => self.forms.with_parts(form, |part| new[&part]),
            };
            new.insert(form, made);
        }
        for rule in rules {
            let body = new[&self.forms.body(*rule)];
            self.forms.define(*rule, body);
        }
        self.made.clear();
    }

    /// `form` with new parts, of which some are known.
    fn renewed(&mut self, form: FormId, new: &mut HashMap<FormId, FormId>) -> FormId {
        // Forms are not deep.
        if let Some(known) = new.get(&form) {
            return *known;
        }
        let parts: Vec<FormId> = self.forms.parts(form).to_vec();
        let parts: HashMap<FormId, FormId> =
            parts.into_iter().map(|part| (part, self.renewed(part, new))).collect();
        let made = self.forms.with_parts(form, |part| parts[&part]);
        new.insert(form, made);
        made
    }

    /// Adds the rules with which `form` may begin.
    fn begins(&self, form: FormId, add: &mut impl FnMut(Written)) {
        match self.forms.form(form) {
            Form::Empty | Form::Text(_) | Form::Class(_) | Form::Token(_) => {}
            Form::Rule(rule) => add(*rule),
            Form::Sequence(parts) => {
                for part in parts {
                    self.begins(*part, add);
                    if !self.is_nullable(*part) {
                        return;
                    }
                }
            }
            Form::Choice(parts) => parts.iter().for_each(|part| self.begins(*part, add)),
            Form::Repeat(item, ..) => self.begins(*item, add),
        }
    }

    fn left_recursion(&mut self, rules: &[Written]) {
        let mut graph = DiGraph::<Written, ()>::new();
        let nodes: HashMap<Written, _> = rules.iter().map(|rule| (*rule, graph.add_node(*rule))).collect();
        for rule in rules {
            let mut seen = HashSet::new();
            self.begins(self.forms.body(*rule), &mut |begun| _ = seen.insert(begun));
            for begun in seen {
                graph.add_edge(nodes[rule], nodes[&begun], ());
            }
        }
        for component in kosaraju_scc(&graph) {
            let is_cyclic = component.len() > 1 || graph.contains_edge(component[0], component[0]);
            if is_cyclic {
                let mut rules: Vec<Written> = component.iter().map(|node| graph[*node]).collect();
                rules.sort_unstable();
                self.rewrite(&rules);
            }
        }
    }

    /// Whether `form` may begin with a rule of `set`.
    fn begins_in(&self, form: FormId, set: &[Written]) -> bool {
        let mut found = false;
        self.begins(form, &mut |rule| found |= set.contains(&rule));
        found
    }

    fn split(&mut self, form: FormId, set: &[Written]) -> Split {
        if !self.begins_in(form, set) {
            let solid = self.solid(form);
            return (vec![], solid.into_iter().collect(), self.is_nullable(form));
        }
        match self.forms.form(form).clone() {
            Form::Rule(rule) => {
                let empty = self.forms.empty();
                (vec![(rule, empty)], vec![], self.nullable.contains(&rule))
            }
            Form::Choice(parts) => {
                let (mut heads, mut rests, mut is_nullable) = (vec![], vec![], false);
                for part in parts {
                    let (own_heads, own_rests, own) = self.split(part, set);
                    heads.extend(own_heads);
                    rests.extend(own_rests);
                    is_nullable |= own;
                }
                (heads, rests, is_nullable)
            }
            Form::Sequence(parts) => {
                let rest = self.forms.sequence(parts[1..].iter().copied());
                self.split_before(parts[0], rest, set)
            }
            Form::Repeat(item, min, max) => {
                let rest = self.forms.repeat(item, min.saturating_sub(1), max.map(|max| max - 1));
                let (heads, rests, is_nullable) = self.split_before(item, rest, set);
                (heads, rests, is_nullable || min == 0)
            }
            Form::Empty | Form::Text(_) | Form::Class(_) | Form::Token(_) => {
                unreachable!("it begins with no rule")
            }
        }
    }

    /// The alternatives of `first` and then `rest`.
    fn split_before(&mut self, first: FormId, rest: FormId, set: &[Written]) -> Split {
        let (mut heads, mut rests, is_nullable) = self.split(first, set);
        for (_, suffix) in &mut heads {
            *suffix = self.forms.sequence([*suffix, rest]);
        }
        for own in &mut rests {
            *own = self.forms.sequence([*own, rest]);
        }
        if !is_nullable {
            return (heads, rests, false);
        }
        let (more_heads, more_rests, is_nullable) = self.split(rest, set);
        heads.extend(more_heads);
        rests.extend(more_rests);
        (heads, rests, is_nullable)
    }

    /// Rewrites rules that begin with each other.
    fn rewrite(&mut self, set: &[Written]) {
        for rule in set {
            if self.nullable.contains(rule) && self.solid.contains(rule) {
                self.variant(*rule);
            }
        }
        self.made.clear();
        let splits: Vec<Split> = set.iter().map(|rule| self.split(self.forms.body(*rule), set)).collect();
        let index: HashMap<Written, usize> = set.iter().zip(0..).map(|(rule, at)| (*rule, at)).collect();
        // By rule, what may follow it: the rest of an alternative, and the rule of the alternative.
        let mut after: Vec<Vec<(FormId, usize)>> = vec![vec![]; set.len()];
        let mut same: Vec<Vec<usize>> = vec![vec![]; set.len()];
        for (of, (heads, ..)) in splits.iter().enumerate() {
            for (first, suffix) in heads {
                let first = index[first];
                if self.is_nullable(*suffix) {
                    same[first].push(of);
                }
                after[first].extend(self.solid(*suffix).map(|suffix| (suffix, of)));
            }
        }
        let same: Vec<Vec<usize>> = (0..set.len())
            .map(|rule| {
                let (mut all, mut at) = (vec![rule], 0);
                while let Some(rule) = all.get(at).copied() {
                    for next in &same[rule] {
                        if !all.contains(next) {
                            all.push(*next);
                        }
                    }
                    at += 1;
                }
                all
            })
            .collect();
        for (wanted, rule) in set.iter().enumerate() {
            let mut tails: HashMap<usize, Written> = HashMap::new();
            let mut open = vec![];
            let mut ways = vec![];
            for (first, (_, rests, _)) in splits.iter().enumerate() {
                if rests.is_empty() {
                    continue;
                }
                let rest = self.forms.choice(rests.iter().copied());
                let tail = if set.len() == 1 {
                    let suffixes: Vec<FormId> = after[0].iter().map(|(suffix, _)| *suffix).collect();
                    let suffixes = self.forms.choice(suffixes);
                    self.forms.repeat(suffixes, 0, None)
                } else {
                    self.tail(set, wanted, first, &mut tails, &mut open)
                };
                ways.push(self.forms.sequence([rest, tail]));
            }
            while let Some((from, tail)) = open.pop() {
                let mut ways = vec![];
                for at in &same[from] {
                    if *at == wanted {
                        ways.push(self.forms.empty());
                    }
                    for (suffix, of) in after[*at].clone() {
                        let next = self.tail(set, wanted, of, &mut tails, &mut open);
                        ways.push(self.forms.sequence([suffix, next]));
                    }
                }
                let body = self.forms.choice(ways);
                self.forms.define(tail, body);
            }
            let body = self.forms.choice(ways);
            match self.variants.get(rule).copied().filter(|_| self.nullable.contains(rule)) {
                Some(variant) => {
                    self.forms.define(variant, body);
                    let body = self.forms.call(variant);
                    let body = self.forms.optional(body);
                    self.forms.define(*rule, body);
                }
                None => self.forms.define(*rule, body),
            }
        }
        self.made.clear();
    }

    /// The rule of what may follow `from` up to the end of the wanted rule.
    fn tail(
        &mut self,
        set: &[Written],
        wanted: usize,
        from: usize,
        tails: &mut HashMap<usize, Written>,
        open: &mut Vec<(usize, Written)>,
    ) -> FormId {
        let forms = &mut *self.forms;
        let tail = *tails.entry(from).or_insert_with(|| {
            let name = format!("{}-after", forms.rules[set[wanted]].name);
            let tail = forms.rule(&name);
            open.push((from, tail));
            tail
        });
        forms.call(tail)
    }
}

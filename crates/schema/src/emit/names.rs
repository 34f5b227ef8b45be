//! Members with names that the schema does not list: their classes of names, and how many there may be.

use std::{rc::Rc, sync::Arc};

use hashbrown::HashSet;
use unskew_automata::Dfa;
use unskew_grammar::{ExprId, RuleId};

use super::{
    elements::{Form, Name},
    emitter::{Distinct, Emitter},
    members::{MemberWay, NamedMember, OtherMembers, WitnessSet},
};
use crate::{
    SchemaError,
    document::{json::NodeId, literal::Literal},
    normalize::{parts::name_patterns, shape::Shape},
    text::{
        enumerated::{few_texts, texts},
        languages::Language,
        standard::{self, TEXT},
    },
};

/// A class of names that match the same patterns.
struct NameClass {
    names: Language,
    /// The schemas of the matching patterns.
    schemas: Vec<NodeId>,
    /// For each group of patterns, whether one of its patterns matches.
    matched: Vec<bool>,
}

/// The number of names of a class with a set of witnesses.
struct NameCount {
    found: WitnessSet,
    /// `None` if nothing uses the names up.
    most: Option<u32>,
    /// The rules of the values.
    rules: Vec<RuleId>,
}

impl Emitter {
    /// Members with names that are not in `names`. If a pattern has few names, each becomes one of `members`.
    pub(super) fn others(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        names: &[Rc<str>],
        members: &mut Vec<NamedMember>,
    ) -> Result<OtherMembers, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let mut groups = vec![];
        for group in &shape.properties {
            let additional = self.ex.schemas.document.member(*group, "additionalProperties");
            let patterns = name_patterns(&mut self.ex, *group)?;
            let patterns: Vec<_> =
                patterns.into_iter().map(|(names, schema)| (names, Some(schema))).collect();
            groups.push((patterns, additional));
        }
        for unevaluated in &shape.unevaluated_properties {
            let mut patterns = vec![];
            for group in unevaluated.groups.iter() {
                patterns
                    .extend(name_patterns(&mut self.ex, *group)?.into_iter().map(|(names, _)| (names, None)));
            }
            groups.push((patterns, Some(unevaluated.schema.node)));
        }
        let closed = groups.iter().any(|(patterns, additional)| {
            let closed =
                additional.is_some_and(|additional| self.ex.schemas.trivial(additional) == Some(false));
            closed && patterns.is_empty()
        });
        if closed || self.is_closed_by_style(shape, names) {
            return Ok(OtherMembers::default());
        }
        if shape.names.is_empty()
            && shape.witnesses.is_empty()
            && groups.iter().all(|(patterns, _)| patterns.is_empty())
        {
            // No pattern distinguishes names.
            let Some(name) = self.other_name(node, names)? else { return Ok(OtherMembers::default()) };
            let schemas = groups.iter().filter_map(|(_, additional)| *additional);
            let all = schemas.map(|schema| self.ex.schemas.literal(schema)).collect::<Result<_, _>>()?;
            let Some(all) = self.ex.normal(all) else { return Ok(OtherMembers::default()) };
            let other = self.member_of(Name::Read(name), &all)?;
            let other = other.and_then(|(other, _)| self.shared("other members", vec![other]));
            let other = other.map(|expr| MemberWay { found: WitnessSet::EMPTY, expr });
            return Ok(OtherMembers { ways: other.into_iter().collect(), most: None });
        }
        // The names of each witness are a class too.
        for witness in &shape.witnesses {
            groups.push((vec![(self.ex.name_language(&witness.names)?, None)], None));
        }
        let mut all = self.ex.languages.pattern(TEXT);
        for literal in &shape.names {
            let allowed = self.ex.names(&[*literal])?;
            all = all.and_then(|all| self.ex.languages.and(&all, &allowed));
        }
        let all = self.ex.located(node, all)?;
        let mut classes = vec![NameClass { names: all, schemas: vec![], matched: vec![false; groups.len()] }];
        for (index, (patterns, _)) in groups.iter().enumerate() {
            for (pattern, schema) in patterns {
                let mut split = vec![];
                for NameClass { names, schemas, matched } in classes {
                    let within = self.ex.languages.and(&names, pattern);
                    let within = self.ex.located(node, within)?;
                    let without = self.ex.languages.minus(&names, pattern);
                    let without = self.ex.located(node, without)?;
                    if within.is_some() {
                        let (mut schemas, mut matched) = (schemas.clone(), matched.clone());
                        schemas.extend(*schema);
                        matched[index] = true;
                        split.push(NameClass { names: within, schemas, matched });
                    }
                    if without.is_some() {
                        split.push(NameClass { names: without, schemas, matched });
                    }
                }
                classes = split;
                let limit = self.ex.limits.name_patterns;
                if classes.len() > limit {
                    let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
                    return Err(SchemaError::limit(&pointer, "the kinds of names", limit, "name_patterns"));
                }
            }
        }
        // The names of a class are those of a language but for the declared ones. As one automaton they are as large as
        // the trie of the declared names, once for each class.
        let declared: HashSet<&str> = names.iter().map(|name| &**name).collect();
        let mut named = vec![];
        for NameClass { names: language, mut schemas, matched } in classes {
            let limit = self.ex.limits.names as usize;
            let most = (limit + declared.len()) as u64;
            let few = language.as_deref().and_then(|names| few_texts(names, most));
            let few = few.map(|few| few.into_iter().filter(|name| !declared.contains(&**name)).collect());
            if let Some(few) = few.filter(|few: &Vec<String>| few.len() <= limit) {
                for name in few {
                    if let Some(set) = self.ex.member_conditions(shape, &name)? {
                        let member = self.named_member(shape, &name, &set, false)?;
                        members.push(member);
                    }
                }
                continue;
            }
            let additional = groups.iter().zip(matched).filter(|(_, matched)| !matched);
            schemas.extend(additional.filter_map(|((_, additional), _)| *additional));
            let set: Vec<Literal> = schemas
                .into_iter()
                .map(|schema| self.ex.schemas.literal(schema))
                .collect::<Result<_, _>>()?;
            named.push((language, set));
        }
        let mut ways = vec![];
        let mut counts: Vec<NameCount> = vec![];
        for found in WitnessSet::all(shape.witnesses.len()) {
            let witnesses = shape.witnesses.iter().enumerate().filter(|(index, _)| found.has(*index));
            let witnesses: Vec<_> = witnesses.map(|(_, witness)| witness).collect();
            let mut all = vec![];
            for (language, set) in &named {
                let mut language = language.clone();
                for witness in &witnesses {
                    let names = self.ex.name_language(&witness.names)?;
                    let both = self.ex.languages.and(&language, &names);
                    language = self.ex.located(node, both)?;
                }
                let set = set.iter().copied().chain(witnesses.iter().filter_map(|witness| witness.value));
                if let (Some(language), Some(set)) = (language, self.ex.normal(set.collect()))
                    && let Some(name) = self.new_name(node, &language, names)?
                    && let Some((member, rules)) = self.member_of(Name::Read(name.expr), &set)?
                {
                    counts.push(NameCount { found, most: name.most, rules });
                    all.push(member);
                }
            }
            ways.extend(self.shared("other members", all).map(|expr| MemberWay { found, expr }));
        }
        let are_few = counts.iter().any(|count| count.most.is_some());
        if are_few && counts.len() > 1 {
            self.count_on(counts.iter().flat_map(|count| count.rules.iter().copied()));
        }
        // A member may take a name of any class that has one left, and a witness takes a name of its own classes.
        let all = |of: WitnessSet| {
            let mut counts = counts.iter().filter(|count| count.found.includes(of)).peekable();
            counts.peek()?;
            counts.try_fold(0u32, |all, count| Some(all.saturating_add(count.most?)))
        };
        let each = (0..shape.witnesses.len()).map(WitnessSet::one);
        let most = each.chain([WitnessSet::EMPTY]).filter_map(all).min();
        Ok(OtherMembers { ways, most })
    }

    /// Any name that is not in `names` and that the object does not have. Each name has one spelling, so equal
    /// names have equal texts. `None` if none can be written.
    fn other_name(&mut self, node: Option<NodeId>, names: &[Rc<str>]) -> Result<Option<ExprId>, SchemaError> {
        let (made, written) = match self.form {
            Form::Json => {
                let made = standard::spelled_once(self.ascii);
                let name = self.ex.located(None, made)?;
                (Some(name), names.iter().map(|name| self.json_string(name)).collect::<Vec<_>>())
            }
            _ => (self.element_names(node, None)?, self.element_texts(names)),
        };
        Ok(made.map(|name| self.builder.distinct("name", &name, written, None)).transpose()?)
    }

    /// One of `names` that the object does not have and that is not `declared`. `None` if none can be written.
    fn new_name(
        &mut self,
        node: Option<NodeId>,
        names: &Arc<Dfa>,
        declared: &[Rc<str>],
    ) -> Result<Option<Distinct>, SchemaError> {
        let key = (Arc::as_ptr(names), self.form == Form::Json);
        let written = match self.distinct_names.get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let written = match self.form {
                    Form::Json => {
                        let written = self.ex.languages.spelled_once(names);
                        self.ex.located(node, written)?.ok_or(SchemaError::unsatisfiable())?
                    }
                    _ => match self.element_names(node, Some(names))? {
                        Some(written) => written,
                        None => return Ok(None),
                    },
                };
                self.keep(names);
                self.distinct_names.insert(key, Arc::clone(&written));
                written
            }
        };
        let mut out = match self.form {
            Form::Json => declared.iter().map(|name| self.json_string(name)).collect(),
            _ => self.element_texts(declared),
        };
        out.retain(|text| written.accepts(text.as_bytes()));
        out.sort_unstable();
        out.dedup();
        let left = |all: u32| all.saturating_sub(u32::try_from(out.len()).unwrap_or(u32::MAX));
        let most = texts(&written).map(left);
        if most == Some(0) {
            return Ok(None);
        }
        Ok(Some(Distinct { expr: self.builder.distinct("name", &written, out, most)?, most }))
    }
}

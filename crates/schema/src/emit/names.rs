//! Members with names that the schema does not list: their classes of names, and how many there may be.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_grammars::{ExprId, RuleId};

use super::{
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
    /// The rule of the values.
    rule: RuleId,
}

impl Emitter {
    /// Members with names that are not in `names`. If a pattern has few names, each becomes one of `members`.
    pub(super) fn others(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        names: &[Box<str>],
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
        if closed {
            return Ok(OtherMembers::default());
        }
        if shape.names.is_empty()
            && shape.witnesses.is_empty()
            && groups.iter().all(|(patterns, _)| patterns.is_empty())
        {
            // No pattern distinguishes names.
            let name = self.other_name(names)?;
            let schemas = groups.iter().filter_map(|(_, additional)| *additional);
            let all = schemas.map(|schema| self.ex.schemas.literal(schema)).collect::<Result<_, _>>()?;
            let Some(all) = self.ex.normal(all) else { return Ok(OtherMembers::default()) };
            let Some(rule) = self.rule(&all)? else { return Ok(OtherMembers::default()) };
            let value = self.call(rule);
            let other = self.named(name, value);
            let other = self
                .shared("other members", vec![other])
                .map(|expr| MemberWay { found: WitnessSet::EMPTY, expr });
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
        let texts: Vec<&str> = names.iter().map(|name| &**name).collect();
        let declared = self.ex.languages.texts(&texts);
        let all = all.and_then(|all| self.ex.languages.minus(&all, &declared?));
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
        let mut named = vec![];
        for NameClass { names: language, mut schemas, matched } in classes {
            let few = language.as_deref().and_then(|names| few_texts(names, u64::from(self.ex.limits.names)));
            if let Some(few) = few {
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
                    && let Some(rule) = self.rule(&set)?
                {
                    let name = self.new_name(node, &language)?;
                    counts.push(NameCount { found, most: name.most, rule });
                    let value = self.call(rule);
                    all.push(self.named(name.expr, value));
                }
            }
            ways.extend(self.shared("other members", all).map(|expr| MemberWay { found, expr }));
        }
        let are_few = counts.iter().any(|count| count.most.is_some());
        if are_few && counts.len() > 1 {
            self.count_on(counts.iter().map(|count| count.rule));
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
    /// names have equal texts.
    fn other_name(&mut self, names: &[Box<str>]) -> Result<ExprId, SchemaError> {
        let made = standard::spelled_once(self.ascii);
        let name = self.ex.located(None, made)?;
        let written: Vec<String> = names.iter().map(|name| self.json_string(name)).collect();
        Ok(self.builder.distinct("name", &name, written, None)?)
    }

    /// One of `names` that the object does not have. `names` has more than a few names.
    fn new_name(&mut self, node: Option<NodeId>, names: &Arc<Dfa>) -> Result<Distinct, SchemaError> {
        if let Some(known) = self.distinct_names.get(&Arc::as_ptr(names)) {
            return Ok(*known);
        }
        let written = self.ex.languages.spelled_once(names);
        let written = self.ex.located(node, written)?.ok_or(SchemaError::unsatisfiable())?;
        let most = texts(&written);
        let made = Distinct { expr: self.builder.distinct("name", &written, [""; 0], most)?, most };
        self.keep(names);
        self.distinct_names.insert(Arc::as_ptr(names), made);
        Ok(made)
    }
}

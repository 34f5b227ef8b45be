//! The conditions of each keyword, and the conditions that break it.
//!
//! A keyword that must hold is a list of conditions and choices. A schema is broken if any of its keywords is, so a
//! schema that must not hold is a list of alternatives, the ways to break a keyword.

use std::rc::Rc;

use unskew_automata::RegexError;
use unskew_grammars::Fate;

use super::{
    expand::{Conditions, Expander},
    fits::FEWER_DIGITS,
    shape::{
        ALL, ARRAY, Atom, Choice, FALSE, NULL, NUMBER, Names, OBJECT, Refusal, STRING, TRUE, Types, Witness,
    },
};
use crate::{
    SchemaError,
    decimal::Decimal,
    document::{
        json::{NodeId, Value},
        metaschema,
        schemas::Literal,
    },
    draft::Draft,
    text::{
        format,
        languages::{Language, TEXT},
        number,
    },
};

/// The conditions of `literal`, which is a constant or has a schema that is an object.
pub(crate) fn conditions(ex: &mut Expander, literal: Literal) -> Result<Conditions, SchemaError> {
    let members = ex.schemas.document.members(literal.node).unwrap_or_default().to_vec();
    let mut reader = Reader {
        ex,
        node: literal.node,
        positive: literal.positive,
        found: Conditions::default(),
        broken: vec![],
    };
    if literal.constant {
        reader.values("const", vec![literal.node])?;
        return Ok(reader.done());
    }
    // Schemas to which keywords lead were checked when the document was read.
    if !reader.ex.schemas.is_schema(literal.node) {
        reader.ex.schemas.check(literal.node)?;
    }
    let document = &reader.ex.schemas.document;
    let reference = document.member(literal.node, "$ref").and_then(|reference| document.text(reference));
    let alone = reference.is_some() && reader.ex.schemas.draft_of(literal.node) <= Draft::Draft7;
    for (key, value) in &members {
        if alone && &**key != "$ref" {
            reader.fate(key, Fate::Annotation, "this draft ignores what stands beside `$ref`");
        } else {
            reader.keyword(key, *value)?;
        }
    }
    Ok(reader.done())
}

/// Moves the required member that distinguishes schemas by a list of values (`kind`, say) before all other ways to
/// break a schema. The other ways then apply only if the member has a listed value. So in a negation of several
/// schemas each one is broken by its member, or the members of all others are decided.
fn told_apart(ex: &Expander, broken: &mut Choice) {
    let found = broken.iter().find_map(|way| match &way[..] {
        [Atom::Types(OBJECT), Atom::Require(name), Atom::Property(_, breaks)] if ex.lists(*breaks) => {
            let required = broken.iter().any(|way| forbids(way, name));
            required.then(|| (name.clone(), *breaks))
        }
        _ => None,
    });
    let Some((name, breaks)) = found else { return };
    let rank = |way: &Vec<Atom>| match &way[..] {
        [Atom::Types(types), ..] if types & OBJECT == 0 => 0,
        way if forbids(way, &name) => 1,
        [_, Atom::Require(of), Atom::Property(_, literal)] if *of == name && *literal == breaks => 2,
        _ => 3,
    };
    broken.sort_by_key(rank);
    for way in broken.iter_mut().filter(|way| rank(way) == 3 && matches!(way[0], Atom::Types(OBJECT))) {
        way.extend([Atom::Require(name.clone()), Atom::Property(name.clone(), breaks.not())]);
    }
}

/// Whether the alternative is that an object lacks the member.
fn forbids(way: &[Atom], name: &str) -> bool {
    matches!(way, [Atom::Types(OBJECT), Atom::Forbid(of)] if **of == *name)
}

/// The patterns of `patternProperties` in `group`: the names in which each has a match, and its schema.
pub(crate) fn patterns(ex: &mut Expander, group: NodeId) -> Result<Vec<(Language, NodeId)>, SchemaError> {
    let Some(list) = ex.schemas.document.member(group, "patternProperties") else { return Ok(vec![]) };
    let members = ex.schemas.document.members(list).unwrap_or_default().to_vec();
    let mut found = vec![];
    for (text, schema) in members {
        let made = ex.languages.search(&text);
        if let Ok(language) = ex.located(Some(group), made)? {
            found.push((language, schema));
        }
    }
    Ok(found)
}

/// The schemas of the first items in `group`, and the schema of the other items.
pub(crate) fn items(ex: &Expander, group: NodeId) -> (Vec<NodeId>, Option<NodeId>) {
    let document = &ex.schemas.document;
    let member = |keyword| ex.schemas.keyword(group, keyword);
    if ex.schemas.draft_of(group) == Draft::Draft202012 {
        let first = member("prefixItems").and_then(|list| document.items(list)).unwrap_or_default();
        return (first.to_vec(), member("items"));
    }
    match member("items") {
        Some(items) => match document.items(items) {
            Some(first) => (first.to_vec(), member("additionalItems")),
            None => (vec![], Some(items)),
        },
        None => (vec![], None),
    }
}

/// Collects the conditions of one schema, keyword by keyword.
pub(crate) struct Reader<'e> {
    pub(crate) ex: &'e mut Expander,
    pub(crate) node: NodeId,
    pub(crate) positive: bool,
    pub(crate) found: Conditions,
    /// The ways to break the schema, if it must not hold.
    pub(crate) broken: Choice,
}

impl Reader<'_> {
    fn done(self) -> Conditions {
        let Self { ex, mut found, mut broken, positive, .. } = self;
        if !positive {
            told_apart(ex, &mut broken);
            match broken.len() {
                0 => found.atoms.push(Atom::Types(0)),
                _ => found.choices.push(Rc::new(broken)),
            }
        }
        found
    }

    pub(crate) fn fate(&mut self, keyword: &str, fate: Fate, why: &str) {
        let node = self.ex.schemas.original(self.node);
        let fates = &mut self.ex.fates;
        fates.entry((node, keyword.to_owned())).or_insert_with(|| (fate, why.to_owned()));
    }

    pub(crate) fn invalid(&self, keyword: &str, message: &str) -> SchemaError {
        SchemaError::invalid(self.ex.schemas.pointer(self.node), keyword, message)
    }

    pub(crate) fn refuse(&mut self, keyword: &str, types: Types, reason: &str, way_out: &'static str) {
        let refusal = Refusal {
            types,
            node: self.node,
            keyword: keyword.to_owned(),
            reason: reason.to_owned(),
            way_out,
        };
        if self.positive {
            self.found.atoms.push(Atom::Refuse(refusal));
        } else {
            self.broken.push(vec![Atom::Types(types), Atom::Refuse(refusal)]);
        }
    }

    /// Adds a condition on values of `types`, or its negation.
    pub(crate) fn condition(&mut self, types: Types, holds: Atom, broken: Option<Atom>) {
        if self.positive {
            self.found.atoms.push(holds);
        } else if let Some(broken) = broken {
            self.broken.push(vec![Atom::Types(types), broken]);
        }
    }

    pub(crate) fn literal(&self, node: NodeId) -> Result<Literal, SchemaError> {
        self.ex.schemas.literal(node)
    }

    pub(crate) fn located<T>(&self, made: Result<T, RegexError>) -> Result<T, SchemaError> {
        self.ex.located(Some(self.node), made)
    }

    pub(crate) fn count(&self, keyword: &str, value: NodeId) -> Result<u32, SchemaError> {
        let count = match self.ex.schemas.document.value(value) {
            Value::Number(number) => number.count(),
            _ => None,
        };
        let count = count.ok_or_else(|| self.invalid(keyword, "must be a whole number from zero on"))?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    pub(crate) fn texts(&self, keyword: &str, value: NodeId) -> Result<Vec<Box<str>>, SchemaError> {
        let document = &self.ex.schemas.document;
        let texts = document.items(value).and_then(|items| {
            items.iter().map(|item| document.text(*item).map(Into::into)).collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| self.invalid(keyword, "must be a list of names"))
    }

    fn list(&self, keyword: &str, value: NodeId) -> Result<Vec<Literal>, SchemaError> {
        let items = self.ex.schemas.document.items(value);
        let items = items.filter(|items| !items.is_empty());
        let items = items.ok_or_else(|| self.invalid(keyword, "must be a list of schemas"))?.to_vec();
        items.into_iter().map(|item| self.literal(item)).collect()
    }

    fn keyword(&mut self, key: &str, value: NodeId) -> Result<(), SchemaError> {
        let draft = self.ex.schemas.draft_of(self.node);
        if metaschema::kind(key, draft).is_none() {
            let known = metaschema::is_known(key);
            self.fate(
                key,
                Fate::Annotation,
                if known { "no keyword of this draft" } else { "no keyword of JSON Schema" },
            );
            return Ok(());
        }
        if !self.ex.schemas.dialect_of(self.node).has(key) {
            self.fate(key, Fate::Annotation, "of a vocabulary that the metaschema does not list");
            return Ok(());
        }
        let enforced = match key {
            "$ref" => self.reference(value)?,
            "$dynamicRef" | "$recursiveRef" => self.dynamic_reference(key, value)?,
            "type" => self.types(value)?,
            "enum" | "const" => self.one_of(key, value)?,
            "allOf" | "anyOf" | "oneOf" | "not" | "if" => self.combine(key, value)?,
            "minLength" | "maxLength" | "pattern" | "format" => self.string(key, value)?,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                self.number(key, value)?
            }
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "required"
            | "propertyNames"
            | "minProperties"
            | "maxProperties"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies"
            | "unevaluatedProperties" => self.object(key, value)?,
            "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "uniqueItems"
            | "contains" | "minContains" | "maxContains" | "unevaluatedItems" => self.array(key, value)?,
            "then" | "else" => {
                let with_if = self.ex.schemas.document.member(self.node, "if").is_some();
                if !with_if {
                    self.fate(key, Fate::Annotation, "there is no `if`");
                }
                with_if
            }
            "contentEncoding" | "contentMediaType" => self.content(key, value)?,
            _ => {
                self.fate(key, Fate::Annotation, "it asks nothing of a value");
                false
            }
        };
        if enforced {
            self.fate(key, Fate::Enforced, "exactly");
        }
        Ok(())
    }

    fn reference(&mut self, value: NodeId) -> Result<bool, SchemaError> {
        let Some(text) = self.ex.schemas.document.text(value).map(str::to_owned) else {
            if self.ex.schemas.draft_of(self.node) > Draft::Draft4 {
                return Err(self.invalid("$ref", "must be a text"));
            }
            self.fate("$ref", Fate::Annotation, "in draft 4 no reference unless it is a text");
            return Ok(false);
        };
        match self.ex.schemas.target(self.node, &text) {
            Ok(target) => {
                let literal = self.literal(target)?;
                self.every(vec![literal]);
            }
            Err(SchemaError::Unsupported { reason, way_out, .. }) => {
                self.refuse("$ref", ALL, &reason, way_out);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn dynamic_reference(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let text = self.ex.schemas.document.text(value).map(str::to_owned);
        let text = text.ok_or_else(|| self.invalid(key, "must be a text"))?;
        if key == "$recursiveRef" && text != "#" {
            self.refuse(key, ALL, "it is defined for \"#\" alone", "use `$ref`");
            return Ok(true);
        }
        match self.ex.schemas.dynamic_target(self.node, key, &text) {
            Ok(Some(target)) => {
                let literal = self.literal(target)?;
                self.every(vec![literal]);
            }
            Ok(None) => self.refuse(key, ALL, "what it means depends on who refers", "use `$ref`"),
            Err(SchemaError::Unsupported { reason, way_out, .. }) => self.refuse(key, ALL, &reason, way_out),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Requires all of these, or the negation of any.
    fn every(&mut self, schemas: Vec<Literal>) {
        if self.positive {
            self.found.atoms.extend(schemas.into_iter().map(Atom::Schema));
        } else {
            self.broken.extend(schemas.into_iter().map(|schema| vec![Atom::Schema(schema.not())]));
        }
    }

    fn types(&mut self, value: NodeId) -> Result<bool, SchemaError> {
        let document = &self.ex.schemas.document;
        let names: Vec<&str> = match document.value(value) {
            Value::String(name) => vec![name],
            Value::Array(items) => items.iter().filter_map(|item| document.text(*item)).collect(),
            _ => vec![],
        };
        let listed = document.items(value).map_or(1, <[NodeId]>::len);
        let (mut types, mut whole) = (0, false);
        for name in &names {
            types |= match *name {
                "null" => NULL,
                "boolean" => FALSE | TRUE,
                "number" => NUMBER,
                "string" => STRING,
                "array" => ARRAY,
                "object" => OBJECT,
                "integer" => {
                    whole = true;
                    0
                }
                _ => return Err(self.invalid("type", "names a type that there is not")),
            };
        }
        if names.len() != listed || names.is_empty() {
            return Err(self.invalid("type", "must be the name of a type or a list of them"));
        }
        if !whole || types & NUMBER != 0 {
            self.condition(ALL & !types, Atom::Types(types), Some(Atom::Types(ALL & !types)));
            return Ok(true);
        }
        let language = match self.ex.schemas.draft_of(self.node) {
            Draft::Draft4 => self.ex.languages.pattern(number::WHOLE_WITHOUT_POINT),
            _ => self.ex.languages.whole(),
        };
        let language = self.located(language)?;
        if self.positive {
            self.found.atoms.extend([Atom::Types(types | NUMBER), Atom::Numbers(language)]);
        } else {
            // Drafts disagree on whether `1.0` is an integer. Under a negation it counts as one in every draft, so
            // in draft 4 it is neither an integer nor something else.
            let wide = self.ex.languages.whole();
            let wide = self.located(wide)?;
            let rest = self.other_numbers(&wide)?;
            self.broken.push(vec![Atom::Types(ALL & !types & !NUMBER)]);
            self.broken.push(vec![Atom::Types(NUMBER), Atom::Numbers(rest)]);
        }
        Ok(true)
    }

    fn other_numbers(&mut self, language: &Language) -> Result<Language, SchemaError> {
        let all = self.ex.languages.numbers();
        let all = self.located(all)?;
        let rest = self.ex.languages.minus(&all, language);
        self.located(rest)
    }

    /// The complement of a language of numbers without an exponent.
    fn other_plain_numbers(&mut self, language: &Language) -> Result<Language, SchemaError> {
        let all = self.ex.languages.pattern(number::PLAIN);
        let all = self.located(all)?;
        let rest = self.ex.languages.minus(&all, language);
        self.located(rest)
    }

    fn other_texts(&mut self, language: &Language) -> Result<Language, SchemaError> {
        let all = self.ex.languages.pattern(TEXT);
        let all = self.located(all)?;
        let rest = self.ex.languages.minus(&all, language);
        self.located(rest)
    }

    fn one_of(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let values = match (key, self.ex.schemas.document.items(value)) {
            ("const", _) => vec![value],
            (_, Some(items)) => items.to_vec(),
            _ => return Err(self.invalid(key, "must be a list of values")),
        };
        self.values(key, values)?;
        Ok(true)
    }

    /// The language of the `count` values of `key`. The way out of a regex that is too large does not apply to a
    /// list.
    fn listed(
        &self,
        key: &str,
        count: usize,
        made: Result<Language, RegexError>,
    ) -> Result<Language, SchemaError> {
        let (limit, unit, field) = match &made {
            Err(RegexError::TooManyDfaStates { limit }) => (*limit as u64, "states", "dfa_states"),
            Err(RegexError::DfaTooLarge { limit, .. }) => (*limit as u64, "bytes", "dfa_bytes"),
            Err(RegexError::DfaTooCostly { limit, .. }) => (*limit, "steps", "dfa_steps"),
            _ => return self.located(made),
        };
        let (pointer, keyword) = (self.ex.schemas.pointer(self.node), key.to_owned());
        Err(SchemaError::Values { pointer, keyword, count, limit, unit, field })
    }

    /// Requires the value to be one of these.
    fn values(&mut self, key: &str, values: Vec<NodeId>) -> Result<(), SchemaError> {
        let count = values.len();
        let (mut types, mut texts, mut numbers, mut others) = (0, vec![], vec![], vec![]);
        // A refused number is still a number.
        let mut all_numbers = true;
        for value in values {
            types |= match self.ex.schemas.document.value(value).clone() {
                Value::Null => NULL,
                Value::Bool(false) => FALSE,
                Value::Bool(true) => TRUE,
                Value::Number(number) => {
                    let made = self.ex.languages.equal(&number);
                    match self.located(made)? {
                        Some(Some(dfa)) => numbers.push(dfa),
                        Some(None) => {}
                        None => {
                            let reason = self.ex.digits(&number);
                            self.refuse(key, NUMBER, &reason, FEWER_DIGITS);
                            all_numbers = false;
                        }
                    }
                    NUMBER
                }
                Value::String(text) => {
                    texts.push(text);
                    STRING
                }
                Value::Array(_) => {
                    others.push(value);
                    ARRAY
                }
                Value::Object(_) => {
                    others.push(value);
                    OBJECT
                }
            };
        }
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let texts = self.ex.languages.texts(&texts);
        let texts = self.listed(key, count, texts)?;
        let numbers = self.ex.languages.any(&numbers);
        let numbers = self.listed(key, count, numbers)?;
        if self.positive {
            self.found.atoms.push(Atom::Types(types));
            self.found.atoms.extend((types & STRING != 0).then_some(Atom::Strings(texts)));
            self.found.atoms.extend((types & NUMBER != 0 && all_numbers).then_some(Atom::Numbers(numbers)));
            self.found.atoms.extend((!others.is_empty()).then_some(Atom::OneOf(others)));
            return Ok(());
        }
        let mut rest = vec![Atom::Types(ALL & !(types & (NULL | FALSE | TRUE)))];
        if types & STRING != 0 {
            rest.push(Atom::Strings(self.other_texts(&texts)?));
        }
        if types & NUMBER != 0 {
            rest.push(Atom::Numbers(self.other_numbers(&numbers)?));
        }
        for value in others {
            rest.push(Atom::Any(Rc::new(self.differences(value))));
        }
        self.broken.push(rest);
        Ok(())
    }

    /// The ways to differ from the value at `node`, which is an array or object.
    fn differences(&self, node: NodeId) -> Choice {
        let document = &self.ex.schemas.document;
        if let Some(items) = document.items(node) {
            let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
            let mut ways = vec![vec![Atom::Types(ALL & !ARRAY)]];
            if let Some(less) = count.checked_sub(1) {
                ways.push(vec![Atom::Types(ARRAY), Atom::MaxItems(less)]);
            }
            ways.push(vec![Atom::Types(ARRAY), Atom::MinItems(count.saturating_add(1))]);
            for (place, item) in (0..).zip(items) {
                let other = Atom::Item(place, Literal::constant(*item).not());
                ways.push(vec![Atom::Types(ARRAY), Atom::MinItems(place + 1), other]);
            }
            return ways;
        }
        let mut ways = vec![vec![Atom::Types(ALL & !OBJECT)]];
        for (name, value) in document.members(node).unwrap_or_default() {
            ways.push(vec![Atom::Types(OBJECT), Atom::Forbid(name.clone())]);
            let other = Atom::Property(name.clone(), Literal::constant(*value).not());
            ways.push(vec![Atom::Types(OBJECT), Atom::Require(name.clone()), other]);
        }
        let unknown = Witness { names: Names::Except(node), value: None };
        ways.push(vec![Atom::Types(OBJECT), Atom::Witness(unknown)]);
        ways
    }

    fn combine(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let holds = |schema: Literal| Atom::Schema(schema);
        let breaks = |schema: Literal| Atom::Schema(schema.not());
        match (key, self.positive) {
            ("allOf", _) => {
                let all = self.list(key, value)?;
                self.every(all);
            }
            ("anyOf", true) => {
                let any = self.list(key, value)?;
                self.found.choices.push(Rc::new(any.into_iter().map(|schema| vec![holds(schema)]).collect()));
            }
            ("anyOf", false) => {
                let any = self.list(key, value)?;
                self.broken.push(any.into_iter().map(breaks).collect());
            }
            ("oneOf", true) => {
                let all = self.list(key, value)?;
                let mut ways = vec![];
                for (index, one) in all.iter().enumerate() {
                    let mut way = vec![holds(*one)];
                    for (other_index, other) in all.iter().enumerate() {
                        let both = match index == other_index {
                            true => 0,
                            false => self.ex.overlap(*one, *other)?,
                        };
                        way.extend(match both {
                            0 => None,
                            ALL => Some(breaks(*other)),
                            both => {
                                let apart = vec![Atom::Types(ALL & !both)];
                                Some(Atom::Any(Rc::new(vec![apart, vec![Atom::Types(both), breaks(*other)]])))
                            }
                        });
                    }
                    ways.push(way);
                }
                self.found.choices.push(Rc::new(ways));
            }
            ("oneOf", false) => {
                let all = self.list(key, value)?;
                for (index, one) in all.iter().enumerate() {
                    for other in &all[index + 1..] {
                        if !self.ex.disjoint(*one, *other)? {
                            self.broken.push(vec![holds(*one), holds(*other)]);
                        }
                    }
                }
                self.broken.push(all.into_iter().map(breaks).collect());
            }
            ("not", true) => {
                let schema = self.literal(value)?;
                self.found.atoms.push(breaks(schema));
            }
            ("not", false) => {
                let schema = self.literal(value)?;
                self.broken.push(vec![holds(schema)]);
            }
            _ => {
                let schema = self.literal(value)?;
                let branch = |reader: &Self, keyword| {
                    let node = reader.ex.schemas.document.member(reader.node, keyword);
                    node.map(|node| reader.literal(node)).transpose()
                };
                let (then, otherwise) = (branch(self, "then")?, branch(self, "else")?);
                if then.is_none() && otherwise.is_none() {
                    self.fate(key, Fate::Annotation, "there is neither `then` nor `else`");
                    return Ok(false);
                }
                let sides = [(holds(schema), then), (breaks(schema), otherwise)];
                if self.positive {
                    let ways = sides.map(|(side, then)| [side].into_iter().chain(then.map(holds)).collect());
                    self.found.choices.push(Rc::new(ways.to_vec()));
                } else {
                    let broken = sides.into_iter().filter_map(|(side, then)| Some(vec![side, breaks(then?)]));
                    self.broken.extend(broken);
                }
            }
        }
        Ok(true)
    }

    fn string(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let text = self.ex.schemas.document.text(value).map(str::to_owned);
        let language = match (key, text) {
            ("minLength", _) => {
                let count = self.count(key, value)?;
                self.condition(STRING, Atom::MinLength(count), count.checked_sub(1).map(Atom::MaxLength));
                return Ok(true);
            }
            ("maxLength", _) => {
                let count = self.count(key, value)?;
                self.condition(
                    STRING,
                    Atom::MaxLength(count),
                    Some(Atom::MinLength(count.saturating_add(1))),
                );
                return Ok(true);
            }
            ("pattern", Some(text)) => {
                let made = self.ex.languages.search(&text);
                match self.located(made)? {
                    Ok(language) => language,
                    Err((construct, way_out)) => {
                        self.refuse(key, STRING, &format!("{construct} in {text:?}"), way_out);
                        return Ok(true);
                    }
                }
            }
            ("format", Some(name)) => {
                let Some(of_draft) = format::known(&name, self.ex.schemas.draft_of(self.node)) else {
                    self.fate(key, Fate::Annotation, "no format of the specification, so it asks nothing");
                    return Ok(false);
                };
                self.format(key, &name, of_draft)?;
                return Ok(true);
            }
            _ => return Err(self.invalid(key, "must be a text")),
        };
        self.texts_of(language)
    }

    /// Reads `contentEncoding` or `contentMediaType`. In draft 7, section 8, both are optional assertions; in later
    /// drafts they are annotations, and earlier drafts lack them. Only `base64`, which an automaton can check, is
    /// enforced.
    fn content(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let draft = self.ex.schemas.draft_of(self.node);
        let why = match draft {
            Draft::Draft4 | Draft::Draft6 => "no keyword of this draft",
            Draft::Draft7 => "draft 7 leaves open whether it is asserted",
            Draft::Draft201909 | Draft::Draft202012 => "it asks nothing of a value",
        };
        let text = self.ex.schemas.document.text(value);
        let is_base64 =
            key == "contentEncoding" && text.is_some_and(|text| text.eq_ignore_ascii_case("base64"));
        if draft != Draft::Draft7 || !is_base64 {
            self.fate(key, Fate::Annotation, why);
            return Ok(false);
        }
        self.format(key, format::BASE64, true)?;
        Ok(true)
    }

    /// Requires a format, or its negation. A draft that does not define the format leaves open which texts lack it.
    fn format(&mut self, key: &str, name: &str, of_draft: bool) -> Result<(), SchemaError> {
        let draft = self.ex.schemas.draft_of(self.node);
        let format = self.ex.languages.format(format::of_draft(name, draft));
        let format = self.located(format)?;
        let all = self.ex.languages.pattern(TEXT);
        let all = self.located(all)?;
        let mut lower = Some(format.written);
        let mut upper = if of_draft { format.possible } else { None }.or_else(|| all.clone());
        if !self.positive {
            (lower, upper) = (self.other_texts(&upper)?, self.other_texts(&lower)?);
        }
        if lower != upper {
            let known = if of_draft { format::of_draft(name, draft) } else { "" };
            self.ex.narrow_down(self.node, key, format::written(known).to_owned());
        }
        let refusal = Refusal {
            types: STRING,
            node: self.node,
            keyword: key.to_owned(),
            reason: format!(
                "of the format {name:?} some texts are written, and what else is asked leaves none of them"
            ),
            way_out: "write a `pattern`",
        };
        let texts = Atom::SomeStrings { lower, upper, refusal };
        if self.positive {
            self.found.atoms.push(texts);
        } else {
            self.broken.push(vec![Atom::Types(STRING), texts]);
        }
        Ok(())
    }

    fn texts_of(&mut self, language: Language) -> Result<bool, SchemaError> {
        let broken = if self.positive { None } else { Some(Atom::Strings(self.other_texts(&language)?)) };
        self.condition(STRING, Atom::Strings(language), broken);
        Ok(true)
    }

    fn number(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let draft4 = self.ex.schemas.draft_of(self.node) == Draft::Draft4;
        let number = match self.ex.schemas.document.value(value) {
            Value::Number(number) => number.clone(),
            Value::Bool(_) if draft4 && key.starts_with("exclusive") => return Ok(true),
            _ => return Err(self.invalid(key, "must be a number")),
        };
        if draft4 && key.starts_with("exclusive") {
            return Err(self.invalid(key, "must be `true` or `false` in draft 4"));
        }
        let strict = |reader: &Self, keyword| {
            let exclusive = reader.ex.schemas.document.member(reader.node, keyword);
            draft4
                && exclusive
                    .is_some_and(|node| matches!(reader.ex.schemas.document.value(node), Value::Bool(true)))
        };
        let made = match key {
            "minimum" => self.ordered(&number, [false, !strict(self, "exclusiveMinimum"), true])?,
            "exclusiveMinimum" => self.ordered(&number, [false, false, true])?,
            "maximum" => self.ordered(&number, [true, !strict(self, "exclusiveMaximum"), false])?,
            "exclusiveMaximum" => self.ordered(&number, [true, false, false])?,
            _ => {
                if number.negative || number.is_zero() {
                    return Err(self.invalid(key, "must be more than zero"));
                }
                let made = self.ex.languages.multiple(&number);
                self.located(made)?
            }
        };
        let Some(language) = made else {
            let (reason, way_out) = match key {
                "multipleOf" => (
                    "the number has too many digits for an automaton".to_owned(),
                    "use a number of fewer digits",
                ),
                _ => (self.ex.digits(&number), FEWER_DIGITS),
            };
            self.refuse(key, NUMBER, &reason, way_out);
            return Ok(true);
        };
        let broken = match (self.positive, key) {
            (true, _) => None,
            (false, "multipleOf") => Some(Atom::Numbers(self.other_plain_numbers(&language)?)),
            (false, _) => Some(Atom::Numbers(self.other_numbers(&language)?)),
        };
        self.condition(NUMBER, Atom::Numbers(language), broken);
        Ok(true)
    }

    /// See [`Languages::ordered`](crate::text::languages::Languages::ordered).
    fn ordered(&mut self, bound: &Decimal, wanted: [bool; 3]) -> Result<Option<Language>, SchemaError> {
        let made = self.ex.languages.ordered(bound, wanted);
        self.located(made)
    }
}

//! The conditions of each keyword, and the conditions that break it.
//!
//! A keyword that must hold is a list of conditions and choices. A schema is broken if any of its keywords is, so a
//! schema that must not hold is a list of alternatives, the ways to break a keyword.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use unskew_automata::RegexError;
use unskew_grammar::Fate;

use super::{
    expander::Expander,
    shape::{ALL, Atom, Choice, Conditions, OBJECT, Refusal, STRING, Types},
};
use crate::{
    SchemaError,
    document::{
        json::{NodeId, Value},
        literal::Literal,
        metaschema,
    },
    draft::Draft,
};

/// The conditions of `literal`, which is a constant or has a schema that is an object.
pub(crate) fn conditions(ex: &mut Expander, literal: Literal) -> Result<Conditions, SchemaError> {
    let members = ex.schemas.document.members(literal.node).unwrap_or_default().to_vec();
    let mut reader = KeywordReader {
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
            reader.fate(key, Fate::Annotation, "this draft ignores all keywords beside `$ref`");
        } else {
            reader.keyword(key, *value)?;
        }
    }
    Ok(reader.done())
}

/// Moves the required member that distinguishes schemas by a list of values (`kind`, say) before all other ways to
/// break a schema. The other ways then apply only if the member has a listed value. So in a negation of several
/// schemas each one is broken by its member, or the members of all others are decided.
fn discriminator_first(ex: &Expander, broken: &mut Choice) {
    let found = broken.iter().find_map(|way| match &way[..] {
        [Atom::Types(OBJECT), Atom::Require(name), Atom::Property(_, breaks)] if ex.is_listed(*breaks) => {
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

/// The texts that a schema lists.
type Texts = Vec<Rc<str>>;

/// Collects the conditions of one schema, keyword by keyword.
pub(crate) struct KeywordReader<'e> {
    pub(crate) ex: &'e mut Expander,
    pub(crate) node: NodeId,
    pub(crate) positive: bool,
    pub(crate) found: Conditions,
    /// The ways to break the schema, if it must not hold.
    pub(crate) broken: Choice,
}

impl KeywordReader<'_> {
    fn done(self) -> Conditions {
        let Self { ex, mut found, mut broken, positive, .. } = self;
        if !positive {
            discriminator_first(ex, &mut broken);
            match broken.len() {
                0 => found.atoms.push(Atom::Types(0)),
                _ => found.choices.push(Rc::new(broken)),
            }
        }
        found
    }

    pub(crate) fn fate(&mut self, keyword: &str, fate: Fate, why: &str) {
        let node = self.ex.schemas.original(self.node);
        let Some(fates) = &mut self.ex.fates else { return };
        fates.entry((node, keyword.to_owned())).or_insert_with(|| (fate, why.to_owned()));
    }

    pub(crate) fn invalid(&self, keyword: &str, message: &str) -> SchemaError {
        SchemaError::invalid(self.ex.schemas.pointer(self.node), keyword, message)
    }

    pub(crate) fn refuse(&mut self, keyword: &str, types: Types, reason: &str, way_out: &'static str) {
        let (keyword, reason) = (keyword.to_owned(), reason.to_owned());
        let refusal = Rc::new(Refusal { types, node: self.node, keyword, reason, way_out });
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

    pub(crate) fn texts(&self, keyword: &str, value: NodeId) -> Result<Vec<Rc<str>>, SchemaError> {
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

    /// The alternatives of `anyOf`, without the schema itself: a value that satisfies it by this way alone has none.
    fn alternatives(&self, value: NodeId) -> Result<Vec<Literal>, SchemaError> {
        let mut any = self.list("anyOf", value)?;
        let own = self.literal(self.node)?;
        any.retain(|schema| *schema != own);
        Ok(any)
    }

    fn keyword(&mut self, key: &str, value: NodeId) -> Result<(), SchemaError> {
        let draft = self.ex.schemas.draft_of(self.node);
        if metaschema::kind(key, draft).is_none() {
            let known = metaschema::is_known(key);
            let why = match key {
                "nullable" => {
                    "no keyword of JSON Schema: write \"type\": [..., \"null\"], or choose the dialect openapi-3.0, which \
                     has it"
                }
                _ if known => "no keyword of this draft",
                _ => "no keyword of JSON Schema",
            };
            self.fate(key, Fate::Annotation, why);
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
            "nullable" => {
                let adds = self.is_nullable();
                if !adds {
                    self.fate(key, Fate::Annotation, "it adds null to a `type` beside it, if it is `true`");
                }
                adds
            }
            _ => {
                self.fate(key, Fate::Annotation, "it does not constrain values");
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
            Ok(None) => {
                self.refuse(key, ALL, "its target depends on the path of references to it", "use `$ref`");
            }
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

    /// The texts of schemas that list texts and have no other condition, and the other schemas. 238 of them are one
    /// alternative, which is compared with others once and not 238 times. All are others where there are fewer than
    /// two.
    fn lists(&mut self, schemas: Vec<Literal>) -> Result<(Vec<Texts>, Vec<Literal>), SchemaError> {
        let (mut lists, mut others) = (vec![], vec![]);
        for schema in &schemas {
            let list = match self.ex.is_listed(*schema) && !schema.constant && schema.positive {
                true => self.listed(*schema)?,
                false => None,
            };
            match list {
                Some(list) => lists.push(list),
                None => others.push(*schema),
            }
        }
        Ok(if lists.len() < 2 { (vec![], schemas) } else { (lists, others) })
    }

    /// The texts that a schema lists, if it has no other condition.
    fn listed(&mut self, schema: Literal) -> Result<Option<Texts>, SchemaError> {
        let conditions = self.ex.conditions_of(schema)?;
        let is_list = matches!(&conditions.atoms[..], [Atom::Types(STRING), Atom::Strings(Some(_))]);
        if !is_list || !conditions.choices.is_empty() || !conditions.first.is_empty() {
            return Ok(None);
        }
        let document = &self.ex.schemas.document;
        let member = |key| document.member(schema.node, key);
        let values = match (member("enum"), member("const")) {
            (Some(list), None) => document.items(list).unwrap_or_default(),
            (None, Some(_)) => &[],
            _ => return Ok(None),
        };
        let texts = values.iter().copied().chain(member("const")).map(|value| match document.value(value) {
            Value::String(text) => Some(Rc::clone(text)),
            _ => None,
        });
        Ok(texts.collect())
    }

    /// The alternative that a string is one of these; `None` if there is none.
    fn one_of_texts(&mut self, key: &str, texts: &[&Rc<str>]) -> Result<Option<Vec<Atom>>, SchemaError> {
        if texts.is_empty() {
            return Ok(None);
        }
        let texts: Vec<&str> = texts.iter().map(|text| &***text).collect();
        let language = self.ex.languages.texts(&texts);
        let language = self.ex.of_list(Some(self.node), key, texts.len(), language)?;
        Ok(Some(vec![Atom::Types(STRING), Atom::Strings(language)]))
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
                let (lists, others) = self.lists(self.alternatives(value)?)?;
                let mut ways: Choice = others.into_iter().map(|schema| vec![holds(schema)]).collect();
                let texts: Vec<_> = lists.iter().flatten().collect();
                ways.extend(self.one_of_texts(key, &texts)?);
                self.found.choices.push(Rc::new(ways));
            }
            ("anyOf", false) => {
                let any = self.alternatives(value)?;
                self.broken.push(any.into_iter().map(breaks).collect());
            }
            ("oneOf", true) => {
                let all = self.list(key, value)?;
                let (lists, others) = self.lists(all.clone())?;
                if others.is_empty() {
                    let mut count: HashMap<&str, usize> = HashMap::new();
                    for list in &lists {
                        let list: HashSet<&str> = list.iter().map(|text| &**text).collect();
                        list.into_iter().for_each(|text| *count.entry(text).or_default() += 1);
                    }
                    let texts: Vec<_> = lists.iter().flatten().filter(|text| count[&***text] == 1).collect();
                    let way = self.one_of_texts(key, &texts)?;
                    self.found.choices.push(Rc::new(way.into_iter().collect()));
                    return Ok(true);
                }
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
}

//! The keywords of types, listed values, strings and numbers, which constrain the value itself.

use std::rc::Rc;

use unskew_automata::RegexError;
use unskew_grammar::Fate;

use super::{
    constants::FEWER_DIGITS,
    keywords::KeywordReader,
    shape::{ALL, ARRAY, Atom, Choice, FALSE, NULL, NUMBER, NameSet, OBJECT, Refusal, STRING, TRUE, Witness},
};
use crate::{
    SchemaError,
    decimal::Decimal,
    document::{
        json::{NodeId, Value},
        literal::Literal,
    },
    draft::Draft,
    text::{
        format,
        languages::Language,
        number,
        pattern::{self, UnsupportedConstruct},
        standard::TEXT,
    },
};

/// The least bound of `^[class]{min,max}$` that is counted as a length.
const LONG: u32 = 64;

impl KeywordReader<'_> {
    pub(super) fn types(&mut self, value: NodeId) -> Result<bool, SchemaError> {
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
                _ => return Err(self.invalid("type", "names an unknown type")),
            };
        }
        if names.len() != listed || names.is_empty() {
            return Err(self.invalid("type", "must be the name of a type or a list of them"));
        }
        // OpenAPI 3.0.3: `nullable` adds to the `type` of its own schema.
        if self.is_nullable() {
            types |= NULL;
        }
        if !whole || types & NUMBER != 0 {
            self.condition(ALL & !types, Atom::Types(types), Some(Atom::Types(ALL & !types)));
            return Ok(true);
        }
        let language = match self.ex.schemas.draft_of(self.node) {
            draft if draft.is_draft4() => self.ex.languages.pattern(number::WHOLE_WITHOUT_POINT),
            _ => self.ex.languages.whole(),
        };
        let language = self.located(language)?;
        if self.positive {
            self.found.atoms.extend([Atom::Types(types | NUMBER), Atom::Integer, Atom::Numbers(language)]);
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

    /// Whether the schema has a `nullable` that adds null to its `type`.
    pub(super) fn is_nullable(&self) -> bool {
        let document = &self.ex.schemas.document;
        let says = document.member(self.node, "nullable").map(|says| document.value(says));
        self.ex.schemas.draft_of(self.node) == Draft::OpenApi30
            && document.member(self.node, "type").is_some()
            && matches!(says, Some(Value::Bool(true)))
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

    pub(super) fn one_of(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
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
    fn listed_language(
        &self,
        key: &str,
        count: usize,
        made: Result<Language, RegexError>,
    ) -> Result<Language, SchemaError> {
        self.ex.of_list(Some(self.node), key, count, made)
    }

    /// Requires the value to be one of these.
    pub(super) fn values(&mut self, key: &str, values: Vec<NodeId>) -> Result<(), SchemaError> {
        let count = values.len();
        let (mut types, mut texts, mut numbers, mut others) = (0, vec![], vec![], vec![]);
        // A refused number is still a number.
        let (mut all_numbers, mut all_whole) = (true, true);
        for value in values {
            types |= match self.ex.schemas.document.value(value).clone() {
                Value::Null => NULL,
                Value::Bool(false) => FALSE,
                Value::Bool(true) => TRUE,
                Value::Number(number) => {
                    all_whole &= number.is_whole();
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
        let texts = self.listed_language(key, count, texts)?;
        let numbers = self.ex.languages.any(numbers);
        let numbers = self.listed_language(key, count, numbers)?;
        if self.positive {
            self.found.atoms.push(Atom::Types(types));
            self.found.atoms.extend((types & NUMBER != 0 && all_whole).then_some(Atom::Integer));
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
            for (index, item) in (0..).zip(items) {
                let other = Atom::Item(index, Literal::constant(*item).not());
                ways.push(vec![Atom::Types(ARRAY), Atom::MinItems(index + 1), other]);
            }
            return ways;
        }
        let mut ways = vec![vec![Atom::Types(ALL & !OBJECT)]];
        for (name, value) in document.members(node).unwrap_or_default() {
            ways.push(vec![Atom::Types(OBJECT), Atom::Forbid(name.clone())]);
            let other = Atom::Property(name.clone(), Literal::constant(*value).not());
            ways.push(vec![Atom::Types(OBJECT), Atom::Require(name.clone()), other]);
        }
        let unknown = Rc::new(Witness { names: NameSet::Except(node), value: None });
        ways.push(vec![Atom::Types(OBJECT), Atom::Witness(unknown)]);
        ways
    }

    pub(super) fn string(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
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
                if self.positive
                    && let Some(counted) = pattern::counted(&text)
                    && counted.max >= LONG
                {
                    // The same texts, without a copy of the class for each character.
                    let class = self.ex.languages.pattern(&format!("{}*", counted.class));
                    let class = self.located(class)?;
                    self.condition(STRING, Atom::Strings(class), None);
                    self.condition(STRING, Atom::MinLength(counted.min), None);
                    self.condition(STRING, Atom::MaxLength(counted.max), None);
                    return Ok(true);
                }
                let text = match pattern::bounded(&text) {
                    // A length beside the pattern is counted by itself.
                    Some(bounded) if self.positive && bounded.max >= LONG => {
                        self.condition(STRING, Atom::MinLength(bounded.min), None);
                        self.condition(STRING, Atom::MaxLength(bounded.max), None);
                        bounded.rest
                    }
                    _ => text,
                };
                let made = self.ex.languages.search(&text);
                match self.located(made)? {
                    Ok(language) => language,
                    Err(UnsupportedConstruct { construct, way_out }) => {
                        self.refuse(key, STRING, &format!("{construct} in {text:?}"), way_out);
                        return Ok(true);
                    }
                }
            }
            ("format", Some(name)) => {
                let Some(of_draft) = format::known(&name, self.ex.schemas.draft_of(self.node)) else {
                    self.fate(
                        key,
                        Fate::Annotation,
                        "no format of the specification, so it does not constrain values",
                    );
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
    pub(super) fn content(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let draft = self.ex.schemas.draft_of(self.node);
        let why = match draft {
            Draft::Draft4 | Draft::OpenApi30 | Draft::Draft6 => "no keyword of this draft",
            Draft::Draft7 => "draft 7 leaves open whether it is asserted",
            Draft::Draft201909 | Draft::Draft202012 => "it does not constrain values",
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
                "only some texts of the format {name:?} are written, and the other conditions exclude all of them"
            ),
            way_out: "write a `pattern`",
        };
        let texts = Atom::SomeStrings { lower, upper, refusal: Rc::new(refusal) };
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

    pub(super) fn number(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let draft4 = self.ex.schemas.draft_of(self.node).is_draft4();
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

//! Rules for values: the types of a set of schemas, strings, numbers, and constants.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_grammar::{ExprId, GrammarError};

use super::{
    elements::{Form, Name},
    emitter::Emitter,
};
use crate::{
    MemberOrder, SchemaError,
    document::{
        json::{Document, NodeId, Value},
        literal::Literal,
    },
    normalize::shape::{ARRAY, FALSE, FiniteValue, NULL, NUMBER, OBJECT, STRING, Shape, TRUE, Types},
    text::{
        enumerated::{self, Plain, plain_texts},
        number,
        run::Run,
        standard::{self, TEXT},
        string,
    },
};

/// The number of states, the longest text times those of the condition, from which on a length is counted.
pub(super) const COPIED: u64 = 1 << 11;

/// The shortest run that is counted. The automata of shorter runs are small, and counting saves nothing.
const LONG_RUN: u32 = 16;

impl Emitter {
    /// The values of these types that satisfy `set`, written in this form.
    pub(super) fn value(
        &mut self,
        set: &[Literal],
        types: Types,
        form: Form,
    ) -> Result<Option<ExprId>, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        // In an element every text is a string, and nothing else is needed for any value.
        let is_any = form == Form::Element && set.is_empty() && types & STRING != 0;
        let types = if is_any { STRING } else { types };
        let shapes = self.ex.shapes(set)?;
        let of_types = |shape: &Shape| Shape { types: shape.types & types, ..shape.clone() };
        let mut shapes: Vec<Shape> =
            shapes.iter().filter(|shape| shape.types & types != 0).map(of_types).collect();
        self.has_parts = false;
        if form == Form::Element {
            self.types_in_element(node, &mut shapes);
        }
        self.form = self.inside(form);
        let has_text = form == Form::Element && shapes.iter().any(|shape| shape.types & STRING != 0);
        let mut ways = vec![];
        for (types, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if shapes.iter().any(|shape| shape.types & types != 0) {
                ways.push(self.literal(word));
            }
        }
        let (mut texts, mut numbers): (Vec<Arc<Dfa>>, Vec<Arc<Dfa>>) = (vec![], vec![]);
        for shape in &shapes {
            self.ex.refuse(shape, shape.types);
        }
        let strings = if form == Form::Element { vec![] } else { self.strings_by_length(node, &shapes)? };
        let is_one = strings.len() == 1;
        for shape in &strings {
            let is_bounded = shape.min_length > 0 || shape.max_length.is_some();
            if shape.strings.is_none() && is_bounded {
                ways.push(self.bounded_string(node, shape)?);
            } else if let Some(run) = run(shape).filter(|_| is_one)
                && let Some(string) = self.run(node, &run)?
            {
                ways.push(string);
            } else if is_one && let Some(string) = self.long_string(node, shape)? {
                ways.push(string);
            } else {
                let own = self.ex.texts(shape);
                texts.extend(self.ex.located(node, own)?);
            }
        }
        for shape in shapes.iter().filter(|shape| shape.types & NUMBER != 0) {
            let own = match &shape.numbers {
                Some(own) => Ok(Some(Arc::clone(own))),
                None => self.ex.languages.pattern(number::ANY),
            };
            numbers.extend(self.ex.located(node, own)?);
        }
        let texts = self.ex.languages.any(texts);
        if let Some(texts) = self.ex.located(node, texts)? {
            ways.push(self.string(node, &texts)?);
        }
        let numbers = self.ex.languages.any(numbers);
        let numbers = self.ex.located(node, numbers)?;
        let plain = numbers.map(|numbers| self.ex.languages.plain(&Some(numbers), has_text)).transpose();
        if let Some(numbers) = self.ex.located(node, plain)?.flatten() {
            ways.push(self.terminal("number", &numbers));
        }
        for shape in shapes.iter().filter(|shape| shape.types & (ARRAY | OBJECT) != 0) {
            if let Some(values) = &shape.one_of {
                for value in values {
                    if self.ex.constant_has_shape(*value, shape)? {
                        ways.push(self.constant(*value)?);
                    }
                }
                continue;
            }
            if shape.types & ARRAY != 0 {
                ways.extend(self.array(set, shape)?);
            }
            if shape.types & OBJECT != 0 {
                ways.extend(self.object(set, shape)?);
            }
        }
        if form == Form::Element {
            return self.in_element(node, &shapes, ways, is_any);
        }
        Ok(self.one_of(ways))
    }

    /// The strings of `shapes`: those with the same bounds on their length as one shape, so that the bounds are counted
    /// and no automaton has a copy for each character.
    fn strings_by_length(
        &mut self,
        node: Option<NodeId>,
        shapes: &[Shape],
    ) -> Result<Vec<Shape>, SchemaError> {
        let mut alike: Vec<(Shape, Vec<Arc<Dfa>>)> = vec![];
        for shape in shapes.iter().filter(|shape| shape.types & STRING != 0) {
            let own = match &shape.strings {
                Some(own) => Ok(Some(Arc::clone(own))),
                None => self.ex.languages.pattern(TEXT),
            };
            let own = self.ex.located(node, own)?;
            let bounds = (shape.min_length, shape.max_length);
            match alike.iter_mut().find(|(known, _)| (known.min_length, known.max_length) == bounds) {
                Some((_, all)) => all.extend(own),
                None => {
                    let (min_length, max_length) = bounds;
                    let one = Shape { types: STRING, min_length, max_length, ..Shape::any() };
                    alike.push((one, own.into_iter().collect()));
                }
            }
        }
        let strings = alike.into_iter().map(|(shape, all)| {
            let all = self.ex.languages.any(all);
            let all = self.ex.located(node, all)?;
            Ok(Shape { strings: all.filter(|all| !standard::is_all(all)), ..shape })
        });
        strings.collect()
    }

    pub(crate) fn terminal(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        if let Some(known) = self.terminals.get(&Arc::as_ptr(dfa)) {
            return *known;
        }
        let expr = self.builder.automaton(name, Arc::clone(dfa));
        self.kept.push(Arc::clone(dfa));
        self.terminals.insert(Arc::as_ptr(dfa), expr);
        expr
    }

    /// Keeps `dfa` alive, because its address is a key.
    pub(crate) fn keep(&mut self, dfa: &Arc<Dfa>) {
        self.kept.push(Arc::clone(dfa));
    }

    /// The JSON spelling of a name or a string of the schema.
    pub(crate) fn json_string(&self, text: &str) -> String {
        string::to_json(text, self.ascii)
    }

    /// A JSON string with one of these texts.
    pub(crate) fn string(&mut self, node: Option<NodeId>, texts: &Arc<Dfa>) -> Result<ExprId, SchemaError> {
        if let Some(known) = self.strings.get(&Arc::as_ptr(texts)) {
            return Ok(*known);
        }
        let made = match plain_texts(texts) {
            Some(Plain::Listed(list)) => {
                let list: Vec<ExprId> = list
                    .into_iter()
                    .map(|text| {
                        let written = self.json_string(&text);
                        self.literal(written)
                    })
                    .collect();
                self.shared("strings", list).ok_or(SchemaError::unsatisfiable())?
            }
            Some(Plain::Dense) => {
                let written = self.ex.languages.spelled_once(texts);
                let written = self.ex.located(node, written)?.ok_or(SchemaError::unsatisfiable())?;
                self.terminal("string", &written)
            }
            None if enumerated::are_listed(texts) => {
                let listed = self.ex.languages.listed(texts);
                let count = enumerated::texts(texts).map_or(usize::MAX, |count| count as usize);
                let listed =
                    self.ex.of_list(node, "enum", count, listed)?.ok_or(SchemaError::unsatisfiable())?;
                self.terminal("string", &listed)
            }
            None => {
                let spelled = self.ex.languages.spelled(texts);
                let spelled = self.ex.located(node, spelled)?;
                self.terminal("string", &spelled)
            }
        };
        self.kept.push(Arc::clone(texts));
        self.strings.insert(Arc::as_ptr(texts), made);
        Ok(made)
    }

    /// A JSON string that is bounded in its length alone.
    fn bounded_string(&mut self, node: Option<NodeId>, shape: &Shape) -> Result<ExprId, SchemaError> {
        let character = standard::character(self.ascii);
        let character = self.ex.located(node, character)?;
        self.counted(node, &character, shape.min_length, shape.max_length)
    }

    /// A JSON string of characters of one class; `None` if the class is too large to be counted.
    fn run(&mut self, node: Option<NodeId>, run: &Run) -> Result<Option<ExprId>, SchemaError> {
        let character = self.ex.languages.character(&run.pattern());
        let character = self.ex.located(node, character)?;
        match self.counted(node, &character, run.min, run.max) {
            Err(SchemaError::Grammar(GrammarError::Uncountable { .. })) => Ok(None),
            made => made.map(Some),
        }
    }

    /// A JSON string with a condition and a large bound on its length, if it is better counted than built. It is
    /// `None` too where no text is that short, or where characters cannot be counted.
    fn long_string(&mut self, node: Option<NodeId>, shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let (Some(texts), Some(max)) = (&shape.strings, shape.max_length) else { return Ok(None) };
        // Each character copies the automaton of the condition.
        if u64::from(max) * (texts.len() as u64) < COPIED
            || max > self.ex.limits.characters
            || enumerated::are_listed(texts)
            || enumerated::lengths_within(texts, 0, Some(max))
        {
            return Ok(None);
        }
        let texts = if shape.min_length == 0 {
            Arc::clone(texts)
        } else {
            let long = self.ex.languages.pattern(&format!("(?s:.){{{},}}", shape.min_length));
            let both = long.and_then(|long| self.ex.languages.and(&Some(Arc::clone(texts)), &long));
            let Some(both) = self.ex.located(node, both)? else { return Ok(None) };
            both
        };
        let spelled = self.ex.languages.spelled(&texts);
        let spelled = self.ex.located(node, spelled)?;
        let character = standard::character(self.ascii);
        let character = self.ex.located(node, character)?;
        match self.builder.bounded_length("string", &spelled, "\"", &character, b'"', max) {
            Err(GrammarError::Uncountable { .. }) => Ok(None),
            made => Ok(Some(made?)),
        }
    }

    pub(super) fn check_characters(&self, node: Option<NodeId>, count: u32) -> Result<(), SchemaError> {
        let limit = self.ex.limits.characters;
        if count <= limit {
            return Ok(());
        }
        let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
        let error = SchemaError::limit(&pointer, "the characters", limit as usize, "characters");
        // One number for all strings, so that they do not fail one after another.
        let enough = self.ex.schemas.longest_string().max(u64::from(count));
        Err(error.needing(usize::try_from(enough).unwrap_or(usize::MAX)))
    }

    fn counted(
        &mut self,
        node: Option<NodeId>,
        character: &Arc<Dfa>,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, SchemaError> {
        self.check_characters(node, max.unwrap_or(min))?;
        Ok(self.builder.bounded_repetition("string", "\"", character, "\"", min, max)?)
    }

    /// Exactly the value at `node`: members in their order, numbers and texts in every spelling.
    pub(crate) fn constant(&mut self, node: NodeId) -> Result<ExprId, SchemaError> {
        // Recursion is as deep as the limit on nesting.
        let value = self.ex.schemas.document.value(node).clone();
        Ok(match value {
            Value::Null => self.literal("null"),
            Value::Bool(value) => self.literal(if value { "true" } else { "false" }),
            Value::Number(value) => {
                let made = self.ex.languages.equal(&value);
                match self.ex.located(Some(node), made)? {
                    Some(Some(dfa)) => self.terminal("number", &dfa),
                    Some(None) => return Err(SchemaError::unsatisfiable()),
                    None => return Err(self.ex.too_long(node, &value)),
                }
            }
            Value::String(text) => {
                let texts = self.ex.languages.text(&text);
                match self.ex.located(Some(node), texts)? {
                    Some(texts) => self.string(Some(node), &texts)?,
                    None => return Err(SchemaError::unsatisfiable()),
                }
            }
            Value::Array(items) => {
                self.level += 1;
                let mut parts = vec![];
                for item in items {
                    parts.push(self.constant_part(Name::Item, item)?);
                }
                self.level -= 1;
                self.bracketed("[", "]", parts)
            }
            Value::Object(members) => {
                let mut parts = vec![];
                self.level += 1;
                for (name, value) in members {
                    parts.push(self.constant_part(Name::Listed(&name), value)?);
                }
                self.level -= 1;
                if self.order == MemberOrder::Any && parts.len() > 1 {
                    let parts: Vec<_> = parts.into_iter().map(|part| (part, true)).collect();
                    let inner = self.in_any_order(parts, None, 0, None);
                    return Ok(self.enclosed("{", "}", Some(inner), false).expect("it has something in it"));
                }
                self.bracketed("{", "}", parts)
            }
        })
    }

    /// The rule of one value of a set.
    pub(crate) fn finite(
        &mut self,
        node: Option<NodeId>,
        value: &FiniteValue,
    ) -> Result<ExprId, SchemaError> {
        if self.form == Form::Element {
            return self.finite_element(node.unwrap_or(Document::ROOT), value);
        }
        Ok(match value {
            FiniteValue::Word(word) => self.literal(*word),
            FiniteValue::Text(text) => {
                let texts = self.ex.languages.text(text);
                match self.ex.located(node, texts)? {
                    Some(texts) => self.string(node, &texts)?,
                    None => return Err(SchemaError::unsatisfiable()),
                }
            }
            FiniteValue::Number(_, spelled) => self.terminal("number", spelled),
            FiniteValue::Node(node) => {
                // The value is a part of the value at the current level.
                self.level += 1;
                let constant = self.constant(*node);
                self.level -= 1;
                constant?
            }
        })
    }
}

/// The texts of a string as a run of one class of characters, if they are a long run.
fn run(shape: &Shape) -> Option<Run> {
    let mut run = Run::of(shape.strings.as_ref()?)?;
    run.min = run.min.max(shape.min_length);
    run.max = match (run.max, shape.max_length) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    };
    let is_empty = run.max.is_some_and(|max| max < run.min);
    (!is_empty && run.max.unwrap_or(run.min) >= LONG_RUN).then_some(run)
}

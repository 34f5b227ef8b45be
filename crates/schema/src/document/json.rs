//! JSON text as a flat document. The order of members is kept, numbers are exact, and a duplicate key is an error.
//!
//! Tried instead: `serde_json`. Its maps lose the order of members, or need a feature that changes them for every
//! crate of a build; of two equal keys the last one wins silently; and `0.1` becomes the nearest binary fraction.
//! Nothing here recurses, so depth costs memory alone.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use unskew_core::Cancel;

use crate::{SchemaError, SchemaLimits, decimal::Decimal};

/// The number of values between two checks of the cancellation flag.
const CHECKED_VALUES: usize = 1 << 10;

/// An error if the work is cancelled. The flag is checked for one value in [`CHECKED_VALUES`].
pub(crate) fn check_cancelled(cancel: &Cancel, node: NodeId) -> Result<(), SchemaError> {
    if node.index().is_multiple_of(CHECKED_VALUES) && cancel.is_cancelled() {
        Err(SchemaError::Cancelled)
    } else {
        Ok(())
    }
}

/// A value of a document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The same position in a copy that begins `by` nodes later.
    pub(crate) fn shifted(self, by: u32) -> Self {
        Self(self.0 + by)
    }

    /// The same position in a copy that begins `by` nodes earlier.
    pub(crate) fn unshifted(self, by: u32) -> Self {
        Self(self.0 - by)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    String(Rc<str>),
    Array(Vec<NodeId>),
    Object(Vec<(Rc<str>, NodeId)>),
}

/// One or more texts as values in one list. The outermost value of each text comes first.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    values: Vec<Value>,
    /// The parent of each value, and its position among the parts of the parent.
    parents: Vec<Option<(NodeId, u32)>>,
    /// Numbers that are written with a point or an exponent; only of the texts and not of their copies.
    pointed: HashSet<NodeId>,
    /// The length of all texts and copies.
    bytes: usize,
    /// The members of each large object, as positions sorted by name.
    sorted: HashMap<NodeId, Vec<u32>>,
}

/// Objects with more members than this are searched by name in a sorted list.
const LARGE: usize = 16;

impl Document {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn value(&self, node: NodeId) -> &Value {
        &self.values[node.index()]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.values.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.parents[node.index()].map(|(parent, _)| parent)
    }

    /// The key of `node` in its parent, if the parent is an object.
    pub(crate) fn key(&self, node: NodeId) -> Option<&str> {
        let (parent, position) = self.parents[node.index()]?;
        match self.value(parent) {
            Value::Object(members) => members.get(position as usize).map(|(key, _)| &**key),
            _ => None,
        }
    }

    pub(crate) fn members(&self, node: NodeId) -> Option<&[(Rc<str>, NodeId)]> {
        match self.value(node) {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(crate) fn member(&self, node: NodeId, key: &str) -> Option<NodeId> {
        let members = self.members(node)?;
        if members.len() <= LARGE {
            return members.iter().find(|(name, _)| &**name == key).map(|(_, value)| *value);
        }
        let sorted = self.sorted.get(&node)?;
        let found = sorted.binary_search_by(|position| (*members[*position as usize].0).cmp(key)).ok()?;
        Some(members[sorted[found] as usize].1)
    }

    pub(crate) fn items(&self, node: NodeId) -> Option<&[NodeId]> {
        match self.value(node) {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn text(&self, node: NodeId) -> Option<&str> {
        match self.value(node) {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value is a number that is written with a point or an exponent; always false in a copy.
    pub(crate) fn is_pointed(&self, node: NodeId) -> bool {
        self.pointed.contains(&node)
    }

    /// The JSON pointer of `node`, as a fragment: `#/properties/a~1b`.
    pub(crate) fn pointer(&self, mut node: NodeId) -> String {
        let mut path = vec![];
        while let Some((parent, position)) = self.parents[node.index()] {
            path.push((node, position));
            node = parent;
        }
        let mut pointer = String::with_capacity(16 * (1 + path.len()));
        pointer.push('#');
        for (node, position) in path.into_iter().rev() {
            pointer.push('/');
            match self.key(node) {
                Some(key) if !key.contains(['~', '/']) => pointer.push_str(key),
                Some(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
                None => pointer.push_str(&position.to_string()),
            }
        }
        pointer
    }

    /// The value at a JSON pointer (without `#`) below `node`.
    pub(crate) fn resolve(&self, node: NodeId, pointer: &str) -> Option<NodeId> {
        if pointer.is_empty() {
            return Some(node);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(node, |node, part| {
            let part = part.replace("~1", "/").replace("~0", "~");
            match self.value(node) {
                Value::Object(_) => self.member(node, &part),
                Value::Array(items) => items.get(part.parse::<usize>().ok()?).copied(),
                _ => None,
            }
        })
    }

    /// Whether two values are equal in JSON Schema.
    pub(crate) fn is_equal(&self, left: NodeId, right: NodeId) -> bool {
        // A list replaces recursion, although the nesting of a document is limited.
        let mut pairs = vec![(left, right)];
        while let Some((left, right)) = pairs.pop() {
            let equal = match (self.value(left), self.value(right)) {
                (Value::Null, Value::Null) => true,
                (Value::Bool(left), Value::Bool(right)) => left == right,
                (Value::Number(left), Value::Number(right)) => left == right,
                (Value::String(left), Value::String(right)) => left == right,
                (Value::Array(left), Value::Array(right)) => {
                    pairs.extend(left.iter().copied().zip(right.iter().copied()));
                    left.len() == right.len()
                }
                (Value::Object(left), Value::Object(other)) => {
                    let found: Vec<_> =
                        left.iter().map(|(key, value)| (*value, self.member(right, key))).collect();
                    let all = left.len() == other.len() && found.iter().all(|(_, found)| found.is_some());
                    pairs.extend(found.into_iter().filter_map(|(left, right)| Some((left, right?))));
                    all
                }
                _ => false,
            };
            if !equal {
                return false;
            }
        }
        true
    }

    /// The value at `node` as a document of its own.
    pub(crate) fn part(&self, node: NodeId) -> Self {
        // A value comes before its parts, and they come before what is behind it.
        let first = node.index();
        let inside = |parent: &Option<(NodeId, u32)>| parent.is_some_and(|(parent, _)| parent >= node);
        let count = 1 + self.parents[first + 1..].iter().take_while(|parent| inside(parent)).count();
        let by = node.0;
        let mut values = self.values[first..first + count].to_vec();
        for value in &mut values {
            match value {
                Value::Array(items) => items.iter_mut().for_each(|item| *item = item.unshifted(by)),
                Value::Object(members) => {
                    members.iter_mut().for_each(|(_, member)| *member = member.unshifted(by));
                }
                _ => {}
            }
        }
        let parents = self.parents[first..first + count].iter().enumerate().map(|(at, parent)| {
            parent.filter(|_| at > 0).map(|(parent, position)| (parent.unshifted(by), position))
        });
        let is_inside = |node: &NodeId| (first..first + count).contains(&node.index());
        let pointed = self.pointed.iter().filter(|node| is_inside(node)).map(|node| node.unshifted(by));
        let sorted = self.sorted.iter().filter(|(node, _)| is_inside(node));
        Self {
            values,
            parents: parents.collect(),
            pointed: pointed.collect(),
            bytes: self.bytes,
            sorted: sorted.map(|(node, positions)| (node.unshifted(by), positions.clone())).collect(),
        }
    }

    /// Puts another value in the place of that at `node`, and returns the old one. If parts of the old value are parts
    /// of the new one, they must have their positions.
    pub(crate) fn replace(&mut self, node: NodeId, value: Value) -> Value {
        let old = std::mem::replace(&mut self.values[node.index()], value);
        self.sort(node);
        old
    }

    /// Adds `count` copies of all texts; each copy counts as much as the texts. Returns the number of nodes of one
    /// copy. If the copies would exceed the limit, returns `None` and adds nothing.
    pub(crate) fn copy(&mut self, count: usize, limits: &SchemaLimits) -> Option<u32> {
        let bytes = self.bytes.checked_mul(count + 1).filter(|bytes| *bytes <= limits.schema_bytes)?;
        let nodes = u32::try_from(self.values.len()).ok()?;
        // Each node is at least one byte of the text, so there are at most as many nodes as bytes.
        u32::try_from(self.values.len().checked_mul(count + 1)?).ok()?;
        self.bytes = bytes;
        let (values, parents, sorted) = (self.values.clone(), self.parents.clone(), self.sorted.clone());
        for copy in 1..=u32::try_from(count).ok()? {
            let by = copy * nodes;
            self.values.extend(values.iter().cloned().map(|mut value| {
                match &mut value {
                    Value::Array(items) => items.iter_mut().for_each(|item| *item = item.shifted(by)),
                    Value::Object(members) => {
                        members.iter_mut().for_each(|(_, member)| *member = member.shifted(by));
                    }
                    _ => {}
                }
                value
            }));
            self.parents.extend(
                parents.iter().map(|parent| parent.map(|(parent, position)| (parent.shifted(by), position))),
            );
            self.sorted.extend(sorted.iter().map(|(node, positions)| (node.shifted(by), positions.clone())));
        }
        Some(nodes)
    }

    /// Reads `text`, which is one JSON value.
    pub(crate) fn read(text: &str, limits: &SchemaLimits, cancel: &Cancel) -> Result<Self, SchemaError> {
        let mut document = Self {
            values: vec![],
            parents: vec![],
            pointed: HashSet::new(),
            bytes: 0,
            sorted: HashMap::new(),
        };
        document.append(text, limits, cancel)?;
        Ok(document)
    }

    /// Reads another text after the others, and returns its outermost value.
    pub(crate) fn append(
        &mut self,
        text: &str,
        limits: &SchemaLimits,
        cancel: &Cancel,
    ) -> Result<NodeId, SchemaError> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > limits.schema_bytes {
            let error = SchemaError::limit("", "the schema's bytes", limits.schema_bytes, "schema_bytes");
            return Err(error.needing(self.bytes));
        }
        let root = NodeId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        // A value takes 20 bytes of the text of a schema of MaskBench at the median, and 31 of all texts together.
        self.values.reserve(text.len() / 32);
        self.parents.reserve(text.len() / 32);
        JsonParser { text, at: 0, document: self, limits, cancel }.read()?;
        for node in self.nodes().skip(root.index()) {
            check_cancelled(cancel, node)?;
            self.sort(node);
        }
        Ok(root)
    }

    /// Sorts the members of a large object by name.
    fn sort(&mut self, node: NodeId) {
        let members = self.members(node).unwrap_or_default();
        if members.len() > LARGE {
            let mut positions: Vec<u32> = (0..u32::try_from(members.len()).unwrap_or(u32::MAX)).collect();
            positions.sort_unstable_by_key(|position| &*members[*position as usize].0);
            self.sorted.insert(node, positions);
        }
    }
}

struct JsonParser<'t, 'd> {
    text: &'t str,
    at: usize,
    document: &'d mut Document,
    limits: &'d SchemaLimits,
    cancel: &'d Cancel,
}

/// An array or object that is being read.
struct OpenValue {
    node: NodeId,
    /// The keys so far, if the value is a large object.
    keys: HashSet<Rc<str>>,
    object: bool,
}

impl JsonParser<'_, '_> {
    fn read(&mut self) -> Result<(), SchemaError> {
        let mut open: Vec<OpenValue> = vec![];
        // The next token begins a value: a part of the innermost value of `open`.
        let mut key = None;
        loop {
            self.space();
            let (begins, from) = (self.peek(), self.at);
            let value = self.value()?;
            let is_pointed =
                matches!(value, Value::Number(_)) && self.text[from..self.at].contains(['.', 'e', 'E']);
            let node = self.push(open.last().map(|open| open.node), key.take(), value);
            check_cancelled(self.cancel, node)?;
            if is_pointed {
                self.document.pointed.insert(node);
            }
            if matches!(begins, Some(b'[' | b'{')) {
                if open.len() >= self.limits.nest {
                    let limit = self.limits.nest;
                    return Err(SchemaError::limit("", "the nesting of the schema", limit, "nest"));
                }
                open.push(OpenValue { node, keys: HashSet::new(), object: begins == Some(b'{') });
                self.space();
                if self.peek() != Some(if begins == Some(b'{') { b'}' } else { b']' }) {
                    key = self.key(open.last_mut())?;
                    continue;
                }
                self.at += 1;
                open.pop();
            }
            // The previous token ended a value.
            loop {
                self.space();
                let Some(last) = open.last_mut() else {
                    return if self.at == self.text.len() { Ok(()) } else { Err(self.error("the end")) };
                };
                match (self.peek(), last.object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        key = self.key(Some(last))?;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, true) => return Err(self.error("`,` or `}`")),
                    (_, false) => return Err(self.error("`,` or `]`")),
                }
            }
        }
    }

    /// Reads the key before the next value, if the innermost value is an object.
    fn key(&mut self, open: Option<&mut OpenValue>) -> Result<Option<Rc<str>>, SchemaError> {
        let Some(open) = open.filter(|open| open.object) else { return Ok(None) };
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.error("a key in quotes"));
        }
        let offset = self.at;
        let key = self.string()?;
        let members = self.document.members(open.node).unwrap_or_default();
        let is_repeated = if members.len() < LARGE {
            members.iter().any(|(other, _)| *other == key)
        } else {
            if open.keys.is_empty() {
                open.keys.extend(members.iter().map(|(other, _)| other.clone()));
            }
            !open.keys.insert(key.clone())
        };
        if is_repeated {
            let message = format!("the key {key:?} stands twice in one object; keep one of the two");
            return Err(SchemaError::Json { offset, message });
        }
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.error("`:`"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Reads a value, or the opening bracket of an array or object.
    fn value(&mut self) -> Result<Value, SchemaError> {
        let words = [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                Ok(Value::Object(vec![]))
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Value::Array(vec![]))
            }
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => {
                let rest = &self.text[self.at..];
                let length = rest
                    .find(|char: char| !matches!(char, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'))
                    .unwrap_or(rest.len());
                let number = Decimal::parse(&rest[..length]).ok_or_else(|| self.error("a number"))?;
                self.at += length;
                Ok(Value::Number(number))
            }
            _ => {
                let found = words.into_iter().find(|(word, _)| self.text[self.at..].starts_with(word));
                let (word, value) = found.ok_or_else(|| self.error("a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    fn string(&mut self) -> Result<Rc<str>, SchemaError> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(|char: char| char == '"' || char == '\\' || char < ' ');
            let end = end.ok_or_else(|| self.error("the end of a string"))?;
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    text.reserve_exact(end);
                    return Ok((text + &rest[..end]).into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push_str(&rest[..end]);
                    text.push(self.escape()?);
                }
                _ => return Err(self.error("an escape in place of a control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SchemaError> {
        let char = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let high = self.hex()?;
                if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    let pair = low.checked_sub(0xdc00).filter(|low| *low < 0x400);
                    let point = pair.map(|low| 0x10000 + ((high - 0xd800) << 10) + low);
                    return point.and_then(char::from_u32).ok_or_else(|| self.error("a low surrogate"));
                }
                return char::from_u32(high).ok_or_else(|| self.error("a character and no half of a pair"));
            }
            _ => return Err(self.error("an escape of JSON")),
        };
        self.at += 1;
        Ok(char)
    }

    fn hex(&mut self) -> Result<u32, SchemaError> {
        let digits = self.text.get(self.at..self.at + 4).filter(|digits| !digits.starts_with('+'));
        let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let value = value.ok_or_else(|| self.error("four hexadecimal digits"))?;
        self.at += 4;
        Ok(value)
    }

    fn push(&mut self, parent: Option<NodeId>, key: Option<Rc<str>>, value: Value) -> NodeId {
        let node = NodeId(u32::try_from(self.document.values.len()).unwrap_or(u32::MAX));
        let mut position = None;
        if let Some(parent) = parent {
            let index = match (&mut self.document.values[parent.index()], key) {
                (Value::Array(items), _) => {
                    items.push(node);
                    items.len() - 1
                }
                (Value::Object(members), Some(key)) => {
                    members.push((key, node));
                    members.len() - 1
                }
                _ => 0,
            };
            position = Some((parent, u32::try_from(index).unwrap_or(u32::MAX)));
        }
        self.document.values.push(value);
        self.document.parents.push(position);
        node
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, expected: &str) -> SchemaError {
        SchemaError::Json { offset: self.at, message: format!("expected {expected}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document, SchemaError> {
        Document::read(text, &SchemaLimits::default(), &Cancel::default())
    }

    #[test]
    fn order_escapes_and_pointers() {
        let document = read(r#" {"b" : [1, {"a/~": "\u00e9\ud83d\ude00\n"}], "a": {} } "#).unwrap();
        let keys: Vec<_> = document.members(Document::ROOT).unwrap().iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["b", "a"]);
        let node = document.resolve(Document::ROOT, "/b/1/a~1~0").unwrap();
        assert_eq!(document.text(node), Some("é😀\n"));
        assert_eq!(document.pointer(node), "#/b/1/a~1~0");
        assert_eq!(document.resolve(Document::ROOT, "/b/2"), None);
    }

    #[test]
    fn what_is_no_json_is_an_error_with_its_place() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            "-",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\u+123""#,
            "nul",
            "1 2",
            "[1}",
            "{1:2}",
            "{\"a\" 1}",
            "1e",
            "+1",
        ] {
            assert!(matches!(read(text), Err(SchemaError::Json { .. })), "{text}");
        }
        let twice = read(r#"{"a": 1, "\u0061": 2}"#).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "at byte 9: the key \"a\" stands twice in one object; keep one of the two"
        );
    }

    #[test]
    fn members_of_large_objects_are_found() {
        let members: Vec<String> = (0..100).map(|at| format!("\"k{}\": {at}", at * 37 % 101)).collect();
        let document = read(&format!("{{{}}}", members.join(","))).unwrap();
        for (name, value) in document.members(Document::ROOT).unwrap() {
            assert_eq!(document.member(Document::ROOT, name), Some(*value));
        }
        assert_eq!(document.member(Document::ROOT, "k"), None);
        assert_eq!(document.member(Document::ROOT, "k1000"), None);
    }

    #[test]
    fn depth_is_a_limit() {
        let deep = "[".repeat(100_000);
        assert!(matches!(read(&deep), Err(SchemaError::Limit { .. })));
    }
}

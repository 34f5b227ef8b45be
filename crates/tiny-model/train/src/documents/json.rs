//! One-line JSON in the spacing of Python's `json.dumps`: `", "` between items and `": "` after keys.

/// An object under construction; the keys come out in the order they were given.
#[derive(Debug, Default)]
pub(crate) struct Object {
    members: Vec<String>,
}

impl Object {
    /// An empty object.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a member whose value is a string.
    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, &quoted(value))
    }

    /// Adds a member whose value is a whole number.
    pub(crate) fn number(self, key: &str, value: u64) -> Self {
        self.raw(key, &value.to_string())
    }

    /// Adds a member whose value is `true` or `false`.
    pub(crate) fn boolean(self, key: &str, value: bool) -> Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Adds a member whose value is JSON already.
    pub(crate) fn raw(mut self, key: &str, value: &str) -> Self {
        self.members.push(format!("{}: {value}", quoted(key)));
        self
    }

    /// The text of the object.
    pub(crate) fn build(self) -> String {
        format!("{{{}}}", self.members.join(", "))
    }
}

/// A JSON array of items that are JSON already.
pub(crate) fn array(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

/// A JSON string.
pub(crate) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

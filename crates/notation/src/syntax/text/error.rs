//! Where an error is, and what was probably meant there: locations, excerpts, foreign notations and near names.

use unskew_grammar::Location;

/// Stands between the texts of the files that a grammar consists of. Unicode reserves it: no text has it.
pub(crate) const FILE_MARK: char = '\u{fdd0}';

/// The notation for which an undefined name was probably meant, as a way out. The name is at offset `at` of `text`.
pub(crate) fn foreign_name(text: &str, at: usize, name: &str) -> Option<&'static str> {
    let before = text[..at].chars().next_back();
    let after = text[at + name.len()..].chars().next();
    match (before, after) {
        _ if name.chars().all(|char| char.is_ascii_digit()) => {
            Some("a number of repetitions follows the repeated item, as in `x{3}`")
        }
        _ if name == "." => Some("any character is `[^]`"),
        (_, Some('('))
            if ["Regex", "Substring", "Token", "ExcludeToken", "TagDispatch", "TokenTagDispatch"]
                .contains(&name) =>
        {
            Some("functions of XGrammar are read in a file that ends in `.xgrammar`")
        }
        (_, Some('(')) => Some(
            "this notation has no calls with arguments; write rules instead, or, in Lark, a regex between slashes such as \
             `/[a-z]+/`",
        ),
        (Some('"'), _) if name == "i" => {
            Some("only a text in Lark has the flag `i`; write classes such as `[aA]`, a blank before a name")
        }
        (_, Some('"' | '\'')) if name.len() == 1 => {
            Some("a text has no prefix; in Lark a regex is written between slashes, such as `/[a-z]+/`")
        }
        (Some('['), _) => {
            Some("`[…]` is a part that may be left out; a class of characters is a regex, such as `/[a-z]/`")
        }
        _ if name.chars().all(|char| char == '-') => Some(
            "differences such as `A - B` are read in a file that ends in `.ebnf`; list the allowed texts",
        ),
        _ if ["EOF", "EOI", "END"].iter().any(|end| name.eq_ignore_ascii_case(end)) => {
            Some("the end of the output needs no mark, because an output may end where the grammar ends")
        }
        _ => None,
    }
}

/// The location at `offset` of `text`. O(n).
pub(crate) fn location(text: &str, offset: usize) -> Location {
    Locations::new(text).at(offset)
}

/// An excerpt at `offset`, which serves as the name of a construct without one: up to the next blank, or, if
/// it begins with a quote, slash or bracket, up to the end of the line.
pub(crate) fn excerpt(text: &str, offset: usize) -> String {
    /// The length at which an excerpt is cut, in characters.
    const LONGEST: usize = 40;
    let rest = &text[offset..];
    let quoted = rest.starts_with(['"', '\'', '/', '[']);
    let end = |char: char| char == '\n' || (char.is_whitespace() && !quoted);
    rest.chars().take_while(|char| !end(*char)).take(LONGEST).collect()
}

/// The token or set of tokens at `offset`: up to its closing angle bracket.
pub(crate) fn token_excerpt(text: &str, offset: usize) -> String {
    let found = excerpt(text, offset);
    let rest = &text[offset..];
    match rest.find('>') {
        Some(close) if rest[..close].chars().count() < found.chars().count() => rest[..=close].to_owned(),
        _ => found,
    }
}

/// Converts offsets to locations. Offsets in ascending order take O(n) together.
pub(crate) struct Locations<'t> {
    text: &'t str,
    /// The offset of the last location.
    passed: usize,
    /// Where the text of its file begins.
    begin: usize,
    last: Location,
}

impl<'t> Locations<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let last = Location { offset: 0, line: 1, column: 1, file: 0 };
        Self { text, passed: 0, begin: 0, last }
    }

    pub(crate) fn at(&mut self, offset: usize) -> Location {
        if offset < self.passed {
            *self = Self::new(self.text);
        }
        let mut passed = &self.text[self.passed..offset];
        if let Some(mark) = passed.rfind(FILE_MARK) {
            let file = self.last.file + passed.matches(FILE_MARK).count();
            self.begin = self.passed + mark + FILE_MARK.len_utf8();
            passed = &self.text[self.begin..offset];
            self.last = Location { offset: 0, line: 1, column: 1, file };
        }
        let lines = passed.bytes().filter(|byte| *byte == b'\n').count();
        let (line, column) = match passed.rfind('\n') {
            Some(newline) => (self.last.line + lines, passed[newline + 1..].chars().count() + 1),
            None => (self.last.line, self.last.column + passed.chars().count()),
        };
        self.passed = offset;
        self.last = Location { offset: offset - self.begin, line, column, file: self.last.file };
        self.last
    }
}

/// The name among `names` that `name` was probably meant to be: the one with the least edit distance, if that is at
/// most a third of its length. O(l^2) for each of n names of length l. Only the first thousand names are compared.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    /// Longer names are not compared.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let close = names.take(1_000).filter(|other| other.len() <= LONGEST && *other != name);
    let close = close.map(|other| (distance(name, other), other));
    let (distance, nearest) = close.min_by_key(|(distance, _)| *distance)?;
    let len = name.chars().count();
    // The names must have something in common.
    let is_near = distance <= len.div_ceil(3) && distance < len.max(nearest.chars().count());
    is_near.then(|| nearest.to_owned())
}

/// The edit distance: the least number of insertions, deletions, replacements and swaps of neighbours. The
/// case of ASCII letters does not count.
fn distance(left: &str, right: &str) -> usize {
    let fold = |text: &str| text.chars().map(|char| char.to_ascii_lowercase()).collect::<Vec<_>>();
    let (left, right) = (fold(left), fold(right));
    let mut before = vec![];
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, char) in left.iter().enumerate() {
        let mut next = vec![at + 1];
        for (column, other) in right.iter().enumerate() {
            let replaced = row[column] + usize::from(char != other);
            let mut best = replaced.min(row[column + 1] + 1).min(next[column] + 1);
            if at > 0 && column > 0 && *char == right[column - 1] && left[at - 1] == *other {
                best = best.min(before[column - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "é\nab\r\n\nü";
        let mut locations = Locations::new(text);
        let expected = [(0, 1, 1), (2, 1, 2), (3, 2, 1), (5, 2, 3), (7, 3, 1), (8, 4, 1), (10, 4, 2)];
        for (offset, line, column) in expected {
            let alone = location(text, offset);
            assert_eq!((alone.offset, alone.line, alone.column), (offset, line, column));
            assert_eq!(locations.at(offset), alone);
        }
        assert_eq!(locations.at(3), location(text, 3));
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["object", "string", "number", "ws"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("objct").as_deref(), Some("object"));
        assert_eq!(nearest("Strnig").as_deref(), Some("string"));
        assert_eq!(nearest("w").as_deref(), Some("ws"));
        assert_eq!(nearest("boolean"), None);
        assert_eq!(super::nearest("a", ["b", "c"].into_iter()), None);
    }
}

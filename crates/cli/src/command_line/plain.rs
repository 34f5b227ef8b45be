//! Text that others have written, on its way to a terminal: control characters and those that turn the direction of
//! writing are shown as `\u{1b}`.
//!
//! The escape sequences of terminals move the cursor, set the title and more, and the characters that turn the
//! direction make a line read as another one. Models, grammars, schemas and file names may hold all of them. Where
//! output goes into a file or a pipe the text of an output stays as it is, since it is data there; messages and names
//! are escaped everywhere.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether notes are kept back. It is of the process, as its standard error is.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on notes, warnings and progress are kept back, or not.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether they are.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether a character does something to a terminal instead of being shown: C0, DEL and C1, and the marks,
/// embeddings, overrides and isolates of the bidirectional algorithm.
fn is_active(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |char: char| !is_active(char) || is_kept(char);
    if text.chars().all(is_shown) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match is_shown(char) {
            true => shown.push(char),
            false => shown.extend(char.escape_unicode()),
        }
    }
    shown.into()
}

/// A name or message as one line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Writes a note, a warning or a finding as a line to standard error.
pub(crate) fn say(message: impl Display) {
    if !is_quiet() {
        // Who has closed standard error does not want to hear of it.
        let _ = writeln!(io::stderr(), "{}", line(&message.to_string()));
    }
}

/// Writes the line of an error to standard error.
pub(crate) fn fail(message: &str, is_coloured: bool) {
    let [mark, end] = if is_coloured { ["\x1b[1;31m", "\x1b[0m"] } else { [""; 2] };
    let _ = writeln!(io::stderr(), "{mark}error:{end} {}", line(message));
}

/// JSON with control and format characters written as `\uXXXX`. They stand in strings alone, where the escape means
/// the same.
pub(crate) fn json(text: String) -> String {
    if !text.chars().any(is_active) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match is_active(char) {
            true => write!(shown, "\\u{:04x}", u32::from(char)).expect("a string takes all"),
            false => shown.push(char),
        }
    }
    shown
}

/// Standard output: as it is in files and pipes, escaped on a terminal, where line breaks and tabs are text.
#[derive(Debug)]
pub(crate) struct Output<W> {
    inner: W,
    is_terminal: bool,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(inner: W, is_terminal: bool) -> Self {
        Self { inner, is_terminal }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    /// Takes whole characters, as all that is formatted does.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            return self.inner.write_all(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        self.inner.write_all(escaped(&text, |char| matches!(char, '\n' | '\t')).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: &str = "\u{1b}]0;x\u{7}\r\u{7f}\u{85}\u{9b}31m\u{61c}\u{200e}\u{202e}\u{2066}";

    fn written(text: &str, is_terminal: bool) -> String {
        let mut output = Output::new(Vec::new(), is_terminal);
        write!(output, "é\n\t{text}").unwrap();
        output.flush().unwrap();
        String::from_utf8(output.inner).unwrap()
    }

    #[test]
    fn a_terminal_gets_nothing_that_moves_it() {
        assert_eq!(written(ACTIVE, false), format!("é\n\t{ACTIVE}"));
        let shown = r"\u{1b}]0;x\u{7}\u{d}\u{7f}\u{85}\u{9b}31m\u{61c}\u{200e}\u{202e}\u{2066}";
        assert_eq!(written(ACTIVE, true), format!("é\n\t{shown}"));
        assert_eq!(line(&format!("a\n{ACTIVE}")), format!(r"a\u{{a}}{shown}"));
        assert_eq!(line("naïve → text"), "naïve → text");
    }

    #[test]
    fn json_has_no_active_characters_and_the_same_values() {
        let text = json(serde_json::to_string(ACTIVE).unwrap());
        assert!(!text.chars().any(is_active), "{text}");
        assert!(text.contains(r"\u009b") && text.contains(r"\u202e"), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), ACTIVE);
    }
}

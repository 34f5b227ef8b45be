//! The line of a text in which a fault is, with carets below it, as compilers show it.
//!
//! All places of faults become a range of bytes ([`Place`]), and one function draws it. Texts are those of strangers: a
//! line of megabytes is cut to the characters around the fault, and control characters are escaped. The crates that
//! draw such lines do neither.

use crate::command_line::plain;
pub(crate) use crate::engine::Place;

/// Characters that are shown in front of a fault, and from its beginning on.
const AROUND: usize = 60;

/// The line of `text`, which has this name, in which a place begins; nothing where it is in another text.
pub(crate) fn excerpt(name: &str, text: &str, place: &Place, is_coloured: bool) -> Option<String> {
    let range = place.range(text)?;
    let before = text.get(..range.start)?;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let number = before.matches('\n').count() + 1;
    let column = before[begin..].chars().count();
    let line = text[begin..].lines().next().unwrap_or_default();
    // A range may go on in the next lines, which are not shown.
    let marked = text.get(range).unwrap_or_default().lines().next().unwrap_or_default().chars().count();

    let skipped = column.saturating_sub(AROUND);
    let (mut shown, mut carets) = (String::new(), String::new());
    for (index, char) in line.chars().enumerate().skip(skipped).take(2 * AROUND) {
        let char = match char {
            '\t' => " ".into(),
            char => plain::line(char.encode_utf8(&mut [0; 4])).into_owned(),
        };
        let width = char.chars().count();
        shown.push_str(&char);
        let mark = match index {
            index if index < column => " ",
            index if index < column + marked.max(1) => "^",
            _ => continue,
        };
        carets.push_str(&mark.repeat(width));
    }
    // Behind the end of a line.
    if !carets.contains('^') {
        carets.push('^');
    }
    let [bar, mark, end] = if is_coloured { ["\x1b[1;34m", "\x1b[1;31m", "\x1b[0m"] } else { [""; 3] };
    let number = number.to_string();
    let margin = " ".repeat(number.len());
    let name = plain::line(name);
    Some(format!(
        "{margin}{bar}-->{end} {name}:{number}:{}\n{margin} {bar}|{end}\n{bar}{number} |{end} {shown}\n{margin} {bar}|{end} {mark}{carets}{end}",
        column + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, place: &Place) -> Option<String> {
        excerpt("a.txt", text, place, false)
    }

    #[test]
    fn places_are_shown_below_their_line() {
        assert_eq!(
            drawn("ab\n\tcd\u{7}é!\n", &Place::Bytes(6..9)).unwrap(),
            " --> a.txt:2:4\n  |\n2 |  cd\\u{7}é!\n  |    ^^^^^^"
        );
        assert_eq!(drawn("ab", &Place::Bytes(2..2)).unwrap(), " --> a.txt:1:3\n  |\n1 | ab\n  |   ^");
        assert_eq!(drawn("ab", &Place::Bytes(9..9)), None);
        assert_eq!(drawn("é", &Place::Bytes(1..2)), None);
        let long = "x".repeat(1_000_000);
        let cut = drawn(&long, &Place::Bytes(500_000..700_000)).unwrap();
        assert!(cut.len() < 400 && cut.contains(":500001\n") && cut.ends_with(&"^".repeat(60)), "{cut}");
    }
}

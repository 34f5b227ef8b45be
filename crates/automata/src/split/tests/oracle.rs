//! The oracle: the `fancy-regex` engine, and the behaviours by their definition.

use unskew_core::{SplitBehavior, SplitPattern};

/// The splitting of the library, on whole texts.
pub(super) struct Oracle {
    steps: Vec<(fancy_regex::Regex, SplitBehavior, bool)>,
}

impl Oracle {
    pub(super) fn new(splits: &[SplitPattern]) -> Option<Self> {
        let mut steps = Vec::new();
        for split in splits {
            let (pattern, behavior, invert) = match split {
                SplitPattern::Regex { pattern, behavior, invert } => (pattern.clone(), *behavior, *invert),
                SplitPattern::Literal { text, behavior, invert } => {
                    (fancy_regex::escape(text).into_owned(), *behavior, *invert)
                }
                SplitPattern::Metaspace { split: true, .. } => {
                    (" ".to_owned(), SplitBehavior::MergedWithNext, false)
                }
                _ => continue,
            };
            steps.push((fancy_regex::Regex::new(&pattern).ok()?, behavior, invert));
        }
        Some(Self { steps })
    }

    /// The offsets at which pieces end, except for the last one. `None` if a part of the text is dropped.
    pub(super) fn boundaries(&self, text: &str) -> Option<Vec<usize>> {
        let mut pieces = vec![(0, text.len())];
        for (regex, behavior, invert) in &self.steps {
            let mut split = Vec::new();
            for (from, to) in pieces {
                let mut parts: Vec<(usize, usize, bool)> = Vec::new();
                let mut at = from;
                for found in regex.find_iter(&text[from..to]) {
                    let found = found.unwrap();
                    let (start, end) = (from + found.start(), from + found.end());
                    if at < start {
                        parts.push((at, start, *invert));
                    }
                    parts.push((start, end, !invert));
                    at = end;
                }
                if at < to {
                    parts.push((at, to, *invert));
                }
                split.extend(behave(&parts, *behavior)?);
            }
            pieces = split;
        }
        Some(pieces.iter().map(|piece| piece.1).filter(|end| *end < text.len()).collect())
    }
}

fn behave(parts: &[(usize, usize, bool)], behavior: SplitBehavior) -> Option<Vec<(usize, usize)>> {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    let mut before = false;
    match behavior {
        SplitBehavior::Isolated => return Some(parts.iter().map(|part| (part.0, part.1)).collect()),
        SplitBehavior::Removed => {
            return parts.iter().map(|part| (!part.2).then_some((part.0, part.1))).collect();
        }
        SplitBehavior::Contiguous => {
            for (start, end, matched) in parts {
                match pieces.last_mut() {
                    Some(last) if *matched == before => last.1 = *end,
                    _ => pieces.push((*start, *end)),
                }
                before = *matched;
            }
        }
        SplitBehavior::MergedWithPrevious => {
            for (start, end, matched) in parts {
                match pieces.last_mut() {
                    Some(last) if *matched && !before => last.1 = *end,
                    _ => pieces.push((*start, *end)),
                }
                before = *matched;
            }
        }
        SplitBehavior::MergedWithNext => {
            for (start, end, matched) in parts.iter().rev() {
                match pieces.last_mut() {
                    Some(last) if *matched && !before => last.0 = *start,
                    _ => pieces.push((*start, *end)),
                }
                before = *matched;
            }
            pieces.reverse();
        }
    }
    Some(pieces)
}

//! Small helpers for English text.

/// `words` with the article that goes before them: `a nurse`, `an editor`.
pub(crate) fn with_article(words: &str) -> String {
    let lower = words.to_lowercase();
    let sounds_like_consonant = ["uni", "use", "eu", "one"].iter().any(|start| lower.starts_with(start));
    let sounds_like_vowel = lower.starts_with(['a', 'e', 'i', 'o', 'u', '8'])
        || lower.starts_with("11-")
        || lower.starts_with("18-");
    let article = if sounds_like_vowel && !sounds_like_consonant { "an" } else { "a" };
    format!("{article} {words}")
}

/// `words` with a capital first letter.
pub(crate) fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `count` of `noun`, with an `s` on the noun unless there is one of it.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// An amount of cents as a decimal number: `3490` is `34.90`.
pub(crate) fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Hundredths as a signed decimal number: `-914` is `-9.14`.
pub(crate) fn hundredths(value: i32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", money(u64::from(value.unsigned_abs())))
}

/// A name as it stands alone, without an article: `the Netherlands` is `Netherlands`.
pub(crate) fn label(name: &str) -> &str {
    name.strip_prefix("the ").unwrap_or(name)
}

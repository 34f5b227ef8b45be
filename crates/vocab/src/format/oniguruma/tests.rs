//! The pieces that the library itself makes of texts (`tokenizers` 0.23.3 for Python, with Oniguruma), and what is
//! refused.

use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
    pre_tokenizers::split::{Split, SplitPattern},
};

use super::translate;

/// Patterns, texts and the pieces of `Split(Regex(pattern), "isolated")`.
const CASES: &[(&str, &str, &[&str])] = &[
    (r"\p{N}{1,3}+|\P{N}+", "00000000a", &["00000000", "a"]),
    (r"a{2}?b", "aab b", &["aab", " ", "b"]),
    (r"a{,2}", "aaaa", &["aa", "aa"]),
    (r"a{1,3}?", "aaa", &["a", "a", "a"]),
    (r"a++b|.", "aaab", &["aaab"]),
    (r"a?+a", "aa", &["aa"]),
    (r"\s+$|\s+", "a\t\n\n b ", &["a", "\t\n", "\n ", "b", " "]),
    (r"^a", "a\na\nba", &["a", "\n", "a", "\nba"]),
    (r"\n^", "a\nb\n", &["a", "\n", "b\n"]),
    (r"a$", "a\r\na\na", &["a\r\n", "a", "\n", "a"]),
    (r"\A.|.\z", "aba\n", &["a", "ba\n"]),
    (r"a\Z", "ab\na\n", &["ab\n", "a", "\n"]),
    (
        r"\w+",
        "a²³¹¼½¾b \u{200c}c\u{200d}d e\u{301}_Ⅷ",
        &["a²³¹¼½¾b", " \u{200c}", "c", "\u{200d}", "d", " ", "e\u{301}_Ⅷ"],
    ),
    (r"[\w]+", "a²b½ Ⅷé_1", &["a", "²", "b", "½ ", "Ⅷé_1"]),
    (r"\W", "a²½-", &["a²½", "-"]),
    (r"\b", "a²b c-d", &["a²b", " ", "c", "-", "d"]),
    (r"\Ba", "aa a", &["a", "a", " a"]),
    (r"\h+", "afgG09", &["af", "gG", "09"]),
    (r"\H", "af-", &["af", "-"]),
    (r"\s+", "a\u{b}\u{85}\u{a0}\u{3000}\u{200b}b", &["a", "\u{b}\u{85}\u{a0}\u{3000}", "\u{200b}b"]),
    (r"\d+", "1٣²a", &["1٣", "²a"]),
    (
        r"[[:alpha:]]+|[[:digit:]]+|[[:punct:]]+|[[:space:]]+|.",
        "été 12٣$+—\u{a0}x",
        &["été", " ", "12٣", "$+—", "\u{a0}", "x"],
    ),
    (r"[[:^alpha:]]+", "é1-x", &["é", "1-", "x"]),
    (r"[[:word:]]+", "a²_é", &["a", "²", "_é"]),
    (r"\p{Word}+", "a²_é", &["a²_é"]),
    (r"\p{Punct}+|[[:punct:]]", "!$-+", &["!", "$", "-", "+"]),
    (r"[[:upper:][:digit:]]+", "AÉ1a", &["AÉ1", "a"]),
    (r"[[:blank:]]", "a\t\n\u{3000}", &["a", "\t", "\n", "\u{3000}"]),
    (r"[[:print:]]+", "a\t \u{3000}\u{85}", &["a", "\t", " \u{3000}", "\u{85}"]),
    (r"[[:graph:]]+", "a b\u{3000}c", &["a", " ", "b", "\u{3000}", "c"]),
    (r"[[:cntrl:]]", "a\u{1}\u{85}", &["a", "\u{1}", "\u{85}"]),
    (r"[[:xdigit:]]+", "fgA", &["f", "g", "A"]),
    (r"\p{^L}+", "a1-b", &["a", "1-", "b"]),
    (r"\P{^L}+", "a1-b", &["a", "1-", "b"]),
    (r"\p{han}|\p{White_Space}|\p{ uppercase letter }", "中 aB", &["中", " ", "a", "B"]),
    (r"(?m:.)+", "a\nb", &["a\nb"]),
    (r"(?m)a.", "a\n", &["a\n"]),
    (r".+", "a\nb", &["a", "\n", "b"]),
    (r"a(?i)b|c", "abaBC", &["ab", "aB", "C"]),
    (r"x(?i:y)z", "xYzxYZ", &["xYz", "xYZ"]),
    (r"(?i:'s|'ll|[k])", "'S'LL\u{212a}'ſ", &["'S", "'LL", "\u{212a}", "'ſ"]),
    (r"(?i:\p{Lu})", "aA", &["a", "A"]),
    (r"[a-c&&[^b]]", "abc", &["a", "b", "c"]),
    (r"[a[^a-y]]", "abz", &["a", "b", "z"]),
    (r"[^a&&b]", "ab", &["a", "b"]),
    (r"[a~~b]", "a~b", &["a", "~", "b"]),
    (r"[+--]", "+,-.", &["+", ",", "-", "."]),
    (r"[a\-c\]^]+", "a-c]^b", &["a-c]^", "b"]),
    (r"[a-]", "a-b", &["a", "-", "b"]),
    (r"[\b]", "a\u{8}", &["a", "\u{8}"]),
    (
        r"\x41|\u0042|\x{43}|\x4|\e|\a",
        "ABCD\u{4}\u{1b}\u{7}",
        &["A", "B", "C", "D", "\u{4}", "\u{1b}", "\u{7}"],
    ),
    (r"a{|b}|c{,}|]", "a{b}c{,}]", &["a{", "b}", "c{,}", "]"]),
    (r"\<|\_|\é|\'", "<_é'", &["<", "_", "é", "'"]),
    (r"(?<n>a)(?'m'b)(?#c)c", "abc", &["abc"]),
    (r"(?>a|ab)c|.", "abc", &["a", "b", "c"]),
    (r"(?<=a)b|(?<!a)b(?=c)|(?!c).", "abbcc", &["a", "b", "b", "cc"]),
    (r"a*", "baac", &["b", "aa", "c"]),
    (r"(?=b)", "abab", &["a", "ba", "b"]),
];

#[test]
fn texts_are_split_as_by_the_library() {
    for (pattern, text, pieces) in CASES {
        let translated = translate(pattern).unwrap_or_else(|refusal| panic!("{pattern}: {refusal:?}"));
        let split = Split::new(SplitPattern::Regex(translated), SplitDelimiterBehavior::Isolated, false);
        let split = split.unwrap_or_else(|error| panic!("{pattern}: {error}"));
        let mut parts = PreTokenizedString::from(*text);
        split.pre_tokenize(&mut parts).unwrap();
        let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let parts: Vec<&str> =
            parts.into_iter().map(|(piece, ..)| piece).filter(|piece| !piece.is_empty()).collect();
        assert_eq!(parts, *pieces, "{pattern} on {text:?}");
    }
}

#[test]
fn patterns_that_both_engines_read_alike_stay_as_they_stand() {
    for pattern in [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*+[\r\n]|\s",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        "[\r\n]",
        r"\p{N}{3}|[一-龥぀-ゟ゠-ヿ]+|(?=(\d{3})+(?!\d))|(?<=x)y",
    ] {
        assert_eq!(translate(pattern).as_deref(), Ok(pattern));
    }
}

#[test]
fn what_has_no_exact_translation_is_refused() {
    let lines: Vec<String> = [
        r"\R",
        r"\X",
        r"\K",
        r"\G",
        r"\N",
        r"\y",
        r"\k<n>",
        r"\1",
        r"\101",
        r"\cA",
        r"\o{7}",
        r"\Qa",
        r"\pL",
        r"\xe9",
        r"\x{41 42}",
        r"\ud800",
        r"\p{IsL}",
        r"\p{sc=Latin}",
        r"(?x: a)",
        r"(?s:.)",
        r"(?~a)",
        r"(?P<n>a)",
        r"(?(1)a|b)",
        r"(?i:ss)",
        r"(?i:s(?:t))",
        r"(?i:(?:f|x)l)",
        r"(?i:s{2})",
        r"(?i:ß)",
        r"(?i:[^a])",
        r"(?i:[é])",
        r"(?i:[\p{L}])",
        r"(?i:[[a]])",
        r"a**",
        r"a{2}{3}",
        r"a{3,2}",
        r"(?:a*)+",
        r"a{,2}+",
        r"^*",
        r"(?=a)+",
        r"*",
        r"{2}",
        r"(a",
        r"a)",
        r"[a",
        r"[]a]",
        r"[a&&]",
        r"[a-c-e]",
        r"[\w-z]",
        r"[a-\w]",
        r"[z-a]",
        r"[[:foo:]]",
        r"a\",
    ]
    .iter()
    .map(|pattern| match translate(pattern) {
        Err(refusal) => format!("{pattern}  byte {}: {}", refusal.at, refusal.construct),
        Ok(translated) => panic!("{pattern} became {translated}"),
    })
    .collect();
    assert_eq!(lines.join("\n"), REFUSED.trim());
}

const REFUSED: &str = r"
\R  byte 0: an escape for something else than a known set of characters
\X  byte 0: an escape for something else than a known set of characters
\K  byte 0: an escape for something else than a known set of characters
\G  byte 0: an escape for something else than a known set of characters
\N  byte 0: an escape for something else than a known set of characters
\y  byte 0: an escape for something else than a known set of characters
\k<n>  byte 0: an escape for something else than a known set of characters
\1  byte 0: a back-reference or an octal number
\101  byte 0: a back-reference or an octal number
\cA  byte 0: an escape for something else than a known set of characters
\o{7}  byte 0: an escape for something else than a known set of characters
\Qa  byte 0: an escape for something else than a known set of characters
\pL  byte 0: a property without braces
\xe9  byte 0: not the number of one character
\x{41 42}  byte 0: not the number of one character
\ud800  byte 0: not the number of one character
\p{IsL}  byte 0: a property that is not known here
\p{sc=Latin}  byte 0: a property that is not known here
(?x: a)  byte 0: the flag `x`, for white space without meaning
(?s:.)  byte 0: a group of a kind that is not known
(?~a)  byte 0: a group of a kind that is not known
(?P<n>a)  byte 0: a group of a kind that is not known
(?(1)a|b)  byte 0: a group of a kind that is not known
(?i:ss)  byte 5: a pair of letters that is one character where case is ignored
(?i:s(?:t))  byte 8: a pair of letters that is one character where case is ignored
(?i:(?:f|x)l)  byte 11: a pair of letters that is one character where case is ignored
(?i:s{2})  byte 5: an interval behind `s` or `f` where case is ignored
(?i:ß)  byte 4: a character beyond ASCII whose case is ignored
(?i:[^a])  byte 4: a negated class where case is ignored
(?i:[é])  byte 5: a character beyond ASCII whose case is ignored
(?i:[\p{L}])  byte 5: a set in a class where case is ignored
(?i:[[a]])  byte 5: a class in a class where case is ignored
a**  byte 2: a quantifier behind a quantifier
a{2}{3}  byte 4: a quantifier behind a quantifier
a{3,2}  byte 1: an interval that ends before it begins
(?:a*)+  byte 0: a repetition without end of a part that may be empty
a{,2}+  byte 0: a repetition without end of a part that may be empty
^*  byte 1: a quantifier behind a part that reads nothing
(?=a)+  byte 5: a quantifier behind a part that reads nothing
*  byte 0: there is nothing to repeat
{2}  byte 0: there is nothing to repeat
(a  byte 0: a group is not closed
a)  byte 1: a group is closed that was not opened
[a  byte 0: a class without an end
[]a]  byte 1: a class with nothing on one side
[a&&]  byte 4: a class with nothing on one side
[a-c-e]  byte 4: a hyphen in the middle of a class
[\w-z]  byte 3: a hyphen in the middle of a class
[a-\w]  byte 1: a range that is not one of characters
[z-a]  byte 1: a range that is not one of characters
[[:foo:]]  byte 1: a POSIX class that is not one
a\  byte 1: a backslash at the end
";

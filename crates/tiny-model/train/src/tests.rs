//! Properties that every document of the corpus has.

use std::collections::{HashMap, HashSet};

use crate::dates::days_in_month;
use crate::{Corpus, MAX_BYTES, MIN_BYTES};

const SAMPLE: u64 = 20_000;

/// The documents of one kind among the first of the stream.
fn of_kind(wanted: &str) -> Vec<String> {
    let corpus = Corpus::new(7);
    let documents = (0..SAMPLE).map(|index| corpus.named_document(index));
    documents.filter(|(kind, _)| *kind == wanted).map(|(_, document)| document).collect()
}

#[test]
fn the_same_seed_gives_the_same_documents() {
    let (first, second, other) = (Corpus::new(3), Corpus::new(3), Corpus::new(4));
    let same = (0..500).all(|index| first.document(index) == second.document(index));
    assert!(same);
    let different = (0..500).filter(|&index| first.document(index) != other.document(index)).count();
    assert!(different > 450, "{different} of 500 differ");
}

/// The models, their card and their tokenizer belong to these documents: other ones need a training run.
#[test]
fn the_documents_of_the_training_seed_stay_as_they_are() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in Corpus::new(1).iter().take(5_000).flat_map(|document| (document + "\n").into_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    assert_eq!(hash, 0xc35d_b676_e316_7921, "FNV-1a, 64 bits");
}

#[test]
fn iteration_and_random_access_agree() {
    let corpus = Corpus::new(11);
    for (index, document) in (0..).zip(corpus.iter().take(500)) {
        assert_eq!(document, corpus.document(index));
    }
}

#[test]
fn documents_are_clean_and_of_the_promised_size() {
    let corpus = Corpus::new(7);
    for document in corpus.iter().take(SAMPLE as usize) {
        assert!((MIN_BYTES..=MAX_BYTES).contains(&document.len()), "{document}");
        assert!(!document.contains("<|"), "{document}");
        assert!(!document.contains("  "), "{document}");
        assert!(document.lines().all(|line| line == line.trim_end()), "{document}");
        assert_eq!(document, document.trim(), "{document}");
    }
}

#[test]
fn the_mixture_has_the_promised_shares() {
    let corpus = Corpus::new(7);
    let (mut kinds, mut accented, mut name_age_city) = (HashMap::new(), 0, 0);
    for index in 0..SAMPLE {
        let (kind, document) = corpus.named_document(index);
        *kinds.entry(kind).or_insert(0_u64) += 1;
        accented += u64::from(!document.is_ascii());
        name_age_city += u64::from(is_name_age_city(&document));
    }
    let percent = |count: u64| 100 * count / SAMPLE;
    assert!((30..38).contains(&percent(kinds["json"])), "{kinds:?}");
    assert!((5..8).contains(&percent(kinds["log"])), "{kinds:?}");
    assert!((2..5).contains(&percent(accented)), "{accented} accented");
    assert!(name_age_city * 7 > kinds["json"], "{name_age_city} of {} JSON documents", kinds["json"]);
}

fn is_name_age_city(document: &str) -> bool {
    document.starts_with("{\"name\": \"")
        && document.contains(", \"age\": ")
        && document.contains(", \"city\": \"")
}

#[test]
fn one_name_has_one_age() {
    let mut ages: HashMap<String, HashSet<String>> = HashMap::new();
    for document in of_kind("questions") {
        if let Some((question, answer)) = document.split_once("\nA: ")
            && let Some(name) = question.strip_prefix("Q: How old is ")
        {
            let answer = answer.lines().next().unwrap_or_default();
            ages.entry(name.to_owned()).or_default().insert(answer.to_owned());
        }
    }
    assert!(ages.len() > 20, "only {} ages were asked for", ages.len());
    assert!(ages.values().all(|answers| answers.len() == 1), "{ages:?}");
}

#[test]
fn json_documents_are_one_valid_line() {
    for document in of_kind("json") {
        assert_eq!(document.lines().count(), 1, "{document}");
        assert_eq!(json_value(&document), Some(""), "{document}");
    }
}

/// The rest of `text` after the JSON value that it starts with, in Python's spacing; `None` where there is none.
fn json_value(text: &str) -> Option<&str> {
    match text.chars().next()? {
        '{' => json_items(&text[1..], '}', |item| json_value(json_string(item)?.strip_prefix(": ")?)),
        '[' => json_items(&text[1..], ']', json_value),
        '"' => json_string(text),
        _ => {
            let end = text.find([',', '}', ']']).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            let known = ["true", "false", "null"].contains(&word) || word.parse::<f64>().is_ok();
            known.then_some(rest)
        }
    }
}

fn json_items(mut text: &str, close: char, item: fn(&str) -> Option<&str>) -> Option<&str> {
    if let Some(rest) = text.strip_prefix(close) {
        return Some(rest);
    }
    loop {
        text = item(text)?;
        match text.strip_prefix(", ") {
            Some(rest) => text = rest,
            None => return text.strip_prefix(close),
        }
    }
}

fn json_string(text: &str) -> Option<&str> {
    let text = text.strip_prefix('"')?;
    let mut escaped = false;
    for (position, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(&text[position + 1..]),
            _ => {}
        }
    }
    None
}

#[test]
fn equations_hold() {
    for line in of_kind("arithmetic").iter().flat_map(|document| document.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |position: usize| words[position].parse::<i64>().unwrap();
        let expected = apply(words[1], &[number(0), number(2)]);
        assert_eq!((words[3], number(4)), ("=", expected), "{line}");
    }
}

#[test]
fn expressions_have_the_value_they_state() {
    for line in of_kind("expressions").iter().flat_map(|document| document.lines()) {
        let (expression, value) = line.split_once(" => ").unwrap();
        let spaced = expression.replace('(', "( ").replace(')', " )");
        let mut words = spaced.split(' ');
        assert_eq!(evaluate(&mut words), value.parse().ok(), "{line}");
        assert_eq!(words.next(), None, "{line}");
    }
}

/// The value of the next expression; `None` at a closing parenthesis.
fn evaluate<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<i64> {
    match words.next().unwrap() {
        ")" => None,
        "(" => {
            let operator = words.next().unwrap();
            let mut operands = Vec::new();
            while let Some(operand) = evaluate(words) {
                operands.push(operand);
            }
            Some(apply(operator, &operands))
        }
        number => Some(number.parse().unwrap()),
    }
}

fn apply(operator: &str, operands: &[i64]) -> i64 {
    let operation: fn(i64, i64) -> i64 = match operator {
        "+" => |left, right| left + right,
        "-" => |left, right| left - right,
        "*" => |left, right| left * right,
        "/" => |left, right| left / right,
        "max" => i64::max,
        _ => panic!("unknown operator {operator}"),
    };
    operands.iter().copied().reduce(operation).unwrap()
}

#[test]
fn iso_dates_are_days_of_the_calendar() {
    let mut seen = 0;
    for document in of_kind("log") {
        for line in document.lines() {
            let (date, rest) = line.split_once(' ').unwrap();
            let parts: Vec<u64> = date.split('-').map(|part| part.parse().unwrap()).collect();
            assert_eq!((date.len(), parts.len(), rest.is_empty()), (10, 3, false), "{line}");
            assert!((1..=12).contains(&parts[1]), "{line}");
            assert!((1..=days_in_month(parts[0], parts[1])).contains(&parts[2]), "{line}");
            seen += 1;
        }
    }
    assert!(seen > 500, "only {seen} log lines");
}

#[test]
fn february_and_weekdays_are_right() {
    use crate::dates::Date;
    assert_eq!([2019, 2024, 1900, 2000].map(|year| days_in_month(year, 2)), [28, 29, 28, 29]);
    assert_eq!(Date { year: 2024, month: 3, day: 12 }.weekday(), "Tuesday");
    assert_eq!(Date { year: 2023, month: 1, day: 1 }.weekday(), "Sunday");
}

#[test]
fn articles_fit_the_word() {
    use crate::text::with_article;
    let words = ["nurse", "editor", "university", "80-year-old baker", "18-year-old actor", "11-year-old"];
    let expected = ["a nurse", "an editor", "a university", "an 80-year-old baker", "an 18-year-old actor"];
    assert_eq!(words.map(with_article)[..5], expected);
    assert_eq!(with_article(words[5]), "an 11-year-old");
}

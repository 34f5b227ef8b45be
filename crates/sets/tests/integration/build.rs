//! Building: runs in files give the bytes of a sort in memory, and reports and errors name the lines that are no items.

use std::sync::Arc;

use crate::common::{Kind, build, ids, random_items, rng};
use unskew_core::{TokenId, Vocabulary};
use unskew_sets::{ItemSet, SetBuilder, SetError, SetLimits};

#[test]
fn runs_in_files_give_the_same_set() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, vocab_len) in (0..).zip([3, 300, 70_000]) {
        let kind =
            Kind { vocab_len, items: 3000, longest: 12, distinct: vocab_len.min(50), with_empty: true };
        let items = random_items(kind, &mut rng(seed));
        let (expected, naive) = build(&items, vocab_len);
        // From one run to more than one merge takes.
        for memory in [1, 300, 5_000, 100_000] {
            let mut builder = SetBuilder::new(vocab_len as usize)
                .limits(SetLimits { memory, ..SetLimits::default() })
                .temporary(folder.path());
            items.iter().for_each(|item| builder.push(&ids(item)).unwrap());
            let path = folder.path().join("built");
            let (set, report) = builder.build_to(&path).unwrap();
            assert!(report.spilled > 0, "{memory}");
            assert_eq!(report.items, naive.len() as u64);
            assert_eq!(report.duplicates, (items.len() - naive.len()) as u64);
            assert!(set.as_bytes() == expected.as_bytes(), "{memory}");
            assert!(std::fs::read(&path).unwrap() == expected.as_bytes());
        }
    }
    // The set is the only file that stays.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn letters() -> (Arc<Vocabulary>, impl Fn(&str) -> Result<Vec<TokenId>, String> + Sync) {
    let mut builder = Vocabulary::builder();
    for letter in 'a'..='z' {
        builder.text(&[letter as u8]);
    }
    let encode = |line: &str| {
        let id = |letter: char| match letter {
            'a'..='z' => Ok(TokenId(letter as u32 - 'a' as u32)),
            // A tokenizer that writes other tokens.
            'A'..='Z' => Ok(TokenId(letter as u32 - 'A' as u32)),
            _ => Err(format!("no token for {letter:?}")),
        };
        line.chars().map(id).collect()
    };
    (Arc::new(builder.build().unwrap()), encode)
}

#[test]
fn what_is_dropped_is_named() {
    let (vocabulary, encode) = letters();
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary));
    let text = "ada\n\nalan\r\nada\ngrace\r\n\r\nalan\nlast";
    let mut steps = Vec::new();
    builder.push_lines(text.as_bytes(), &encode, |lines, bytes| steps.push((lines, bytes))).unwrap();
    assert_eq!(steps, [(8, text.len() as u64)]);
    let (set, report) = builder.build().unwrap();
    let texts: Vec<String> =
        set.items().map(|item| String::from_utf8(vocabulary.decode(&item)).unwrap()).collect();
    assert_eq!(texts, ["ada", "alan", "grace", "last"]);
    assert_eq!((report.items, report.duplicates, report.blank), (4, 2, 2));
    assert_eq!(report.blank_lines, [2, 6]);
    assert_eq!(report.duplicate_lines, [(4, 1), (7, 3)]);
}

#[test]
fn what_cannot_be_taken_names_its_line() {
    let push = |text: &[u8], limits: SetLimits| {
        let (vocabulary, encode) = letters();
        let mut builder = SetBuilder::for_vocabulary(vocabulary).limits(limits);
        builder.push_lines(text, &encode, |_, _| ()).unwrap_err()
    };
    let limits = SetLimits::default;
    let small = SetLimits { line_bytes: 5, ..limits() };
    for (error, message) in [
        (push(b"a\nb c\n", limits()), "line 2 \"b c\": no token for ' '"),
        (
            push(b"ok\nNo\n", limits()),
            "line 2 \"No\" cannot be written by the tokenizer: its tokens spell \"no\"; leave the line out or write it so",
        ),
        (push(b"a\nb\xffc\n", limits()), "line 2 is not UTF-8: its byte 1 begins no character"),
        // The error names the first fault.
        (
            push(b"a\nB\nb\xffc\n", limits()),
            "line 2 \"B\" cannot be written by the tokenizer: its tokens spell \"b\"; leave the line out or write it so",
        ),
        (push(b"abcde\nabcdef\n", small.clone()), "line 2 has more than 5 bytes (SetLimits::line_bytes)"),
        (push(b"abcde\r\nabcdef", small), "line 2 has more than 5 bytes (SetLimits::line_bytes)"),
        (
            push(b"abc\n", SetLimits { item_tokens: 2, ..limits() }),
            "item 1 has 3 tokens; at most 2 are allowed (SetLimits::item_tokens)",
        ),
    ] {
        assert_eq!(error.to_string(), message);
    }
    let error = push(b"a\n!\n", limits());
    assert!(matches!(error, SetError::Encode { line: 2, .. }));
}

#[test]
fn lines_may_stand_behind_a_prefix() {
    let (vocabulary, encode) = letters();
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary)).prefix("lady");
    builder.push_lines(&b"ada\n\ngrace"[..], &encode, |_, _| ()).unwrap();
    let (set, _) = builder.build().unwrap();
    let texts: Vec<_> = set.items().map(|item| vocabulary.decode(&item)).collect();
    assert_eq!(texts, [b"ladyada".to_vec(), b"ladygrace".to_vec()]);
}

#[test]
fn many_lines_keep_their_numbers() {
    let (vocabulary, encode) = letters();
    let mut text = String::new();
    for number in 0..30_000 {
        let letter = |at: u32| char::from(b'a' + (number / 26u32.pow(at) % 26) as u8);
        text.extend([letter(0), letter(1), letter(2), letter(3), '\n']);
    }
    let mut builder = SetBuilder::for_vocabulary(Arc::clone(&vocabulary));
    let mut steps = 0;
    builder.push_lines(text.as_bytes(), &encode, |_, _| steps += 1).unwrap();
    assert!(steps > 3);
    assert_eq!(builder.build().unwrap().0.len(), 30_000);
    let mut builder = SetBuilder::for_vocabulary(vocabulary);
    let error = builder.push_lines(format!("{text}X y\n").as_bytes(), &encode, |_, _| ()).unwrap_err();
    assert!(matches!(error, SetError::Encode { line: 30_001, .. }));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = SetBuilder::new(3).build_to(folder.path().join("no/such/folder")).unwrap_err();
    assert!(matches!(error, SetError::Write(_)));
    let set: ItemSet = SetBuilder::new(3).build().unwrap().0;
    assert!(set.is_empty() && set.items().next().is_none());
}

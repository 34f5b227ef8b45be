//! Nested lists with adjacent elements, so that a token has many readings. The masks with a library, where
//! adjacent elements are one automaton and lists are cached without their context, are compared with the
//! masks of a walk over the vocabulary.

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{GrammarConstraint, GrammarState, TreeLibrary, Tuning};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

const LETTERS: &[u8] = b"abc()";

/// The greatest number of masks that are compared for a grammar, and the greatest length of their texts in letters.
const MOST_MASKS: usize = 60;
const MOST_LETTERS: usize = 7;

const GRAMMARS: [&str; 9] = [
    "start: C (C+ A*)*\nA: /aa?/\nC: /b[bc]*/\n",
    "start: (x | B)*\nx: \"c\" A+\nA: /aa?/\nB: /ab+/\n",
    "start: (x | B)*\nx: A+\nA: /a[ab]?/\nB: /b[bc]*/\n",
    "start: \"c\" (x | B)* \"(\"\nx: \"(\" (x | A)* \")\" | \"c\" A+\nA: /aa?/\nB: /ab+/\n",
    "start: line+\nline: item* [\"(\" A] \")\"\nitem: atom [Q]\natom: A | B | \"(\" item* \")\"\nA: /a[ab]*/\nB: /b[bc]*/\nQ: /[(c]/\n",
    "start: line+\nline: item*\nitem: atom [Q]\natom: A | B | \"(\" item* \")\"\nA: /a[ab]*/\nB: /b[bc]*/\nQ: /[)c]/\n",
    "start: line+\nline: (A | w)* \"c\"\nw: B+ | \"(\" (A | w)* \")\"\nA: /aa?/\nB: /ab?/\n",
    "start: outer*\nouter: inner+ | B\ninner: \"c\"? A+ | \"(\" outer* \")\"\nA: /a[bc]?/\nB: /b?[ac]/\n",
    "start: p\np: (p2 | \"(\" p)*\np2: q B?\nq: A+ C | C A*\nA: /a+b?/\nB: /b+a?/\nC: /(ab|ba)c?/\n",
];

struct Setting {
    trie: Arc<TokenTrie>,
    /// One keeps all nodes and fragments, the other only large ones.
    libraries: [Arc<TreeLibrary>; 3],
}

/// All texts of up to three letters, and longer ones over the first three letters.
fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| {
        let mut texts = vec![Vec::new()];
        let mut first = 0;
        for length in 1..=6 {
            let letters = if length <= 3 { LETTERS } else { &LETTERS[..3] };
            let last = texts.len();
            for index in first..last {
                let text = texts[index].clone();
                texts.extend(letters.iter().map(|letter| [&text[..], &[*letter]].concat()));
            }
            first = last;
        }
        let mut builder = Vocabulary::builder();
        for text in texts.iter().skip(1).chain([b"caaaaab".to_vec(), b"(caaaaab)".to_vec()].iter()) {
            builder.text(text);
        }
        let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
        let libraries = [Tuning::with_all_fragments(), Tuning::default(), Tuning::tight()]
            .map(|tuning| Arc::new(TreeLibrary::with_tuning(Arc::clone(&trie), 64 << 20, tuning)));
        Setting { trie, libraries }
    })
}

/// Compares the masks after prefixes of the grammar's texts.
fn check(grammar: &str) -> Result<(), String> {
    let Setting { trie, libraries } = setting();
    let limits = GrammarLimits::default();
    // A grammar without any text is detected when it is compiled.
    let Ok(parsed) = from_lark(grammar, &GrammarOptions::default(), &limits) else { return Ok(()) };
    let compiled = GrammarConstraint::new(&parsed, Arc::clone(trie), &limits);
    let Ok(plain) = compiled else { return Ok(()) };
    let mut scratch = plain.scratch();
    let mut masks = [TokenMask::new(trie.vocab_len()), TokenMask::new(trie.vocab_len())];
    for library in libraries {
        let with = GrammarConstraint::with_library(&parsed, library, &limits).unwrap();
        let mut scratch_with = with.scratch();
        // Breadth first, so that different nestings are visited before long texts.
        let mut states: Vec<(Vec<u8>, [GrammarState; 2])> = vec![(Vec::new(), [plain.start(), with.start()])];
        let mut at = 0;
        while let Some((text, states_here)) = states.get(at).cloned() {
            at += 1;
            plain.fill_mask(&mut scratch, &states_here[0], masks[0].as_mut());
            with.fill_mask(&mut scratch_with, &states_here[1], masks[1].as_mut());
            let differs = |id: &TokenId| masks[0].contains(*id) != masks[1].contains(*id);
            let differ = (0..trie.vocab_len()).map(TokenId::from_index).filter(differs);
            let differ =
                differ.map(|id| trie.vocabulary().text(id).unwrap_or_default().escape_ascii().to_string());
            let differ: Vec<String> = differ.collect();
            if !differ.is_empty() {
                return Err(format!("{grammar}behind {}: {differ:?}", text.escape_ascii()));
            }
            for id in
                masks[0].ids().filter(|id| trie.vocabulary().text(*id).is_some_and(|text| text.len() == 1))
            {
                if states.len() == MOST_MASKS || text.len() == MOST_LETTERS {
                    break;
                }
                let mut next = states_here.clone();
                plain.advance(&mut scratch, &mut next[0], id).unwrap();
                with.advance(&mut scratch_with, &mut next[1], id).unwrap();
                states.push(([&text[..], trie.vocabulary().text(id).unwrap()].concat(), next));
            }
        }
    }
    Ok(())
}

#[test]
fn lists_that_touch_are_read_whole() {
    for grammar in GRAMMARS {
        check(grammar).unwrap();
    }
}

/// The body of a rule. Its elements are terminals, the given rules, and any rule in parentheses.
fn body(rules: Vec<&'static str>) -> impl Strategy<Value = String> {
    let element = prop_oneof![
        3 => prop::sample::select(vec!["A", "B", "C"]).prop_map(str::to_owned),
        3 => prop::sample::select([&rules[..], &["A"]].concat()).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["x", "y", "z"]).prop_map(|rule| format!("\"(\" {rule}* \")\"")),
        1 => Just("\"c\"".to_owned()),
    ];
    let repeated = (element, prop::sample::select(vec!["", "*", "+", "?"]));
    let repeated = repeated.prop_map(|(element, how)| format!("({element}){how}"));
    let group = prop::collection::vec(repeated, 1..3);
    let group =
        (group, prop::sample::select(vec![(" ", ""), (" | ", "*"), (" | ", "+"), (" ", "*"), (" | ", "")]));
    let group = group.prop_map(|(elements, (between, how))| format!("({}){how}", elements.join(between)));
    prop::collection::vec(group, 1..3).prop_map(|groups| groups.join(" "))
}

fn pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "aa?",
        "ab?",
        "ab+",
        "a[ab]?",
        "a[ab]*",
        "b[bc]*",
        "b?[ac]",
        "a+b?",
        "b+a?",
        "(ab|ba)c?",
        "a",
        "[ab]c*",
        "(aa|b)+",
        "c?a",
        "a(bc)?",
        "[abc]",
        "(ab)+a?",
    ])
}

const CASES: u32 = if cfg!(debug_assertions) { 200 } else { 20_000 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    #[test]
    fn random_lists_that_touch_are_read_whole(
        bodies in (body(vec!["x", "y"]), body(vec!["y", "z"]), body(vec!["z"]), body(vec![])),
        patterns in (pattern(), pattern(), pattern()),
    ) {
        let (start, x, y, z) = bodies;
        let (a, b, c) = patterns;
        let grammar = format!("start: {start}\nx: {x}\ny: {y}\nz: {z}\nA: /{a}/\nB: /{b}/\nC: /{c}/\n");
        prop_assert_eq!(check(&grammar), Ok(()));
    }
}

//! The work of computing masks, in counts that are the same on every machine. The bounds catch changes that
//! increase it.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_core::{Constraint, TokenMask};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState, GrammarStats, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_vocab::Tokenizer;

use crate::common::{
    JSON,
    vocabularies::{Subject, tiny},
};

fn constraint(lark: &str, subject: &Subject) -> GrammarConstraint {
    let limits = GrammarLimits::default();
    let grammar = from_lark(lark, &GrammarOptions::default(), &limits).unwrap();
    GrammarConstraint::new(&grammar, subject.trie.clone(), &limits).unwrap()
}

/// One sequence, with the cost of each step.
struct Sequence<'a> {
    constraint: &'a GrammarConstraint,
    tokenizer: Tokenizer,
    scratch: GrammarScratch,
    state: GrammarState,
    mask: TokenMask,
}

impl<'a> Sequence<'a> {
    fn new(constraint: &'a GrammarConstraint) -> Self {
        let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
        let mask = TokenMask::new(constraint.vocab_len());
        Self { constraint, tokenizer, scratch: constraint.scratch(), state: constraint.start(), mask }
    }

    /// The cost of the current mask.
    fn mask(&mut self) -> GrammarStats {
        let before = self.scratch.stats();
        self.constraint.fill_mask(&mut self.scratch, &self.state, self.mask.as_mut());
        since(before, self.scratch.stats())
    }

    /// Appends `text`. Returns the greatest cost of a mask on the way, including the one at the end.
    fn read(&mut self, text: &str) -> GrammarStats {
        let mut most = self.mask();
        for token in self.tokenizer.encode(text, false).unwrap() {
            self.constraint.advance(&mut self.scratch, &mut self.state, token).unwrap();
            let cost = self.mask();
            most.reads = most.reads.max(cost.reads);
            most.steps = most.steps.max(cost.steps);
            most.hypotheses = most.hypotheses.max(cost.hypotheses);
            most.walks = most.walks.max(cost.walks);
        }
        most
    }
}

fn since(before: GrammarStats, after: GrammarStats) -> GrammarStats {
    let mut since = after;
    since.made -= before.made;
    since.walks -= before.walks;
    since.reads -= before.reads;
    since.steps -= before.steps;
    since.hypotheses -= before.hypotheses;
    since
}

/// Operator precedence by levels, nested blocks, and names that overlap with keywords.
const CODE: &str = r#"
start: statement+
statement: "if" "(" expression ")" block | "return" expression ";" | NAME "=" expression ";"
block: "{" statement* "}"
expression: sum ("<" sum)*
sum: product (("+" | "-") product)*
product: unary (("*" | "/") unary)*
unary: "-" unary | call
call: NAME | NUMBER | NAME "(" [expression ("," expression)*] ")" | "(" expression ")"
NAME: /[a-z_][a-z0-9_]*/
NUMBER: /[0-9]+/
WS: /[ \n]+/
%ignore WS
"#;

/// Asserts that no count exceeds its bound.
#[track_caller]
fn assert_within(cost: GrammarStats, [walks, reads, steps, readings]: [u64; 4]) {
    let within =
        cost.walks <= walks && cost.reads <= reads && cost.steps <= steps && cost.hypotheses <= readings;
    assert!(within, "{cost:?}");
}

#[test]
fn masks_of_json_take_bounded_work() {
    let subject = tiny();
    let json = constraint(JSON, &subject);
    let mut sequence = Sequence::new(&json);
    for text in ["", "{", "\"name", "\": ", "[1, 2.5", "e3, ", "{\"a\": null", "}", "]}"] {
        assert_within(sequence.read(text), [1, 700, 80, 80]);
    }
}

#[test]
fn a_deeper_level_costs_what_the_one_above_did() {
    let subject = tiny();
    for (grammar, level, most) in [
        (JSON, "[{\"a\": ", [1, 700, 80, 80]),
        // If nearly all tokens are allowed, the walk computes the target of every ASCII symbol: a few hundred
        // reads, which a vocabulary of two thousand tokens does not recover.
        (CODE, "if (a < f(1)) {", [1, 1_800, 250, 400]),
        (CODE, "x = f(a + (", [1, 1_800, 250, 400]),
    ] {
        let constraint = constraint(grammar, &subject);
        let mut sequence = Sequence::new(&constraint);
        sequence.read(level);
        let second = sequence.read(if level.starts_with('x') { "f(a + (" } else { level });
        for _ in 0..40 {
            let deeper = sequence.read(if level.starts_with('x') { "f(a + (" } else { level });
            assert_within(deeper, [1, second.reads, second.steps, second.hypotheses]);
        }
        assert_within(second, most);
    }
}

#[test]
fn what_was_seen_before_takes_no_walk() {
    let subject = tiny();
    for (grammar, begin, again) in [
        (JSON, "[", "{\"a\": [1, true]}, "),
        (CODE, "", "if (a < f(1)) { x = -b * (c + 2); }\n"),
        // Left and right recursion.
        ("start: list\nlist: list \",\" NAME | NAME\nNAME: /[a-z]+/", "a", ",abc"),
        ("start: NAME (\",\" start)?\nNAME: /[a-z]+/", "a", ",abc"),
    ] {
        let constraint = constraint(grammar, &subject);
        let mut sequence = Sequence::new(&constraint);
        sequence.read(begin);
        sequence.read(again);
        sequence.read(again);
        for _ in 0..20 {
            assert_within(sequence.read(again), [0, 0, 0, 0]);
        }
    }
}

/// Adjacent names, a number before a full stop, and comments before a division: the end of one terminal
/// depends on the cut.
const FLOWING: &str = r#"
start: (declaration ";")+
declaration: "struct" NAME NAME ("=" quotient)?
quotient: operand ("/" operand)*
operand: NAME+ | NUMBER ["." NAME]
NAME: /[a-z_][a-z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
WS: /[ \n]+/
COMMENT: /\/\/[^\n]*\n/
%ignore WS
%ignore COMMENT
"#;

#[test]
fn terminals_that_flow_into_each_other_are_read_without_places() {
    let subject = tiny();
    let library = TreeLibrary::new(subject.trie.clone(), 64 << 20);
    let limits = GrammarLimits::default();
    let grammar = from_lark(FLOWING, &GrammarOptions::default(), &limits).unwrap();
    let constraint = GrammarConstraint::with_library(&grammar, &Arc::new(library), &limits).unwrap();
    let mut sequence = Sequence::new(&constraint);
    for text in ["struct", " node", " next", " = 4.2 / ", "1.a // b", "\n / a b_1c ", ";\n", "struct"] {
        assert_within(sequence.read(text), [0, 0, 40, 40]);
    }
}

/// Without a border, `xinyinz` is `x in y in z`: a name overlaps each keyword, which overlaps the next name. Such a
/// mask is one of a walk, and no node or automaton is made for it first.
#[test]
fn a_mask_that_a_walk_makes_takes_no_nodes() {
    let subject = tiny();
    let library = Arc::new(TreeLibrary::new(subject.trie.clone(), 64 << 20));
    let limits = GrammarLimits::default();
    let grammar = "start: NAME ((\"in\" | \"if\" | \"or\") NAME)*\nNAME: /[a-z]+/";
    let grammar = from_lark(grammar, &GrammarOptions::default(), &limits).unwrap();
    let constraint = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
    let mut sequence = Sequence::new(&constraint);
    let made = library.stats().misses;
    for text in ["", "x"] {
        assert_eq!(sequence.read(text).walks, 1, "{text}");
    }
    assert!(library.stats().misses - made <= 1, "{:?}", library.stats());
}

#[test]
fn ten_times_the_rules_take_at_most_twelve_times_the_work() {
    let subject = tiny();
    let grammar = |rules: usize| {
        let mut text = "start: item+\nNAME: /[a-z]+/\n".to_owned();
        let items: Vec<String> = (0..rules).map(|rule| format!("item{rule}")).collect();
        text += &format!("item: {}\n", items.join(" | "));
        for rule in 0..rules {
            let next = (rule * 7 + 1) % rules;
            text += &format!("item{rule}: \"key{rule}\" \"(\" [item{next} (\",\" NAME)*] \")\" \";\"\n");
        }
        text
    };
    let cost = |rules: usize| Sequence::new(&constraint(&grammar(rules), &subject)).mask();
    let (few, many) = (cost(50), cost(500));
    assert!(few.steps > 0);
    assert_within(many, [1, 12 * few.reads, 12 * few.steps, 12 * few.hypotheses]);
}

/// At most `most` distinct texts of `pattern`, each followed by `behind`.
fn unique(pattern: &str, behind: &str, most: u32, subject: &Subject) -> GrammarConstraint {
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let dfa = Arc::new(Dfa::from_pattern(pattern, &limits.regex).unwrap());
    let item = builder.distinct("item", &dfa, [""; 0], Some(most)).unwrap();
    let behind = builder.literal(behind);
    let item = builder.sequence([item, behind]);
    let body = builder.repeat(item, 0, Some(most));
    let list = builder.rule("list");
    builder.define(list, body);
    builder.scope(list);
    let grammar = builder.build(list).unwrap();
    let library = TreeLibrary::new(subject.trie.clone(), 64 << 20);
    GrammarConstraint::with_library(&grammar, &Arc::new(library), &limits).unwrap()
}

/// The thousandth text costs the same as the tenth: a mask inspects the used texts that its tokens reach, and
/// not all of them.
#[test]
fn texts_that_were_used_cost_no_more_as_they_become_many() {
    const STRING: &str = "\"[^\"\\x00-\\x1f]*\"";
    let subject = tiny();
    let all = |count: usize, text: &str| -> Vec<String> {
        (0..count).map(|index| format!("\"{text}{index:04}\"")).collect()
    };
    let long = "the same beginning of all names, ".repeat(3);
    let enumerated = all(1_000, "value ").join("|");
    let digits: Vec<String> = (0..1_000).map(|index| index.to_string()).collect();
    for (name, pattern, behind, texts, most) in [
        ("names", STRING, ":0,", all(6_000, "key_"), [20, 80]),
        ("names with a common beginning", STRING, ":0,", all(500, &long), [20, 80]),
        ("strings", STRING, ",", all(3_000, "item "), [20, 80]),
        ("enumerated strings", &enumerated, ",", all(1_000, "value "), [200, 400]),
        ("integers", "0|[1-9][0-9]*", ",", digits.clone(), [300, 400]),
        ("enumerated integers", &digits.join("|"), ",", digits, [6_000, 6_000]),
    ] {
        let constraint = unique(pattern, behind, u32::try_from(texts.len()).unwrap(), &subject);
        let mut sequence = Sequence::new(&constraint);
        let (mut looks, mut steps) = (0, 0);
        for text in &texts {
            for token in sequence.tokenizer.encode(&format!("{text}{behind}"), false).unwrap() {
                let before = sequence.scratch.stats();
                sequence.mask();
                constraint.advance(&mut sequence.scratch, &mut sequence.state, token).unwrap();
                let after = sequence.scratch.stats();
                looks = looks.max(after.used_texts - before.used_texts);
                steps = steps.max(after.steps - before.steps);
            }
        }
        assert!(looks <= most[0] && steps <= most[1], "{name}: {looks} looks and {steps} steps at a token");
    }
}

/// Names and keywords with nothing between them, as in the grammar of GraphQL's schemas: a token has readings without
/// number. A mask without its paths was built after thousands of nodes, in half a second.
const NAMES: &str = r#"
start: definition+
definition: TEXT? ("type" | "input" | "enum" | "interface" | "union" | "scalar" | "extend") name directive* (fields | values)?
values: "{" (TEXT? name directive*)+ "}"
fields: "{" (TEXT? name arguments? ":" type directive*)+ "}"
arguments: "(" (name ":" type)+ ")"
directive: "@" name ("(" (name ":" value)+ ")")?
type: name "!"? | "[" type "]" "!"?
value: name | TEXT | NUMBER | "[" value* "]" | "{" (name ":" value)* "}" | "true" | "false" | "null"
name: /[_A-Za-z][_0-9A-Za-z]*/ | "type" | "input" | "enum" | "interface" | "union" | "scalar" | "on"
TEXT: /"[^"\n]*"/
NUMBER: /-?(0|[1-9][0-9]*)/
%ignore /[\s,]+/
%ignore /#[^\n]*/
"#;

#[test]
fn names_beside_keywords_take_little_work() {
    let subject = tiny();
    let limits = GrammarLimits::default();
    let grammar = from_lark(NAMES, &GrammarOptions::default(), &limits).unwrap();
    let library = Arc::new(TreeLibrary::new(Arc::clone(&subject.trie), 64 << 20));
    let shared = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
    let alone = GrammarConstraint::new(&grammar, Arc::clone(&subject.trie), &limits).unwrap();
    let text = "\"An owner.\"\ninterface Owner {\n  id: ID!\n  \"All\"\n  projects(first: Int, after: String): [Project!]!\n}\n\
                enum State { OPEN CLOSED }\ntype Project @key(fields: \"id\") {\n  state: State\n}\n";
    let [mut with, mut without] = [&shared, &alone].map(Sequence::new);
    let tokens = with.tokenizer.encode(text, false).unwrap();
    let mut most = GrammarStats::default();
    for token in &tokens {
        let before = library.stats().misses;
        with.mask();
        let built = library.stats().misses - before;
        let cost = without.mask();
        assert_eq!(with.mask, without.mask);
        assert!(built < 400, "{built} entries of the library for a mask");
        most.reads = most.reads.max(cost.reads);
        most.steps = most.steps.max(cost.steps);
        for sequence in [&mut with, &mut without] {
            sequence.constraint.advance(&mut sequence.scratch, &mut sequence.state, *token).unwrap();
        }
    }
    assert!(most.reads < 2_000 && most.steps < 500, "{most:?}");
}

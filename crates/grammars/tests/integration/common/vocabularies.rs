//! Vocabularies for the tests: a toy one with tokens that cross the boundaries of terminals, the embedded
//! one, and those under `UNSKEW_DATA`.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::{path::Path, sync::Arc};

use unskew_core::Vocabulary;
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

/// A vocabulary with its trie.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) trie: Arc<TokenTrie>,
}

impl Subject {
    fn new(name: &str, vocabulary: impl Into<Arc<Vocabulary>>) -> Self {
        let trie = Arc::new(TokenTrie::new(vocabulary).unwrap());
        Self { name: name.to_owned(), trie }
    }
}

/// Texts that end one terminal and begin the next, in the grammars of the corpus.
const BRIDGES: &[&str] = &[
    "\",",
    "\"},",
    "\": ",
    "\": \"",
    "\", \"",
    "{\"",
    "\"}",
    "\"]",
    "[\"",
    "],",
    "]}",
    "}}",
    "[]",
    "{}",
    "[[",
    "]]",
    "},{",
    "},\n",
    "()",
    "((",
    "))",
    "(a",
    ")b",
    "(1",
    "1)",
    "+1",
    "*(",
    ")*",
    "1+",
    "a,a",
    "aa",
    "aaa",
    "ab",
    "ba",
    "abb",
    "bb",
    "aab",
    "bc",
    "cc",
    "list",
    "listen",
    "listened",
    "ed l",
    "=l",
    "int",
    "intx",
    "x;",
    "ist",
    "en",
    "els",
    " else ",
    "if x",
    "if if",
    "<<",
    "<=",
    "<<=",
    "==",
    "===",
    "=>=",
    "10",
    "00",
    "123",
    "0.",
    "1..",
    "..2",
    ".a",
    "--",
    "-not",
    "no",
    "</",
    "</a>",
    "><",
    "<a",
    "a/>",
    "=\"",
    "\" id",
    "&lt",
    "<item></item>",
    "SELECT * ",
    " FROM t",
    ", COUNT(*)",
    "'x' ",
    " = ",
    "AND ",
    "int main() { ",
    "return 0; }\n",
    "日本",
    "é日",
    "😀",
    "\u{e9}\u{e0}",
    "λx.",
    "``",
    "`b` ",
    "  ",
    " , ",
    "\n\t",
    "\\\"",
];

/// All bytes, the bridges, parts of characters, a repeated text, a text without bytes, the control tokens and
/// a token that ends the sequence.
pub(crate) fn toy(controls: &[String]) -> Subject {
    let mut builder = Vocabulary::builder();
    builder.text(b"");
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    for text in BRIDGES {
        builder.text(text.as_bytes());
    }
    for text in [&b"\xe6\x97"[..], b"\xa5\xe6", b"\x9f\x98\x80\xf0", b"\"\xc3", b"a", b"\",", b"\xff\xfe"] {
        builder.text(text);
    }
    builder.unused();
    for name in controls {
        builder.control(name);
    }
    builder.control("<|unused|>");
    // A text token may spell the name of a control token.
    builder.text(b"<|call|>");
    let end = builder.control("<|endoftext|>");
    builder.end_of_sequence(end);
    Subject::new("toy", builder.build().unwrap())
}

/// The vocabulary of the embedded model.
pub(crate) fn tiny() -> Subject {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    Subject::new("tiny", Arc::clone(tokenizer.vocabulary()))
}

/// The vocabularies in `names` that exist under `UNSKEW_DATA`. Without the variable, none, and a note is printed.
pub(crate) fn real(names: &[&str]) -> Vec<Subject> {
    let Some(data) = std::env::var_os("UNSKEW_DATA") else {
        println!("skipped: UNSKEW_DATA is not set to a folder with tokenizers/*/tokenizer.json");
        return Vec::new();
    };
    let file = |name: &str| Path::new(&data).join("tokenizers").join(name).join("tokenizer.json");
    let known = names.iter().filter(|name| file(name).is_file());
    known
        .map(|name| Subject::new(name, Arc::clone(Tokenizer::from_file(file(name)).unwrap().vocabulary())))
        .collect()
}

//! Tokens, specs and compilers of C that the tests of this crate share.

#![allow(dead_code, reason = "each test uses its own part")]

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rand_core::Rng;
use unskew_core::{TokenId, TokenKind, Vocabulary};
use unskew_engine::{Compiler, Matcher, TokenSpace};
use unskew_vocab::Tokenizer;

/// The `tokenizer.json` of the embedded model.
pub(crate) const TOKENIZER: &str = unskew_tiny_model::TOKENIZER_JSON;

/// The tokens of the embedded model.
pub(crate) fn tiny() -> TokenSpace {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER.as_bytes()).unwrap();
    TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap()
}

/// A constraint as JSON, and the same for `llg_new_matcher`, if it has such a kind: both on one line.
pub(crate) struct Case {
    pub(crate) spec: String,
    pub(crate) llg: Option<(&'static str, String)>,
}

/// One of each kind that needs no file.
pub(crate) fn cases() -> Vec<Case> {
    let schemas = [
        r#"{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":10,"maximum":99}},"required":["name","age"],"additionalProperties":false}"#,
        r#"{"type":"array","items":{"enum":["red","green",1.5,null]},"minItems":1,"maxItems":3}"#,
        r#"{"anyOf":[{"type":"boolean"},{"type":"string","pattern":"^[a-c]+$"}]}"#,
        "{}",
    ];
    let regexes = ["[A-Z][a-z]+ (is|was) [0-9]{1,3}", "(ab|a)*c?", ".{0,5}end"];
    let larks = [
        r#"start: "(" start* ")" | WORD  WORD: /[a-z]+/"#.replace("  ", "\\n"),
        r#"start: "ab" start? "a""#.to_owned(),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for schema in schemas {
        let spec = format!(r#"{{"json_schema":{schema}}}"#);
        cases.push(Case { spec: spec.clone(), llg: Some(("json_schema", schema.to_owned())) });
        cases.push(Case { spec, llg: Some(("lark", format!("%llguidance {{}}\\nstart: %json {schema}"))) });
    }
    for regex in regexes {
        cases
            .push(Case { spec: format!(r#"{{"regex":"{regex}"}}"#), llg: Some(("regex", regex.to_owned())) });
    }
    for lark in larks {
        let text = lark.replace('"', "\\\"");
        cases.push(Case {
            spec: format!(r#"{{"grammar":"{text}","grammar_format":"lark"}}"#),
            llg: Some(("lark", lark)),
        });
    }
    let rest = [
        r#"{"choices":["yes","no","yesterday"]}"#,
        r#"{"grammar":"root ::= \"(\" root* \")\" | [a-c]+","grammar_format":"gbnf"}"#,
        r#"{"regex":"[a-z]+","canonical":true}"#,
        r#"{"structural_tag":{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"begin":"<f>","content":{"type":"regex","pattern":"[0-9]+"},"end":"</f>"}]}}}"#,
    ];
    cases.extend(rest.map(|spec| Case { spec: spec.to_owned(), llg: None }));
    cases
}

/// `\n` in a script of C is a line break for the engine.
pub(crate) fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// A random choice.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

/// The mask as the engine itself makes it.
pub(crate) fn mask(matcher: &Matcher) -> Vec<u32> {
    let mut row = vec![0; matcher.mask_words()];
    matcher.fill(&mut row).unwrap();
    row
}

/// The ids of a mask.
pub(crate) fn ids(words: &[u32]) -> Vec<u32> {
    let bits = words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 32 + bit));
    bits.map(|id| u32::try_from(id).unwrap()).collect()
}

pub(crate) fn hex(words: &[u32]) -> String {
    words.iter().fold(String::new(), |mut text, word| {
        write!(text, "{word:08x}").unwrap();
        text
    })
}

pub(crate) fn compiler() -> Compiler {
    Compiler::new(Arc::new(tiny()))
}

/// The tokens as llama.cpp hands them over: lengths, and bytes with 0xFF in front of the names of control tokens.
pub(crate) fn table(vocabulary: &Vocabulary) -> (Vec<u32>, Vec<u8>) {
    let (mut lens, mut bytes) = (Vec::new(), Vec::new());
    for id in (0..vocabulary.len()).map(TokenId::from_index) {
        let before = bytes.len();
        match vocabulary.kind(id) {
            TokenKind::Text => bytes.extend_from_slice(vocabulary.text(id).unwrap()),
            TokenKind::Control => {
                bytes.push(0xFF);
                bytes.extend_from_slice(vocabulary.name(id).as_bytes());
            }
            TokenKind::Unused => {}
        }
        lens.push(u32::try_from(bytes.len() - before).unwrap());
    }
    (lens, bytes)
}

/// That table as a file: how many, the end, the lengths, the bytes; numbers as this machine has them.
pub(crate) fn table_file(vocabulary: &Vocabulary, folder: &Path) -> PathBuf {
    let (lens, bytes) = table(vocabulary);
    let end = vocabulary.end_of_sequence()[0].0;
    let mut file = Vec::new();
    for number in [u32::try_from(lens.len()).unwrap(), end].iter().chain(&lens) {
        file.extend_from_slice(&number.to_ne_bytes());
    }
    file.extend_from_slice(&bytes);
    let path = folder.join("tokens.bin");
    std::fs::write(&path, file).unwrap();
    path
}

/// The folder of this crate.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that cargo built for this test, with this ending of its name.
pub(crate) fn library(ending: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let name = format!("libunskew_capi.{ending}");
    let found = [deps.join(&name), deps.with_file_name(&name)].into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is neither in {} nor beside it", deps.display()))
}

/// Runs a compiler of C or C++ and fails as it fails.
pub(crate) fn compile(compiler: &str, arguments: &[&std::ffi::OsStr]) {
    let name = std::env::var(compiler.to_uppercase().replace("C++", "CXX")).unwrap_or(compiler.to_owned());
    let done = Command::new(&name).args(arguments).output();
    let done = done.unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The output of a program that has to succeed.
pub(crate) fn succeeds(done: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}: {}{}", done.status, text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

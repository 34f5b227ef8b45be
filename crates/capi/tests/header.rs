//! The headers agree with the sources. `UNSKEW_WRITE_HEADERS=1 cargo test -p unskew-capi --test header` writes them.

mod common;

use cbindgen::{Builder, Config, Language, RenameRule};

fn generated(source: &str, before: &str, include: &[&str], more: &[&str]) -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        usize_is_size_t: true,
        documentation: true,
        pragma_once: true,
        header: Some(before.to_owned()),
        line_length: 110,
        ..Config::default()
    };
    config.enumeration.rename_variants = RenameRule::QualifiedScreamingSnakeCase;
    config.export.include = include.iter().map(|name| (*name).to_owned()).collect();
    let mut builder = Builder::new().with_config(config).with_src(common::here().join(source));
    for source in more {
        builder = builder.with_src(common::here().join(source));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // A line of a comment ends with nothing.
    let text = String::from_utf8(text).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn check(name: &str, text: &str) {
    let path = common::here().join("include").join(name);
    if std::env::var_os("UNSKEW_WRITE_HEADERS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stands == text, "{name} is not what the sources say: see the first line of this test");
}

#[test]
fn unskew() {
    let before = "/* The C API of unskew: exact token masks. Made from crates/capi/src/api.rs: change that file.\n *\n * \
                  Handles are numbers that are looked up: one that was freed, or is of another kind, is an error.\n * \
                  Functions that answer with a number answer with a negative UnskewStatus on an error, and the text is that of\n * \
                  unskew_error(). Any function may be called from any thread. */";
    check("unskew.h", &generated("src/api.rs", before, &["UnskewStatus"], &["src/error.rs"]));
}

#[test]
fn llguidance() {
    let before = "/* The functions that llama.cpp calls of llguidance, as unskew has them. Made from crates/capi/src/llg.rs: change that \
                  file. */";
    check("llguidance.h", &generated("src/llg.rs", before, &[], &[]));
}

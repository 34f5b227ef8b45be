//! The memory that a compiler counts, beside the memory that it got from the allocator.

#[path = "integration/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{Random, ids, tiny};
use peak_alloc::PeakAlloc;
use unskew_engine::{Compiler, Spec, TokenSpace};
use unskew_notation::GrammarFormat;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Compiles and uses `count` specs; answers with the memory by the allocator and by the compiler.
fn kept(space: &Arc<TokenSpace>, count: usize, spec: impl Fn(usize) -> Spec) -> (usize, usize) {
    let compiler = Compiler::new(Arc::clone(space));
    // Shared parts are made first.
    compiler.compile(&spec(count)).unwrap().matcher().accept_all(&[]).unwrap();
    let use_one = |spec: &Spec, random: &mut Random| {
        let mut matcher = compiler.compile(spec).unwrap().matcher();
        let mut row = vec![0; matcher.mask_words()];
        for _ in 0..12 {
            matcher.fill(&mut row).unwrap();
            let token = *random.pick(&ids(&row));
            if !matcher.accept(token).unwrap() || matcher.is_terminated() {
                matcher.reset();
            }
        }
    };
    let mut random = Random::new(3);
    use_one(&spec(count), &mut random);
    // An index of canonical sequences belongs to the tokens, and grows too.
    let counted = || {
        let stats = compiler.stats();
        stats.bytes + stats.library_bytes + stats.tokens_bytes
    };
    let before = (ALLOCATOR.current_usage(), counted());
    for n in 0..count {
        use_one(&spec(n), &mut random);
    }
    let after = (ALLOCATOR.current_usage(), counted());
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn what_is_kept_is_counted() {
    let space = tiny();
    let (mut is_exact, mut report) = (true, String::new());
    type Make = Box<dyn Fn(usize) -> Spec>;
    let kinds: Vec<(&str, Make)> = vec![
        ("regex", Box::new(|n| Spec::regex(format!("[a-z]{{3,{}}} (ab|c{n})*", 5 + n % 7)))),
        ("choices", Box::new(|n| Spec::choices((0..50).map(|k| format!("choice {k} of {n}"))))),
        ("canonical", Box::new(|n| Spec::regex(format!("[a-z ]{{3,9}} (ab|c{n})*")).canonical())),
        (
            "grammar",
            Box::new(|n| {
                Spec::grammar(
                    format!("start: \"(\" start* \")\" | NAME | \"x{n}\"\nNAME: /[a-z]+/\n%ignore \" \""),
                    GrammarFormat::Lark,
                )
            }),
        ),
        (
            "schema",
            Box::new(|n| {
                Spec::json_schema(format!(
                    r#"{{"type":"object","properties":{{"a{n}":{{"type":"string","maxLength":{n}}},"b":{{"type":"array","items":{{"type":"integer"}}}}}},"required":["a{n}"]}}"#
                ))
            }),
        ),
        (
            "tag",
            Box::new(|n| {
                Spec::structural_tag(format!(
                    r#"{{"format":{{"type":"triggered_tags","triggers":["<f"],"tags":[{{"begin":"<f{n}>","content":{{"type":"json_schema","json_schema":{{"type":"integer","minimum":{n}}}}},"end":"</f>"}}]}}}}"#
                ))
            }),
        ),
    ];
    for (name, spec) in kinds {
        let (allocated, counted) = kept(&space, 60, spec);
        let ratio = counted as f64 / allocated as f64;
        report += &format!("{name}: {allocated} bytes allocated, {counted} counted, {ratio:.2}\n");
        is_exact &= (0.8..1.2).contains(&ratio);
    }
    assert!(is_exact, "{report}");
}

//! One compilation for each spec, a cache within its limit, deadlines, and files that change.

use std::{
    fs,
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use crate::common::{Random, bytes, ids, spec, specs, tiny};
use unskew_core::{Cancel, Vocabulary};
use unskew_engine::{Compiled, Compiler, CompilerOptions, Error, Matcher, Spec, TokenSpace, Until};
use unskew_notation::GrammarFormat;

/// From so many tokens on a compiler shares trees.
const LIBRARY_TOKENS: usize = 16_384;

/// A pattern that takes seconds.
fn costly(n: usize) -> Spec {
    Spec::json_schema(format!(
        r#"{{"type": "number", "multipleOf": 0.{n:04}7, "minimum": 0, "maximum": 1e4000}}"#
    ))
}

#[test]
fn one_of_many_compiles() {
    let compiler = Compiler::new(bytes());
    let spec = Spec::json_schema(r#"{"type": "string", "format": "idn-email"}"#);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let matcher = compiler.compile(&spec).unwrap().matcher();
                let mut row = vec![0; matcher.mask_words()];
                matcher.fill(&mut row).unwrap();
                assert_eq!(ids(&row), [unskew_core::TokenId(34)]);
            });
        }
    });
    let stats = compiler.stats();
    assert_eq!((stats.misses, stats.hits, stats.entries, stats.compiling), (1, 7, 1, 0), "{stats:?}");
}

#[test]
fn errors_are_shared_and_kept() {
    let compiler = Compiler::new(bytes());
    let wrong = Spec::regex("(");
    let first = compiler.compile(&wrong).unwrap_err();
    let second = compiler.compile(&wrong).unwrap_err();
    assert!(Arc::ptr_eq(&first, &second) && matches!(*first, Error::Constraint(_)), "{first}");
    let none = Spec::set("no such file");
    assert!(matches!(*compiler.compile(&none).unwrap_err(), Error::File { .. }));
    let gpu = Spec::from_json(r#"{"set": "x", "gpu": true}"#).unwrap();
    assert!(matches!(*compiler.compile(&gpu).unwrap_err(), Error::Combination(_)));
    let canonical = Spec::regex("a").canonical();
    assert!(compiler.compile(&canonical).unwrap_err().to_string().contains("canonical"));
    assert_eq!(compiler.stats().entries, 2);
}

#[test]
fn a_long_text_is_refused_before_it_is_read() {
    let compiler = Compiler::new(bytes());
    // 36 MB.
    let wide = |item: &str| format!("[{}]", [item].repeat((36 << 20) / (item.len() + 1)).join(","));
    let schema = format!(r#"{{"enum":{}}}"#, wide("123456789"));
    let error = compiler.compile(&Spec::json_schema(schema.clone())).unwrap_err().to_string();
    assert!(error.contains("SchemaLimits::schema_bytes"), "{error}");
    let tag =
        format!(r#"{{"type":"structural_tag","format":{{"type":"json_schema","json_schema":{schema}}}}}"#);
    let error = compiler.compile(&Spec::structural_tag(tag)).unwrap_err().to_string();
    assert!(error.contains("longer than 8388608"), "{error}");
    // Nothing of them is kept, not even as a key.
    let stats = compiler.stats();
    assert!(stats.entries == 0 && stats.bytes < 1 << 20, "{stats:?}");
    // Within the limits of length, reading ends at the deadline: the end of this text is no JSON, and nobody gets
    // there.
    let spec = Spec::json_schema(format!(r#"{{"enum":[{}"#, ["1"].repeat(3 << 20).join(",")));
    let until = Until { deadline: Some(Instant::now() + Duration::from_millis(30)), ..Until::default() };
    assert!(matches!(*compiler.compile_until(&spec, &until).unwrap_err(), Error::Deadline));
}

#[test]
fn compiling_ends_at_its_deadline_and_when_the_client_leaves() {
    let compiler = Compiler::new(bytes());
    let until =
        |time| Until { deadline: Some(Instant::now() + Duration::from_millis(time)), ..Until::default() };
    let begin = Instant::now();
    let late = compiler.compile_until(&costly(1), &until(30)).unwrap_err();
    assert!(matches!(*late, Error::Deadline), "{late}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let past = Until { deadline: Some(begin), ..Until::default() };
    assert!(matches!(*compiler.compile_until(&Spec::regex("a"), &past).unwrap_err(), Error::Deadline));

    // One waits for another that gives up, and for itself.
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let leaves = Until { cancel: cancel.clone(), ..Until::default() };
        let (compiler, spec) = (&compiler, costly(2));
        let first = scope.spawn({
            let spec = spec.clone();
            move || compiler.compile_until(&spec, &leaves)
        });
        std::thread::sleep(Duration::from_millis(20));
        let second = scope.spawn(move || compiler.compile_until(&spec, &until(120)));
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        assert!(matches!(*first.join().unwrap().unwrap_err(), Error::Cancelled));
        assert!(matches!(*second.join().unwrap().unwrap_err(), Error::Deadline));
    });
    // Nothing of that is kept.
    let stats = compiler.stats();
    assert_eq!((stats.entries, stats.compiling), (0, 0), "{stats:?}");
}

#[test]
fn what_is_kept_has_a_limit() {
    let mut options = CompilerOptions::default();
    options.cache_bytes = 200_000;
    let limit = options.cache_bytes;
    let compiler = Compiler::with_options(bytes(), options);
    let spec = |n: usize| Spec::regex(format!("[a-z]{{{n}}}x"));
    let mut kept = compiler.compile(&spec(1)).unwrap().matcher();
    for n in 1..300 {
        let mut matcher = compiler.compile(&spec(n)).unwrap().matcher();
        let mut row = vec![0; matcher.mask_words()];
        for _ in 0..n.min(20) {
            matcher.fill(&mut row).unwrap();
            assert!(matcher.accept(unskew_core::TokenId(97)).unwrap());
        }
        compiler.compile(&spec(1)).unwrap();
    }
    // Counted when something was added last; masks are made since.
    let stats = compiler.stats();
    assert!(stats.bytes < limit + 50_000 && stats.entries > 3 && stats.evicted > 100, "{stats:?}");
    // The constraint in use stays, and that of a matcher works on.
    assert_eq!(stats.misses, 299);
    assert!(kept.accept(unskew_core::TokenId(97)).unwrap());
    compiler.clear();
    assert_eq!((compiler.stats().entries, compiler.stats().bytes), (0, 0));
    // Nothing fits: it still compiles.
    let mut options = CompilerOptions::default();
    options.cache_bytes = 0;
    let compiler = Compiler::with_options(bytes(), options);
    for spec in specs().iter().filter(|spec| !spec.canonical) {
        assert!(compiler.compile(spec).is_ok());
    }
    assert_eq!(compiler.stats().entries, 0);
}

/// Grammars that grow by use.
fn growing(n: usize) -> Spec {
    let text = format!(
        "start: x+\nx: \"a{n}\" y | \"b\" x \"c\" | z\ny: /[a-z]{{1,{}}}/\nz: \"q\" x? \"r\"\n",
        3 + n % 5
    );
    Spec::grammar(text, GrammarFormat::Lark)
}

fn use_it(matcher: &mut Matcher, random: &mut Random) {
    let mut row = vec![0; matcher.mask_words()];
    for _ in 0..40 {
        matcher.fill(&mut row).unwrap();
        if !matcher.accept(*random.pick(&ids(&row))).unwrap() || matcher.is_terminated() {
            matcher.reset();
        }
    }
}

#[test]
fn use_alone_keeps_the_limit() {
    let mut options = CompilerOptions::default();
    options.cache_bytes = 1 << 20;
    let compiler = Compiler::with_options(bytes(), options);
    let mut random = Random::new(5);
    // A sixteenth, and what one constraint grows by after it was found.
    let bound = (1 << 20) / 16 * 17 + 200_000;
    let mut all = 0;
    for n in 0..40 {
        for _ in 0..6 {
            let compiled = compiler.compile(&growing(n)).unwrap();
            use_it(&mut compiled.matcher(), &mut random);
            all = all.max(compiled.memory_usage());
            let stats = compiler.stats();
            assert!(stats.bytes < bound, "{stats:?}");
        }
    }
    assert!(all < 200_000, "{all}");
    // Constraints that are found once and used for long, and then somebody finds another one.
    let mut options = CompilerOptions::default();
    options.cache_bytes = 1 << 20;
    let compiler = Compiler::with_options(bytes(), options);
    let found: Vec<_> = (0..20).map(|n| compiler.compile(&growing(n)).unwrap()).collect();
    let before = compiler.stats();
    for _ in 0..20 {
        found.iter().for_each(|compiled| use_it(&mut compiled.matcher(), &mut random));
    }
    let grown = compiler.stats();
    assert!(before.evicted == 0 && grown.bytes > 1 << 20, "{before:?} {grown:?}");
    compiler.compile(&growing(0)).unwrap();
    let after = compiler.stats();
    assert!(after.evicted > 0 && after.bytes <= 1 << 20, "{after:?}");
    // The rest of an entry is small.
    let held: usize = found.iter().map(Compiled::memory_usage).sum();
    assert!((grown.bytes / 10 * 9..=grown.bytes).contains(&held), "{held} {grown:?}");
}

#[test]
fn fuel_decides_by_the_work_alone() {
    let schema = |text: &str| Spec::json_schema(text.to_owned());
    let mut all = specs();
    all.extend([
        schema(r#"{"type": "string", "format": "email", "pattern": "a"}"#),
        schema(r#"{"type": "object", "properties": {"a": {"type": "string", "format": "idn-hostname"}, "b": {"multipleOf": 0.07}}}"#),
        Spec::regex("(?=.*a).{3,9}"),
        Spec::regex("[a-z]{3}(b|cc)*").canonical(),
        Spec::any_of([Spec::choices(["a", "b"]), Spec::sequence([Spec::regex("c{2,40}"), growing(3)])]),
    ]);
    for space in [bytes(), tiny()] {
        let warm = Compiler::new(Arc::clone(&space));
        for spec in all.iter().filter(|spec| !spec.canonical || space.has_tokenizer()) {
            // What others have made before changes nothing.
            let first = warm.compile(spec).unwrap().fuel();
            let cold = Compiler::new(Arc::clone(&space));
            let with = |compiler: &Compiler, fuel| {
                compiler.compile_until(spec, &Until { fuel: Some(fuel), ..Until::default() })
            };
            assert_eq!(with(&cold, u64::MAX).unwrap().fuel(), first, "{spec}");
            let kept = cold.stats();
            // A kept constraint counts as one that is compiled now.
            for compiler in [&cold, &Compiler::new(Arc::clone(&space))] {
                assert_eq!(with(compiler, first).unwrap().fuel(), first, "{spec}");
                if first > 0 {
                    let error = with(compiler, first - 1).unwrap_err();
                    assert!(matches!(*error, Error::Fuel { limit } if limit == first - 1), "{spec}: {error}");
                }
                assert!(with(compiler, first).is_ok());
            }
            assert_eq!((cold.stats().misses, cold.stats().entries), (kept.misses, kept.entries));
            let short = Compiler::new(Arc::clone(&space));
            for fuel in [0, first / 2].into_iter().filter(|fuel| *fuel < first) {
                assert!(matches!(*with(&short, fuel).unwrap_err(), Error::Fuel { .. }), "{spec}");
            }
            assert_eq!(short.stats().entries, 0);
        }
    }
    // Long work ends by it.
    let (compiler, begin) = (Compiler::new(bytes()), Instant::now());
    let until = Until { fuel: Some(100_000), ..Until::default() };
    let error = compiler.compile_until(&costly(1), &until).unwrap_err();
    assert!(error.to_string().contains("more than 100000 units of fuel"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn files_are_found_by_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.gbnf");
    let compiler = Compiler::new(bytes());
    let first = |compiler: &Compiler, spec: &Spec| {
        let matcher = compiler.compile(spec).unwrap().matcher();
        let mut row = vec![0; matcher.mask_words()];
        matcher.fill(&mut row).unwrap();
        ids(&row)[0].0
    };
    fs::write(&path, "root ::= \"a\"").unwrap();
    let spec = Spec::grammar_file(&path);
    assert_eq!((first(&compiler, &spec), first(&compiler, &spec)), (97, 97));
    fs::write(&path, "root ::= \"b\"").unwrap();
    assert_eq!(first(&compiler, &spec), 98);
    fs::write(&path, "root ::= \"a\"").unwrap();
    assert_eq!(first(&compiler, &spec), 97);
    assert_eq!((compiler.stats().misses, compiler.stats().hits), (2, 2));
    fs::write(&path, "root ::= (").unwrap();
    let error = compiler.compile(&spec).unwrap_err().to_string();
    assert!(error.contains("g.gbnf"), "{error}");

    let items = folder.path().join("items.txt");
    fs::write(&items, "ab\nac\n").unwrap();
    let spec = Spec::set(&items);
    assert_eq!((first(&compiler, &spec), first(&compiler, &spec)), (97, 97));
    fs::write(&items, "bb\nbcd\n").unwrap();
    assert_eq!(first(&compiler, &spec), 98);

    // A registry, as a folder and as it stands.
    let schemas = folder.path().join("schemas");
    fs::create_dir(&schemas).unwrap();
    fs::write(schemas.join("x.json"), r#"{"const": 7}"#).unwrap();
    let of_folder = Spec::from_json(&format!(
        r#"{{"json_schema": {{"$ref": "x.json"}}, "schema_registry": {:?}}}"#,
        schemas.display().to_string()
    ))
    .unwrap();
    assert_eq!(first(&compiler, &of_folder), u32::from(b'7'));
    let misses = compiler.stats().misses;
    let text = r#"{"json_schema":{"$ref": "x.json"},"schema_registry":{"x.json":{"const": 7}}}"#;
    let spec = Spec::from_json(text).unwrap();
    assert_eq!(spec.to_json(), text);
    assert_eq!(first(&compiler, &spec), u32::from(b'7'));
    assert_eq!(compiler.stats().misses, misses, "it is the same constraint");
    fs::write(schemas.join("x.json"), r#"{"const": 8}"#).unwrap();
    assert_eq!(first(&compiler, &of_folder), u32::from(b'8'));
}

/// Samplers take what the compiler keeps.
#[test]
fn a_compiled_constraint_keeps_the_contract_of_constraints() {
    let compiler = Compiler::new(bytes());
    for spec in specs().iter().filter(|spec| !spec.canonical) {
        let compiled = compiler.compile(spec).unwrap();
        unskew_core::conformance::check_constraint(&compiled, 2).unwrap();
    }
}

/// All bytes, words of up to four letters and signs of JSON, and an end.
fn wide(len: usize) -> Arc<TokenSpace> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    let letters: Vec<u8> = b"abcdefgh 123\"{}[]:,\\-.t".to_vec();
    let mut number = 0;
    for index in 256..len - 1 {
        // Every number of two digits or more in that many signs is another word.
        number = if index == 256 { letters.len() } else { number + 1 };
        let (mut rest, mut word) = (number, Vec::new());
        while rest > 0 {
            word.push(letters[rest % letters.len()]);
            rest /= letters.len();
        }
        // A leading digit is never the first letter, so no word comes twice.
        builder.text(&word);
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    Arc::new(TokenSpace::from_vocabulary(builder.build().unwrap()))
}

#[test]
fn walks_and_shared_trees_give_equal_masks() {
    let mut without = CompilerOptions::default();
    without.library_bytes = 0;
    let mut random = Random::new(16);
    for len in [LIBRARY_TOKENS - 1, LIBRARY_TOKENS, 40_000] {
        let space = wide(len);
        let (sharing, walking) =
            (Compiler::new(Arc::clone(&space)), Compiler::with_options(Arc::clone(&space), without.clone()));
        let mut specs: Vec<Spec> = specs().into_iter().filter(|spec| !spec.canonical).collect();
        specs.push(spec(
            r#"{"type":"triggered_tags","triggers":["ab"],"tags":[{"begin":"ab","content":{"type":"json_schema","json_schema":{"type":"object"}},"end":"e"}]}"#,
        ));
        specs.push(spec(
            r#"{"type":"sequence","elements":[{"type":"any_text"},{"type":"exclude_token","exclude_tokens":[300]},{"type":"any_text"}]}"#,
        ));
        for spec in specs {
            let mut matchers =
                [&sharing, &walking].map(|compiler| compiler.compile(&spec).unwrap().matcher());
            for _ in 0..12 {
                let mut rows = [vec![0; sharing.mask_words()], vec![0; sharing.mask_words()]];
                for (matcher, row) in matchers.iter_mut().zip(&mut rows) {
                    matcher.fill(row).unwrap();
                }
                assert!(rows[0] == rows[1], "{len} {spec}");
                let allowed = ids(&rows[0]);
                let token = *random.pick(&allowed);
                for matcher in &mut matchers {
                    assert!(matcher.accept(token).unwrap());
                }
                if matchers[0].is_terminated() {
                    break;
                }
            }
        }
        // The choice is that of the documentation.
        assert_eq!(sharing.stats().library_bytes > 0, len >= LIBRARY_TOKENS, "{len}");
        assert_eq!(walking.stats().library_bytes, 0);
    }
}

//! The rules of a server for the constraints of requests.

use std::{collections::BTreeSet, fs, path::Path};

use crate::common::bytes;
use unskew_core::TokenId;
use unskew_engine::{
    Compiler, RequestRules, Spec, SpecError,
    spec::{LIMITS, SpecLimits},
};

/// Each option that names a file or a folder, with a constraint that has it. `FILE` stands for the path.
const FILES: &[(&str, &str)] = &[
    ("regex_file", r#"{"regex_file": "FILE"}"#),
    ("grammar_file", r#"{"grammar_file": "FILE"}"#),
    ("structural_tag_file", r#"{"structural_tag_file": "FILE"}"#),
    ("json_schema_file", r#"{"json_schema_file": "FILE"}"#),
    ("schema_registry", r#"{"json_schema": true, "schema_registry": "FILE"}"#),
    ("set", r#"{"set": "FILE"}"#),
    ("exclude_set", r#"{"exclude_set": "FILE"}"#),
];

/// Each option with constraints in it, and the place of one there. `PART` stands for the constraint.
const PARTS: &[(&str, &str, &str)] = &[
    (
        "grammars",
        "grammars.a",
        r#"{"grammar": "start: @a", "grammar_format": "lark", "grammars": {"a": PART}}"#,
    ),
    ("any_of", "any_of[1]", r#"{"any_of": [{"regex": "a"}, PART]}"#),
    ("sequence", "sequence[0]", r#"{"sequence": [PART]}"#),
];

/// The constraint by itself, and as a part of others, each with its place.
fn everywhere(spec: &str) -> Vec<(String, String)> {
    let mut all = vec![(String::new(), spec.to_owned())];
    for (_, place, around) in PARTS {
        all.push((format!("{place}."), around.replace("PART", spec)));
        for (_, outer, twice) in PARTS {
            let inner = around.replace("PART", spec);
            all.push((format!("{outer}.{place}."), twice.replace("PART", &inner)));
        }
    }
    all
}

fn refusal(text: &str, rules: &RequestRules) -> String {
    match Spec::of_request(text, rules) {
        Ok(spec) => panic!("{text} passes: {spec:?}"),
        Err(error) => error.to_string(),
    }
}

fn lending(folder: &Path) -> RequestRules {
    RequestRules { files: Some(folder.to_owned()), ..RequestRules::default() }
}

fn accepts(spec: &Spec, text: &str) -> bool {
    let mut matcher = Compiler::new(bytes()).compile(spec).unwrap().matcher();
    let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(u32::from(byte))).collect();
    matcher.accept_all(&tokens).unwrap() == tokens.len() && matcher.is_accepting()
}

#[test]
fn every_option_with_a_path_is_in_the_table() {
    let source = include_str!("../../src/spec/options.rs");
    let body = source.split_once("pub struct SpecOptions {").unwrap().1.split_once("\n}").unwrap().0;
    let fields: Vec<(&str, &str)> =
        body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": ")).collect();
    assert!(fields.len() > 25, "{fields:?}");
    let of = |words: &[&str]| -> BTreeSet<&str> {
        let has = |(_, of): &&(&str, &str)| words.iter().any(|word| of.contains(word));
        fields.iter().filter(has).map(|(name, _)| *name).collect()
    };
    assert_eq!(of(&["Path", "RegistrySource"]), FILES.iter().map(|(name, _)| *name).collect());
    assert_eq!(of(&["Spec"]), PARTS.iter().map(|(name, ..)| *name).collect());
    // A field of another type says so here, that it names no file.
    let others = |of: &str| {
        !["Path", "RegistrySource", "Spec"].iter().any(|word| of.contains(word))
            && ![
                "Option<u32>,",
                "Option<String>,",
                "bool,",
                "Vec<String>,",
                "BTreeMap<String, String>,",
                "BTreeMap<String, u64>,",
            ]
            .contains(&of)
    };
    assert_eq!(fields.iter().filter(|(_, of)| others(of)).count(), 0, "{fields:?}");
}

#[test]
fn a_request_names_no_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.lark"), "start: \"a\"").unwrap();
    for file in ["/etc/passwd", "/dev/urandom", "/proc/self/environ", "/none", "a", "", "~/a", "."] {
        for (option, spec) in FILES {
            for (place, text) in everywhere(&spec.replace("FILE", file)) {
                let message = refusal(&text, &RequestRules::default());
                assert_eq!(
                    message,
                    format!("`{place}{option}` names a file, and this server lends none to requests")
                );
                // Where files are lent, those elsewhere and those that there are not look alike.
                // The folder itself is a folder of schemas.
                if !(*option == "schema_registry" && ["", "."].contains(&file)) {
                    let message = refusal(&text, &lending(folder.path()));
                    assert_eq!(
                        message,
                        format!("`{place}{option}` names nothing in the folder that this server lends")
                    );
                }
            }
        }
    }
    for (place, text) in everywhere(r#"{"set": "a", "gpu": true}"#) {
        assert!(
            refusal(&text, &lending(folder.path())).starts_with(&format!("`{place}gpu` is for programs"))
        );
    }
    // Texts that may refer to files have none here.
    for text in [
        r#"{"grammar": "%import .a.A\nstart: A", "grammar_format": "lark"}"#,
        r#"{"grammar": "{\"grammars\": [{\"lark_grammar\": \"%import .a.A\\nstart: A\"}]}", "grammar_format": "lark"}"#,
    ] {
        let spec = Spec::of_request(text, &lending(folder.path())).unwrap();
        let error = Compiler::new(bytes()).compile(&spec).unwrap_err();
        assert!(error.to_string().contains("`imports`"), "{error}");
    }
    assert!(refusal("[]", &RequestRules::default()).contains("a constraint is an object"));
    assert!(refusal("\"a\"", &RequestRules::default()).contains("a constraint is an object"));
    let gone = refusal(r#"{"set": "a"}"#, &lending(Path::new("/none")));
    assert!(
        gone.starts_with("`set` names a file, and the folder that this server lends is not there"),
        "{gone}"
    );
}

#[test]
fn lent_files_are_parts_of_a_constraint() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("r.txt", "ab\n");
    put("items.txt", "ab\ncd\n");
    put("d/g.lark", "%import .e.more.B\nstart: \"a\" B\n");
    put("d/e/more.lark", "B: \"b\"\n");
    put("g.gbnf", "root ::= \"ab\"\n");
    put("s.json", r#"{"const": 7}"#);
    put("r/d/seven.json", r#"{"const": 7}"#);
    put("t.json", r#"{"type":"structural_tag","format":{"type":"const_string","value":"ab"}}"#);
    let rules = lending(folder.path());
    for (text, wanted) in [
        (r#"{"regex_file": "r.txt"}"#, "ab"),
        (r#"{"regex_file": "./d/../r.txt"}"#, "ab"),
        (r#"{"set": "items.txt"}"#, "cd"),
        (r#"{"grammar_file": "d/g.lark"}"#, "ab"),
        (r#"{"grammar_file": "g.gbnf"}"#, "ab"),
        (r#"{"json_schema_file": "s.json"}"#, "7"),
        (r#"{"json_schema": {"$ref": "d/seven.json"}, "schema_registry": "r"}"#, "7"),
        (r#"{"structural_tag_file": "t.json"}"#, "ab"),
    ] {
        for (_, text) in everywhere(text) {
            let spec = Spec::of_request(&text, &rules).unwrap();
            assert!(accepts(&spec, wanted) || accepts(&spec, &format!("a{wanted}")), "{text}");
        }
    }
    let set = Spec::of_request(r#"{"set": "./d/../items.txt"}"#, &rules).unwrap();
    let found = fs::canonicalize(folder.path().join("items.txt")).unwrap();
    assert_eq!(set, Spec::set(found));
    assert!(!accepts(&Spec::of_request(r#"{"exclude_set": "items.txt"}"#, &rules).unwrap(), "ab"));
    // Faults of a text name it and not the server's folder.
    put("bad.lark", "%import .none.B\nstart: B\n");
    put("bad.bin", "a");
    for (text, part) in [
        (r#"{"grammar_file": "bad.lark"}"#, "`grammar_file` "),
        (r#"{"grammar_file": "bad.bin"}"#, "`grammar_file` names bad.bin: the name must end in"),
    ] {
        let message = refusal(text, &rules);
        assert!(message.contains(part) && !message.contains(folder.path().to_str().unwrap()), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn paths_stay_in_the_folder_after_links() {
    use std::{
        ffi::OsStr,
        os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    };

    let all = tempfile::tempdir().unwrap();
    let (lent, outside) = (all.path().join("lent"), all.path().join("outside"));
    for folder in [&lent, &outside, &lent.join("d"), &lent.join("r"), &all.path().join("lent2")] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(all.path().join("lent2/x"), "secret").unwrap();
    fs::write(outside.join("secret.lark"), "A: \"secret\"\nstart: A").unwrap();
    fs::write(outside.join("secret.json"), r#"{"const": "secret"}"#).unwrap();
    fs::write(lent.join("ok.lark"), "A: \"ok\"\nstart: A").unwrap();
    symlink(outside.join("secret.lark"), lent.join("link.lark")).unwrap();
    symlink("../outside/secret.lark", lent.join("near.lark")).unwrap();
    symlink("link.lark", lent.join("twice.lark")).unwrap();
    symlink(&outside, lent.join("dir")).unwrap();
    symlink("ok.lark", lent.join("good.lark")).unwrap();
    symlink("circle", lent.join("circle")).unwrap();
    symlink("/dev/zero", lent.join("zero")).unwrap();
    symlink("/proc/self/environ", lent.join("environ")).unwrap();
    let _listener = UnixListener::bind(lent.join("socket")).unwrap();
    let pipe = lent.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let rules = lending(&lent);
    let absolute = outside.join("secret.lark");
    for file in [
        "../outside/secret.lark",
        "d/../../outside/secret.lark",
        absolute.to_str().unwrap(),
        "link.lark",
        "near.lark",
        "twice.lark",
        "dir/secret.lark",
        "dir",
        "d",
        "circle",
        "zero",
        "environ",
        "socket",
        "pipe",
        "~/x",
        "ok.lark\\u0000",
        "../lent2/x",
        "none",
    ] {
        for (_, spec) in FILES {
            if spec.contains("schema_registry") && file == "d" {
                continue;
            }
            for (_, text) in everywhere(&spec.replace("FILE", file)) {
                let message = refusal(&text, &rules);
                assert!(
                    message.ends_with("names nothing in the folder that this server lends"),
                    "{text}: {message}"
                );
            }
        }
    }
    let absolute = lent.join("ok.lark");
    for file in ["ok.lark", "good.lark", "d/../ok.lark", absolute.to_str().unwrap()] {
        let spec = Spec::of_request(&format!(r#"{{"grammar_file": "{file}"}}"#), &rules).unwrap();
        assert!(accepts(&spec, "ok"), "{file}");
    }
    // What lent files lead to stays inside too.
    fs::write(lent.join("a.lark"), "%import .link.A\nstart: A").unwrap();
    fs::write(lent.join("b.lark"), "%import .dir.secret.A\nstart: A").unwrap();
    fs::write(lent.join("c.lark"), "%import .good.A\nstart: A").unwrap();
    for file in ["a.lark", "b.lark"] {
        let message = refusal(&format!(r#"{{"any_of": [{{"grammar_file": "{file}"}}]}}"#), &rules);
        assert!(
            message.starts_with("`any_of[0].grammar_file` ") && message.contains("names nothing in"),
            "{message}"
        );
    }
    assert!(accepts(&Spec::of_request(r#"{"grammar_file": "c.lark"}"#, &rules).unwrap(), "ok"));
    let registry = r#"{"json_schema": {"$ref": "x.json"}, "schema_registry": "r"}"#;
    for target in [outside.join("secret.json"), "/dev/zero".into(), "../pipe".into()] {
        symlink(target, lent.join("r/x.json")).unwrap();
        let message = refusal(registry, &rules);
        assert_eq!(message, "`schema_registry` names nothing in the folder that this server lends");
        fs::remove_file(lent.join("r/x.json")).unwrap();
    }
    // A link to a folder is no folder of a registry.
    symlink(&outside, lent.join("r/more")).unwrap();
    let spec = Spec::of_request(registry, &rules).unwrap();
    assert!(!spec.to_json().contains("secret"), "{spec:?}");
    // Changes beside a set.
    fs::write(lent.join("set"), "a\n").unwrap();
    symlink(outside.join("secret.lark"), lent.join("set.delta")).unwrap();
    assert!(refusal(r#"{"set": "set"}"#, &rules).contains("names nothing"));
    // Names that are not UTF-8 stand in no JSON, and in a folder they do no harm.
    fs::write(lent.join(OsStr::from_bytes(b"r/\xff.json")), "true").unwrap();
    assert!(Spec::of_request(registry, &rules).unwrap().to_json().contains("\u{fffd}.json"));
    let odd = all.path().join(OsStr::from_bytes(b"\xff"));
    symlink(&lent, &odd).unwrap();
    assert!(Spec::of_request(r#"{"regex_file": "ok.lark"}"#, &lending(&odd)).is_ok());
    let odd = all.path().join(OsStr::from_bytes(b"\xfe"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("a"), "a").unwrap();
    assert!(
        refusal(r#"{"set": "a"}"#, &lending(&odd))
            .ends_with("names nothing in the folder that this server lends")
    );
    // A program may name them itself.
    let compiler = Compiler::new(bytes());
    assert!(compiler.compile(&Spec::set(odd.join("a"))).is_ok());
    assert!(compiler.compile(&Spec::any_of([Spec::regex("b"), Spec::set(odd.join("a"))])).is_ok());
}

#[test]
fn requests_lower_limits_and_raise_none() {
    let mut table = SpecLimits::default();
    table.set("grammar.nodes", 5_000_000).unwrap();
    table.set("regex.nfa_size", 100).unwrap();
    let rules = RequestRules { limits: table, ..RequestRules::default() };
    for (place, text) in everywhere(r#"{"regex": "a", "limits": {"regex.nfa_size": 101}}"#) {
        assert_eq!(
            refusal(&text, &rules),
            format!(
                "`{place}limits.regex.nfa_size` is 101, and this server allows at most 100: give no more, or leave it out"
            )
        );
    }
    let error =
        Spec::of_request(r#"{"regex": "a", "limits": {"grammar.nodes": 5000001}}"#, &rules).unwrap_err();
    let place = "limits.grammar.nodes".to_owned();
    assert_eq!(error, SpecError::RequestLimit { place, value: 5_000_001, most: 5_000_000 });
    // No limit passes its default, of whatever fields it sets.
    for limit in LIMITS {
        let most = limit.defaults().into_iter().min().unwrap();
        let text = |value: u64| format!(r#"{{"regex": "a", "limits": {{"{}": {value}}}}}"#, limit.name);
        if most < limit.most {
            let message = refusal(&text(most + 1), &RequestRules::default());
            assert!(message.contains(&format!("at most {most}:")), "{message}");
        }
        if most > 0 {
            assert_eq!(
                Spec::of_request(&text(most), &RequestRules::default()).unwrap().limits.get(limit.name),
                Some(most)
            );
        }
    }
    // The server's own values hold for requests that say nothing, and a request may lower them.
    let compile = |text: &str| {
        let spec = Spec::of_request(text, &rules).unwrap();
        assert_eq!(spec.limits.get("grammar.nodes"), Some(5_000_000));
        Compiler::new(bytes()).compile(&spec).map(|_| spec)
    };
    assert!(compile(r#"{"regex": "ab"}"#).is_ok());
    let error = compile(r#"{"regex": "[a-z]{300}"}"#).unwrap_err();
    assert!(error.to_string().contains("100"), "{error}");
    assert!(compile(r#"{"any_of": [{"regex": "[a-z]{300}"}]}"#).is_err());
    assert!(compile(r#"{"regex": "[a-z]{20}", "limits": {"regex.nfa_size": 10}}"#).is_err());
    let spec = compile(r#"{"regex": "a", "limits": {"regex.nfa_size": 90}}"#).unwrap();
    assert_eq!(spec.limits.get("regex.nfa_size"), Some(90));
    // The same rule for constraints that are no JSON.
    let made = Spec::regex("a").under(&rules).unwrap();
    assert_eq!(made.limits, rules.limits);
    assert_eq!(made.clone().under(&rules).unwrap(), made);
}

#[test]
fn a_list_without_elements_is_no_constraint_that_is_left_out() {
    for text in [
        r#"{"choices": []}"#,
        r#"{"any_of": []}"#,
        r#"{"sequence": []}"#,
        r#"{"any_of": [{"sequence": []}]}"#,
    ] {
        let error = Spec::from_json(text).unwrap_err().to_string();
        assert!(error.contains("an empty list"), "{text}: {error}");
    }
    assert!(Spec::from_json("{}").unwrap().is_unconstrained());
}

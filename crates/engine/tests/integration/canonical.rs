//! `canonical` over grammars, schemas, tags and combinations: the tokenizer's own sequence of a text is accepted,
//! and no other spelling of it is.

use std::{path::PathBuf, sync::Arc};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_engine::{Compiled, Compiler, Error, Spec, TokenSpace};
use unskew_notation::GrammarFormat;
use unskew_sets::SetBuilder;

use crate::common::tiny;

fn accepts(constraint: &Compiled, tokens: &[TokenId]) -> bool {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    tokens.iter().all(|token| constraint.advance(&mut scratch, &mut state, *token).is_ok())
        && constraint.is_accepting(&state)
}

/// Other spellings of a sequence: one token in two, or two tokens in one.
fn respelled(space: &TokenSpace, ids: &[TokenId]) -> Vec<Vec<TokenId>> {
    let vocabulary = space.vocabulary();
    let text = |id: TokenId| vocabulary.text(id).unwrap();
    let of = |wanted: &[u8]| vocabulary.text_tokens().find(|(_, text)| *text == wanted).map(|(id, _)| id);
    let mut all = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        for cut in 1..text(*id).len() {
            if let (Some(left), Some(right)) = (of(&text(*id)[..cut]), of(&text(*id)[cut..])) {
                all.push([&ids[..at], &[left, right], &ids[at + 1..]].concat());
            }
        }
        if let Some(next) = ids.get(at + 1)
            && let Some(both) = of(&[text(*id), text(*next)].concat())
        {
            all.push([&ids[..at], &[both], &ids[at + 2..]].concat());
        }
    }
    all
}

#[test]
fn one_spelling_of_each_text_is_accepted() {
    let tokens = tiny();
    let compiler = Compiler::new(tokens.clone());
    let tree = r##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["name"]}}}"##;
    let cases: Vec<(Spec, &[&str])> = vec![
        (
            Spec::json_schema(tree),
            &[
                r#"{"name": "The winter", "children": [{"name": "snow"}, {"name": "é", "children": []}]}"#,
                r#"{"name": "x", "other": {"any": [1, 2.5, null]}, "another": true}"#,
            ],
        ),
        (Spec::json_schema("{}"), &[r#"{"a": {"b": [[], [[]]]}, "c": "  two  blanks "}"#, "[true, -1e3]"]),
        (
            Spec::json_schema(r#"{"type": "string", "minLength": 3, "maxLength": 12}"#),
            &[r#""letters""#, r#""abc""#, r#""twelve chars""#],
        ),
        (
            Spec::json_schema(r#"{"type": "array", "items": {"type": "string"}, "uniqueItems": true}"#),
            &[r#"["one", "two", "three"]"#],
        ),
        (
            Spec::grammar(
                "start: \"(\" start* \")\" | WORD\nWORD: /[a-z]+/\n%ignore \" \"",
                GrammarFormat::Lark,
            ),
            &["(the (quick) brown (fox ()))", "word"],
        ),
        (
            Spec::grammar("root ::= \"[\" root (\", \" root)* \"]\" | [0-9]+", GrammarFormat::Gbnf),
            &["[1, [22, 333], 4444]"],
        ),
        (Spec::any_of([Spec::regex("[a-z ]+"), Spec::choices(["Yes", "No"])]), &["some words", "Yes"]),
    ];
    for (spec, texts) in cases {
        let all = compiler.compile(&spec).unwrap();
        let canonical = compiler.compile(&spec.clone().canonical()).unwrap();
        for text in texts {
            let ids = tokens.canonical(text).unwrap().unwrap();
            assert!(accepts(&canonical, &ids), "{spec}: {text}");
            let others = respelled(&tokens, &ids);
            assert!(!others.is_empty());
            for other in others {
                assert!(accepts(&all, &other), "{spec}: {text} as {other:?}");
                assert!(!accepts(&canonical, &other), "{spec}: {text} as {other:?}");
            }
        }
        let fates = spec.canonical().explain();
        // A combination has no constructs.
        if let Ok(fates) = fates {
            let last = fates.last().unwrap();
            assert_eq!((&*last.construct, last.fate), ("canonical", "enforced"));
        }
    }
}

#[test]
fn sets_are_of_one_spelling() {
    let tokens = tiny();
    let compiler = Compiler::new(tokens.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("names.txt"), "Ada Lovelace\nAlan Turing\nZoë\n").unwrap();
    let build = |name: &str, encode: &(dyn Fn(&str) -> Vec<TokenId> + Sync)| {
        let mut builder = SetBuilder::for_vocabulary(Arc::clone(tokens.vocabulary()));
        let lines = std::fs::read(file("names.txt")).unwrap();
        builder.push_lines(&lines[..], |line| Ok::<_, Error>(encode(line)), |_, _| ()).unwrap();
        builder.build().unwrap().0.save(file(name)).unwrap();
    };
    let canonical = |text: &str| tokens.canonical(text).unwrap().unwrap();
    build("good.set", &canonical);
    build("other.set", &|text| {
        let ids = canonical(text);
        respelled(&tokens, &ids).swap_remove(0)
    });
    for set in ["names.txt", "good.set"] {
        let names = compiler.compile(&Spec::set(file(set)).canonical()).unwrap();
        let ids = canonical("Ada Lovelace");
        assert!(accepts(&names, &ids));
        assert!(respelled(&tokens, &ids).iter().all(|other| !accepts(&names, other)));
    }
    assert!(compiler.compile(&Spec::set(file("other.set"))).is_ok());
    let error = compiler.compile(&Spec::set(file("other.set")).canonical()).err().unwrap().to_string();
    assert!(error.contains("other.set: the set has \"A"), "{error}");

    for set in ["names.txt", "good.set"] {
        let others = compiler.compile(&Spec::exclude_set(file(set)).canonical()).unwrap();
        for (text, accepted) in
            [("Ada Lovelace", false), ("Zoë", false), ("", true), ("Ada", true), ("Zoës", true)]
        {
            let ids = canonical(text);
            assert_eq!(accepts(&others, &ids), accepted, "{text}");
            assert!(respelled(&tokens, &ids).iter().all(|other| !accepts(&others, other)), "{text}");
        }
    }
}

/// The instances of MaskBench, with the tokenizers of Llama 3 and of Qwen, where `UNSKEW_DATA` has them: the
/// tokenizer's own sequence of a valid instance is accepted, and no other spelling of it. `UNSKEW_STEP`: every so
/// many schemas (50).
#[test]
fn instances_of_maskbench_have_one_spelling() {
    for (name, tokens, schemas) in maskbench() {
        let compiler = Compiler::new(tokens.clone());
        let (mut instances, mut refused, mut others) = (0, 0, 0);
        for (file, case) in schemas {
            let spec = Spec::json_schema(case["schema"].to_string());
            let Ok(all) = compiler.compile(&spec) else { continue };
            let canonical = compiler.compile(&spec.canonical()).unwrap();
            for test in case["tests"].as_array().unwrap() {
                let text = test["data"].to_string();
                let Some(ids) = tokens.canonical(&text).unwrap() else { continue };
                let accepted = accepts(&canonical, &ids);
                assert_eq!(accepted, accepts(&all, &ids), "{name}, {}: {text}", file.display());
                instances += 1;
                if !accepted {
                    refused += 1;
                    continue;
                }
                let respelled = respelled_few(&tokens, &ids);
                for other in &respelled {
                    assert!(!accepts(&canonical, other), "{name}, {}: {text} as {other:?}", file.display());
                }
                others += respelled.len();
            }
        }
        assert!(
            instances > refused && others > 0,
            "{name}: {instances} instances, {refused} refused, {others} respelled"
        );
    }
}

/// Masks along random walks of fifty tokens through the schemas of MaskBench, beside the tokenizer. A token that a mask
/// allows has a witness: a text, allowed so far, whose encoding begins with the walk and the token. A token that only
/// the mask without `canonical` allows has none among the texts that go on behind it in many ways. The witness is a
/// proof. That there is none is a search: the encoding of a walk depends on the text up to the end of the piece that it
/// ends in, so that each search tries ends of a piece of each kind and random texts.
#[test]
fn masks_of_maskbench_have_witnesses() {
    for (name, tokens, schemas) in maskbench() {
        let compiler = Compiler::new(tokens.clone());
        let short = tokens.vocabulary().text_tokens().filter(|(_, text)| text.len() < 4);
        let ending: Vec<_> =
            short.filter(|(_, text)| b"\"]},: 0".contains(&text[0])).map(|(id, _)| id).collect();
        let (mut witnesses, mut refused) = (0, 0);
        for (number, (file, case)) in schemas.enumerate() {
            let spec = Spec::json_schema(case["schema"].to_string());
            let Ok(all) = compiler.compile(&spec) else { continue };
            let canonical = compiler.compile(&spec.canonical()).unwrap();
            let random = ChaCha8Rng::seed_from_u64(number as u64);
            let (mut all, mut canonical) = (Side::new(&all), Side::new(&canonical));
            match (Walk { tokens: &tokens, ending: &ending, random }).check(&mut all, &mut canonical) {
                Ok((allowed, others)) => (witnesses, refused) = (witnesses + allowed, refused + others),
                Err(reason) => panic!("{name}, {}: {reason}", file.display()),
            }
        }
        assert!(
            witnesses > 0 && refused > 0,
            "{name}: {witnesses} tokens have a witness, {refused} have none"
        );
    }
}

/// Steps of a random walk, and tokens that are looked at in each of its states.
const STEPS: usize = 50;
const LOOKS: usize = 2;
/// Bytes behind a token that say how the tokenizer writes it: more than most pieces have.
const BEHIND: usize = 24;

/// A constraint with one scratch for all walks.
struct Side<'a> {
    constraint: &'a Compiled,
    scratch: <Compiled as Constraint>::Scratch,
    mask: TokenMask,
}

impl<'a> Side<'a> {
    fn new(constraint: &'a Compiled) -> Self {
        Self { constraint, scratch: constraint.scratch(), mask: TokenMask::new(constraint.vocab_len()) }
    }

    /// The tokens behind `ids`, and whether the output may end there.
    fn after(&mut self, ids: &[TokenId]) -> (&TokenMask, bool) {
        let mut state = self.constraint.start();
        for id in ids {
            self.constraint.advance(&mut self.scratch, &mut state, *id).unwrap();
        }
        self.constraint.fill_mask(&mut self.scratch, &state, self.mask.as_mut());
        (&self.mask, self.constraint.is_accepting(&state))
    }
}

struct Walk<'a> {
    tokens: &'a TokenSpace,
    /// Tokens that most often end something.
    ending: &'a [TokenId],
    random: ChaCha8Rng,
}

impl Walk<'_> {
    /// The numbers of tokens with and without a witness, or what is wrong.
    fn check(&mut self, all: &mut Side<'_>, canonical: &mut Side<'_>) -> Result<(usize, usize), String> {
        let (mut with, mut without, mut ids) = (0, 0, Vec::new());
        while ids.len() < STEPS {
            let ((some, ends), (every, _)) = (canonical.after(&ids), all.after(&ids));
            if let Some(word) =
                some.words().iter().zip(every.words()).position(|(some, every)| some & !every != 0)
            {
                return Err(format!("{ids:?}: word {word} has a token that is none of the constraint"));
            }
            let allowed: Vec<_> = (0..=LOOKS).filter_map(|_| self.one_of(|id| some.contains(id))).collect();
            let refused =
                (0..LOOKS).filter_map(|_| self.one_of(|id| every.contains(id) && !some.contains(id)));
            let refused: Vec<_> = refused.collect();
            let Some((next, allowed)) = allowed.split_last() else {
                return if ends { Ok((with, without)) } else { Err(format!("{ids:?} leads nowhere")) };
            };
            for id in allowed {
                if (0..20).all(|_| self.witness(canonical, &ids, *id).is_none()) {
                    return Err(format!("{ids:?}: {id} is allowed and has no witness"));
                }
            }
            for id in &refused {
                if let Some(text) = (0..4).find_map(|_| self.witness(all, &ids, *id)) {
                    return Err(format!("{ids:?}: {id} is refused, and the tokenizer writes it in {text:?}"));
                }
            }
            (with, without) = (with + allowed.len(), without + refused.len());
            ids.push(*next);
        }
        Ok((with, without))
    }

    /// A token of those that are `allowed`, most often one that ends something.
    fn one_of(&mut self, allowed: impl Fn(TokenId) -> bool) -> Option<TokenId> {
        let len = self.tokens.vocabulary().len();
        let mut from = |len: usize, token: &dyn Fn(usize) -> TokenId| {
            let first = self.random.next_u32() as usize % len;
            (first..len).chain(0..first).map(token).find(|id| allowed(*id))
        };
        let random = from(len, &|at| TokenId(at as u32))?;
        let ending = from(self.ending.len(), &|at| self.ending[at]);
        ending.filter(|_| !self.random.next_u32().is_multiple_of(3)).or(Some(random))
    }

    /// A text, as far as it was read, that goes on at random behind `ids` and `id`, and that the tokenizer begins so.
    fn witness(&mut self, side: &mut Side<'_>, ids: &[TokenId], id: TokenId) -> Option<String> {
        let begin = [ids, &[id]].concat();
        let mut all = begin.clone();
        loop {
            let (mask, ends) = side.after(&all);
            let bytes = self.tokens.vocabulary().decode(&all);
            // Behind the end of a text that may not end yet, the tokenizer sees another place than the text's next one.
            let enough = ends || self.tokens.vocabulary().decode(&all[begin.len()..]).len() >= BEHIND;
            if let (true, Ok(text)) = (enough, String::from_utf8(bytes))
                && self.tokens.encode_output(&text).unwrap().starts_with(&begin)
            {
                return Some(text);
            }
            match self.one_of(|id| mask.contains(id)) {
                Some(id) if !enough || all.len() < begin.len() + BEHIND => all.push(id),
                _ => return None,
            }
        }
    }
}

/// The tokenizers of Llama 3 and of Qwen with the schemas of MaskBench, where `UNSKEW_DATA` has them. `UNSKEW_STEP`:
/// every so many schemas (50).
fn maskbench()
-> impl Iterator<Item = (&'static str, Arc<TokenSpace>, impl Iterator<Item = (PathBuf, serde_json::Value)>)> {
    let data = std::env::var_os("UNSKEW_DATA").map(PathBuf::from);
    let step = std::env::var("UNSKEW_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(50);
    let folder = data.iter().filter_map(|data| std::fs::read_dir(data.join("maskbench")).ok()).flatten();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    ["llama3", "qwen2"].into_iter().filter_map(move |name| {
        let file = data.as_ref()?.join("tokenizers").join(name).join("tokenizer.json");
        let tokenizer = unskew_vocab::Tokenizer::from_file(file).ok()?;
        let tokens = TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap();
        let schemas = files.clone().into_iter().step_by(step).map(|file| {
            let case = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            (file, case)
        });
        Some((name, Arc::new(tokens), schemas))
    })
}

/// Some other spellings, spread over the sequence: one token in two.
fn respelled_few(space: &TokenSpace, ids: &[TokenId]) -> Vec<Vec<TokenId>> {
    const FEW: usize = 12;
    let vocabulary = space.vocabulary();
    let trie = space.trie().unwrap();
    // In the order of bytes the text itself comes first.
    let token = |text: &[u8]| {
        let first = trie.beginning_with(text).first().copied();
        first.filter(|token| vocabulary.text(*token) == Some(text))
    };
    let mut all = Vec::new();
    for at in (0..ids.len()).step_by(ids.len().div_ceil(FEW)) {
        let text = vocabulary.text(ids[at]).unwrap();
        let cuts = (1..text.len()).filter_map(|cut| Some([token(&text[..cut])?, token(&text[cut..])?]));
        all.extend(cuts.take(1).map(|parts| [&ids[..at], &parts[..], &ids[at + 1..]].concat()));
    }
    all
}

//! A matcher beside a slow one that reads all tokens again from the start for every question, under random operations.

use std::sync::Arc;

use crate::common::{Random, bytes, ids, specs, tiny};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_engine::{
    CaptureError, Compiled, Compiler, Matcher, MatcherError, MatcherOptions, Spec, TokenSpace,
};

/// The oracle: tokens, and nothing else.
#[derive(Clone)]
struct Slow {
    constraint: Compiled,
    stop_ids: Vec<TokenId>,
    tokens: Vec<TokenId>,
}

impl Slow {
    fn is_terminated(&self) -> bool {
        self.tokens.last().is_some_and(|last| self.stop_ids.contains(last))
    }

    /// The state after `tokens` but for the end.
    fn state(&self, tokens: &[TokenId]) -> Option<<Compiled as Constraint>::State> {
        let mut state = self.constraint.start();
        let mut scratch = self.constraint.scratch();
        for token in tokens.iter().filter(|token| !self.stop_ids.contains(token)) {
            self.constraint.advance(&mut scratch, &mut state, *token).ok()?;
        }
        Some(state)
    }

    fn is_accepting(&self) -> bool {
        self.constraint.is_accepting(&self.state(&self.tokens).unwrap())
    }

    fn mask(&self) -> Vec<TokenId> {
        if self.is_terminated() {
            return self.stop_ids.clone();
        }
        let state = self.state(&self.tokens).unwrap();
        let mut mask = TokenMask::new(self.constraint.vocab_len());
        self.constraint.fill_mask(&mut self.constraint.scratch(), &state, mask.as_mut());
        let mut ids: Vec<TokenId> = mask.ids().filter(|id| !self.stop_ids.contains(id)).collect();
        if self.constraint.is_accepting(&state) {
            ids.extend(&self.stop_ids);
        }
        ids.sort_unstable();
        ids
    }

    fn accept(&mut self, token: TokenId) -> bool {
        let is_allowed = !self.is_terminated() && self.mask().contains(&token);
        if is_allowed {
            self.tokens.push(token);
        }
        is_allowed
    }
}

fn check(matcher: &Matcher, slow: &Slow, what: &str) {
    assert_eq!(matcher.tokens(), slow.tokens, "{what}");
    assert_eq!(matcher.is_accepting(), slow.is_accepting(), "{what}");
    assert_eq!(matcher.is_terminated(), slow.is_terminated(), "{what}");
    // The row is longer than the mask, and holds anything.
    let mut row = vec![0xdead_beef; matcher.mask_words() + 3];
    matcher.fill(&mut row).unwrap();
    assert_eq!(ids(&row), slow.mask(), "{what}");
}

/// A token that is likely to be allowed.
fn token(random: &mut Random, slow: &Slow) -> TokenId {
    let mask = slow.mask();
    if mask.is_empty() || random.below(6) == 0 {
        return TokenId::from_index(random.below(slow.constraint.vocab_len()));
    }
    // The end is picked often, or outputs would have none.
    if random.below(8) == 0 {
        return *random.pick(&slow.stop_ids);
    }
    *random.pick(&mask)
}

fn walk(space: &Arc<TokenSpace>, spec: &Spec, stop_ids: Option<Vec<TokenId>>, seed: u64, steps: usize) {
    let compiler = Compiler::new(Arc::clone(space));
    let compiled = compiler.compile(spec).unwrap();
    let mut options = MatcherOptions::default();
    options.stop_ids = stop_ids;
    let matcher = Matcher::new(&compiled, options).unwrap();
    let slow = Slow {
        constraint: Compiler::shared(space).compile(spec).unwrap(),
        stop_ids: matcher.stop_ids().to_vec(),
        tokens: Vec::new(),
    };
    let mut random = Random::new(seed);
    let mut pairs = vec![(matcher, slow)];
    for step in 0..steps {
        let at = random.below(pairs.len());
        let what = format!("{spec} seed {seed} step {step}");
        let may_fork = pairs.len() < 5;
        let (matcher, slow) = &mut pairs[at];
        match random.below(12) {
            0..=4 => {
                let token = token(&mut random, slow);
                assert_eq!(matcher.accept(token).unwrap(), slow.accept(token), "{what} {token}");
            }
            5 => {
                let count = random.below(slow.tokens.len() + 1);
                matcher.rollback(count).unwrap();
                slow.tokens.truncate(slow.tokens.len() - count);
            }
            6 => {
                let before = matcher.tokens().to_vec();
                let mut path = slow.clone();
                let (mut tokens, mut allowed) = (Vec::new(), None);
                for count in 0..5 {
                    let token = token(&mut random, &path);
                    tokens.push(token);
                    if !path.accept(token) && allowed.is_none() {
                        allowed = Some(count);
                    }
                }
                let allowed = allowed.unwrap_or(tokens.len());
                assert_eq!(matcher.validate(&tokens).unwrap(), allowed, "{what}");
                assert_eq!(matcher.tokens(), before);
                if random.below(2) == 0 {
                    assert_eq!(matcher.accept_all(&tokens).unwrap(), allowed, "{what}");
                    slow.tokens.extend(&tokens[..allowed]);
                }
            }
            7 if may_fork => {
                let fork = (matcher.fork(), slow.clone());
                pairs.push(fork);
            }
            8 if random.below(5) == 0 => {
                matcher.reset();
                slow.tokens.clear();
            }
            9 => {
                let error = matcher.rollback(slow.tokens.len() + 1).unwrap_err();
                assert!(matches!(error, MatcherError::Rollback { .. }));
                let beyond = TokenId::from_index(slow.constraint.vocab_len());
                assert!(matches!(matcher.accept(beyond), Err(MatcherError::BeyondVocabulary { .. })));
                assert!(matcher.validate(&[beyond]).is_err() && matcher.fill(&mut [0]).is_err());
            }
            10 => {
                // Each forced token is all of the mask.
                let mut path = slow.clone();
                for token in matcher.forced_tokens(5).unwrap() {
                    assert_eq!(path.mask(), [token], "{what}");
                    assert!(path.accept(token));
                }
                let text = matcher.forced_text(20).unwrap();
                for _ in 0..3 {
                    let (mut path, mut said) = (slow.clone(), Vec::new());
                    while said.len() < text.len() {
                        let mask = path.mask();
                        assert!(!mask.is_empty(), "{what}: {text:?}");
                        let token = *random.pick(&mask);
                        assert!(path.accept(token));
                        assert!(!path.is_terminated(), "{what}: {text:?} {said:?}");
                        said.extend(space.vocabulary().text(token).unwrap_or_default());
                    }
                    assert!(said.starts_with(&text), "{what}: {said:?} {text:?}");
                }
                let tokens = matcher.forced_text_tokens(20).unwrap();
                assert_eq!(matcher.validate(&tokens).unwrap(), tokens.len());
                assert!(text.starts_with(&space.vocabulary().decode(&tokens)));
            }
            _ => {}
        }
        let (matcher, slow) = &pairs[at];
        check(matcher, slow, &what);
    }
}

#[test]
fn it_is_the_slow_one_over_bytes() {
    let space = bytes();
    for (seed, spec) in (0..).zip(specs().iter().filter(|spec| !spec.canonical)) {
        walk(&space, spec, None, seed, 300);
        // Any ids may end an output; the last one has text.
        walk(&space, spec, Some(vec![TokenId(272), TokenId(7)]), seed + 100, 150);
        walk(&space, spec, Some(vec![TokenId(273)]), seed + 200, 100);
    }
}

#[test]
fn it_is_the_slow_one_over_a_tokenizer() {
    let space = tiny();
    for (seed, spec) in (0..).zip(&specs()) {
        walk(&space, spec, None, seed, 120);
    }
}

#[test]
fn long_rollbacks_are_exact() {
    let space = bytes();
    let compiled = Compiler::new(space)
        .compile(&Spec::grammar("root ::= \"(\" root \")\" | \"a\"", unskew_notation::GrammarFormat::Gbnf))
        .unwrap();
    let mut matcher = compiled.matcher();
    let open = TokenId(u32::from(b'('));
    assert_eq!(matcher.accept_all(&[open; 500]).unwrap(), 500);
    matcher.accept(TokenId(u32::from(b'a'))).unwrap();
    assert_eq!(matcher.accept_all(&[TokenId(u32::from(b')')); 501]).unwrap(), 500);
    let end = matcher.stop_ids()[0];
    assert!(matcher.accept(end).unwrap() && matcher.is_terminated());
    assert!(!matcher.accept(end).unwrap());
    // Over the end, within the kept states, and beyond them.
    for (count, tokens) in [(1, 1001), (3, 998), (400, 598), (98, 500), (499, 1)] {
        matcher.rollback(count).unwrap();
        assert_eq!(matcher.tokens().len(), tokens);
        let mut fresh = compiled.matcher();
        assert_eq!(fresh.accept_all(matcher.tokens()).unwrap(), tokens);
        let (mut row, mut expected) = (vec![0; matcher.mask_words()], vec![0; matcher.mask_words()]);
        matcher.fill(&mut row).unwrap();
        fresh.fill(&mut expected).unwrap();
        assert_eq!(row, expected);
        assert_eq!(matcher.is_accepting(), fresh.is_accepting());
    }
}

#[test]
fn forced_text_and_its_tokens() {
    let space = tiny();
    let schema = r#"{"type": "object", "properties": {"name": {"const": "Anna"}}, "required": ["name"], "additionalProperties": false}"#;
    let compiler = Compiler::new(Arc::clone(&space));
    let compact =
        Spec::from_json(&format!(r#"{{"json_schema": {schema}, "whitespace": "compact"}}"#)).unwrap();
    let matcher = compiler.compile(&compact).unwrap().matcher();
    assert_eq!(matcher.forced_text(100).unwrap(), br#"{"name":"Anna"}"#);
    assert_eq!(matcher.forced_text(7).unwrap(), br#"{"name""#);
    // Many spellings: no token is forced, and the tokenizer's own begins as the text does.
    assert!(matcher.forced_tokens(10).unwrap().is_empty());
    let tokens = matcher.forced_text_tokens(100).unwrap();
    let own = space.encode_output(r#"{"name":"Anna"}"#).unwrap();
    assert!(!tokens.is_empty() && own.starts_with(&tokens), "{tokens:?} {own:?}");
    // In the tokenizer's own spelling all of them are forced.
    let one = compiler.compile(&Spec::choices(["Anna and Anna"]).canonical()).unwrap().matcher();
    assert_eq!(one.forced_tokens(100).unwrap(), space.encode_output("Anna and Anna").unwrap());
    assert_eq!(one.forced_text(100).unwrap(), b"Anna and Anna");
}

#[test]
fn a_stop_id_that_is_needed_for_its_text_is_an_error() {
    let space = bytes();
    let compiled = Compiler::new(space).compile(&Spec::regex("\n\n")).unwrap();
    let mut options = MatcherOptions::default();
    options.stop_ids = Some(vec![TokenId(10)]);
    let mut matcher = Matcher::new(&compiled, options.clone()).unwrap();
    assert_eq!(matcher.fill(&mut vec![0; 100]), Err(MatcherError::StopNeeded));
    assert_eq!(matcher.accept(TokenId(10)), Ok(false));
    options.stop_ids = Some(vec![TokenId(10_000)]);
    assert!(Matcher::new(&compiled, options).is_err());
}

#[test]
fn captures_of_a_matcher_are_those_of_its_whole_output() {
    let lark = r#"{"grammar": "start: v (\",\" v)*\nv[capture]: /[0-9]+/", "grammar_format": "lark"}"#;
    let inside = r#"{"structural_tag": {"format": {"type": "tag", "begin": "<v>", "end": "</v>",
        "content": {"type": "grammar", "grammar": "root ::= v \"!\"\nv[capture=\"value\"] ::= [0-9]+"}}}}"#;
    let compiler = Compiler::new(bytes());
    let read = |spec: &str, text: &str| {
        let mut matcher = compiler.compile(&Spec::from_json(spec).unwrap()).unwrap().matcher();
        let ids: Vec<TokenId> = text.bytes().map(|byte| TokenId(byte.into())).collect();
        assert_eq!(matcher.accept_all(&ids).unwrap(), ids.len());
        let captures = matcher.captures();
        captures
            .map(|found| found.into_iter().map(|one| (one.name.to_string(), one.tokens)).collect::<Vec<_>>())
    };
    assert_eq!(read(lark, "1,23"), Ok(vec![("v".to_owned(), 0..1), ("v".to_owned(), 2..4)]));
    assert_eq!(read(lark, "1,"), Err(CaptureError::Unfinished));
    assert_eq!(read(inside, "<v>12!</v>"), Ok(vec![("value".to_owned(), 3..5)]));
    assert_eq!(read(r#"{"regex": "a*"}"#, "aa"), Ok(vec![]));
}

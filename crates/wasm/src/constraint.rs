//! Compiled constraints and matchers.

use unskew::{
    core::{MaskRef, TokenId},
    engine::{self, COMPILE_FUEL, Compiled, Compiler, MatcherOptions, Until},
};
use wasm_bindgen::prelude::*;

use crate::{
    Tokenizer,
    explain::{placed, source},
    fault::Fault,
    spec::Given,
    tokenizer::{ids, numbers},
};

/// The work that compiling may take where nobody says it: there is no other thread that could end it.
pub(crate) const FUEL: u64 = COMPILE_FUEL;

/// The most forced tokens of one answer.
const MAX_FORCED: usize = 1 << 16;

/// A constraint, compiled for a tokenizer.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Constraint {
    compiled: Compiled,
}

#[wasm_bindgen]
impl Constraint {
    /// Compiles the JSON of a spec. `fuel` is the work that it may take; none: some seconds.
    ///
    /// # Errors
    ///
    /// A [`Fault`] with its place.
    #[wasm_bindgen(constructor)]
    pub fn new(tokenizer: &Tokenizer, spec: &str, fuel: Option<f64>) -> Result<Constraint, Fault> {
        let given = Given::read(spec)?;
        let is_text = given.is_text;
        let spec = given.constraint()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        let fuel = fuel.map_or(FUEL, |fuel| fuel as u64);
        let until = Until { fuel: Some(fuel), ..Until::default() };
        let compiled = Compiler::shared(&tokenizer.tokens).compile_until(&spec, &until);
        let compiled = compiled.map_err(|error| placed(&error, source(&spec).filter(|_| is_text)))?;
        Ok(Self { compiled })
    }

    /// A matcher at the start; `stops`: the ids that end an output.
    ///
    /// # Errors
    ///
    /// A [`Fault`] for an id beyond the vocabulary.
    pub fn matcher(&self, stops: Option<Vec<u32>>) -> Result<Matcher, Fault> {
        let mut options = MatcherOptions::default();
        options.stop_ids = stops.map(|stops| ids(&stops));
        let matcher = engine::Matcher::new(&self.compiled, options);
        Ok(Matcher { matcher: matcher.map_err(|error| Fault::of_matcher(&error))? })
    }

    /// The units of work that compiling took.
    #[wasm_bindgen(getter)]
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a number for people")]
    pub fn fuel(&self) -> f64 {
        self.compiled.fuel() as f64
    }

    /// Its memory in bytes, with that of its matchers.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn memory(&self) -> usize {
        self.compiled.memory_usage()
    }
}

/// One sequence under a constraint.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Matcher {
    matcher: engine::Matcher,
}

#[wasm_bindgen]
impl Matcher {
    /// The mask, ids that end an output among it where it may end.
    ///
    /// # Errors
    ///
    /// A [`Fault`] where the output is beyond a limit.
    pub fn mask(&self) -> Result<Vec<u32>, Fault> {
        let mut row = vec![0; self.matcher.mask_words()];
        self.matcher.fill(&mut row).map_err(|error| Fault::of_matcher(&error))?;
        Ok(row)
    }

    /// The ids of the mask.
    ///
    /// # Errors
    ///
    /// As [`mask`](Self::mask).
    pub fn allowed(&self) -> Result<Vec<u32>, Fault> {
        let row = self.mask()?;
        let ids = MaskRef::new(&row, self.matcher.compiled().tokens().vocabulary().len()).into_ids();
        Ok(ids.map(|id| id.0).collect())
    }

    /// Appends a token.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `token` where it is not allowed; nothing changes then.
    pub fn advance(&mut self, id: u32) -> Result<(), Fault> {
        match self.matcher.accept(TokenId(id)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.refusal(TokenId(id))),
            Err(error) => Err(Fault::of_matcher(&error)),
        }
    }

    /// Whether a token is allowed.
    ///
    /// # Errors
    ///
    /// A [`Fault`] for an id beyond the vocabulary.
    pub fn allows(&self, id: u32) -> Result<bool, Fault> {
        let allowed = self.matcher.validate(&[TokenId(id)]);
        allowed.map(|allowed| allowed == 1).map_err(|error| Fault::of_matcher(&error))
    }

    /// Takes back the last tokens.
    ///
    /// # Errors
    ///
    /// A [`Fault`] where there are fewer.
    pub fn rollback(&mut self, count: usize) -> Result<(), Fault> {
        self.matcher.rollback(count).map_err(|error| Fault::of_matcher(&error))
    }

    /// Back to the start.
    pub fn reset(&mut self) {
        self.matcher.reset();
    }

    /// The tokens that have to follow.
    ///
    /// # Errors
    ///
    /// As [`mask`](Self::mask).
    pub fn forced(&self) -> Result<Vec<u32>, Fault> {
        let forced = self.matcher.forced_tokens(MAX_FORCED);
        forced.map(|ids| numbers(&ids)).map_err(|error| Fault::of_matcher(&error))
    }

    /// The tokens so far.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        numbers(self.matcher.tokens())
    }

    /// Whether the output may end here.
    #[wasm_bindgen(getter, js_name = canEnd)]
    #[must_use]
    pub fn can_end(&self) -> bool {
        self.matcher.is_accepting()
    }

    /// Whether it has ended, or nothing but the end may follow.
    ///
    /// # Errors
    ///
    /// As [`mask`](Self::mask).
    #[wasm_bindgen(getter)]
    pub fn done(&self) -> Result<bool, Fault> {
        if self.matcher.is_terminated() {
            return Ok(true);
        }
        if !self.can_end() {
            return Ok(false);
        }
        let allowed = self.allowed()?;
        Ok(allowed.iter().all(|id| self.matcher.stop_ids().contains(&TokenId(*id))))
    }

    /// A second matcher at the same place.
    #[must_use]
    pub fn fork(&self) -> Matcher {
        Self { matcher: self.matcher.fork() }
    }
}

impl Matcher {
    /// Why a token is not allowed, and what is.
    fn refusal(&self, id: TokenId) -> Fault {
        if self.matcher.is_terminated() {
            return Fault::new(
                "token",
                format!("token {id} cannot follow the end; take the end back, or reset"),
            );
        }
        let compiled = self.matcher.compiled();
        let ids: Vec<TokenId> = self.matcher.tokens().iter().copied().chain([id]).collect();
        let why = match compiled.rejection(&ids) {
            Some(rejection) => format!("token {id} is not allowed: {rejection}"),
            None => format!("token {id} is not allowed here"),
        };
        Fault::new("token", why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(spec: &str) -> Matcher {
        Constraint::new(&Tokenizer::bytes(), spec, None).unwrap().matcher(None).unwrap()
    }

    #[test]
    fn matchers_are_those_of_the_engine() {
        let mut matcher = matcher(r#"{"regex": "a+bc"}"#);
        assert_eq!(matcher.allowed().unwrap(), [97]);
        assert_eq!(matcher.forced().unwrap(), [97]);
        matcher.advance(97).unwrap();
        assert_eq!(matcher.allowed().unwrap(), [97, 98]);
        let refused = matcher.advance(99).unwrap_err();
        assert!(refused.kind == "token" && refused.message.contains("expected: \"a\", \"b\""), "{refused}");
        assert!(matcher.allows(98).unwrap() && !matcher.allows(99).unwrap());
        matcher.advance(98).unwrap();
        assert_eq!((matcher.forced().unwrap(), matcher.can_end()), (vec![99], false));
        let fork = matcher.fork();
        matcher.advance(99).unwrap();
        assert!(matcher.can_end() && matcher.done().unwrap() && !fork.can_end());
        assert_eq!(matcher.mask().unwrap()[8], 1);
        matcher.advance(256).unwrap();
        assert_eq!(matcher.ids(), [97, 98, 99, 256]);
        assert_eq!(matcher.advance(97).unwrap_err().kind, "token");
        matcher.rollback(4).unwrap();
        assert_eq!(matcher.allowed().unwrap(), [97]);
        assert_eq!(matcher.rollback(1).unwrap_err().kind, "rollback");
        assert_eq!(matcher.advance(999).unwrap_err().kind, "argument");
    }

    #[test]
    fn faults_have_kinds_and_places() {
        let fault = |spec: &str, fuel: Option<f64>| {
            Constraint::new(&Tokenizer::bytes(), spec, fuel).map(|_| ()).unwrap_err()
        };
        let syntax = fault(r#"{"regex": "ab("}"#, None);
        assert_eq!((syntax.kind, syntax.place.unwrap().start), ("constraint", Some(2)));
        assert_eq!(fault(r#"{"regex": "(a|b){900}", "limits": {}}"#, Some(10.0)).kind, "fuel");
        assert_eq!(fault(r#"{"regex": "a", "canonical": true}"#, None).kind, "combination");
        let schema = fault(r#"{"json_schema": "{\"properties\": {\"a\": {\"minimum\": \"x\"}}}"}"#, None);
        let place = schema.place.unwrap();
        assert_eq!((place.path.as_deref(), place.start), (Some("#/properties/a/minimum"), Some(33)));
        let constraint = Constraint::new(&Tokenizer::bytes(), "{}", None);
        assert!(constraint.is_ok() && constraint.unwrap().matcher(Some(vec![999])).is_err());
    }
}

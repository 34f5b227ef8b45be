//! The contract of [`Constraint`], over every sequence of tokens up to a depth.

use std::collections::{HashMap, VecDeque};

use super::ConformanceError;
use crate::{Constraint, MaskBatch, Reach, TextOrder, TokenId, TokenMask, constraint::reach_by_masks};

/// The most states that one check visits. A search for an accepting state stops after as many.
const MAX_STATES: usize = 2_000;

/// The most candidates that are verified for each state.
const CANDIDATES: usize = 300;

/// The number of visited states that are compared in one batch.
const BATCH: usize = 7;

/// Checks the contract of [`Constraint`] in every state that at most `depth` tokens reach. The states are visited
/// breadth first, up to 2,000 of them.
///
/// Whether an accepting state can be reached from every state is checked as far as it can be refuted: a state is a
/// dead end if at most 2,000 sequences follow it and all of them end without being accepted. A constraint whose
/// non-accepting sequences go on for ever is not found out.
///
/// Cost: `vocab_len` calls of `advance` for each visited state.
///
/// # Errors
///
/// The first rule that does not hold.
pub fn check_constraint<C: Constraint>(constraint: &C, depth: usize) -> Result<(), ConformanceError> {
    let mut checker = Checker {
        constraint,
        used: constraint.scratch(),
        mask: TokenMask::new(constraint.vocab_len()),
        seen: Vec::new(),
        keys: HashMap::new(),
    };
    let mut queue = VecDeque::from([(Vec::new(), constraint.start())]);
    while let Some((prefix, state)) = queue.pop_front() {
        let allowed = checker.check_state(&prefix, &state)?;
        if prefix.len() < depth && checker.seen.len() + queue.len() < MAX_STATES {
            for id in allowed {
                let mut after = state.clone();
                let mut longer = prefix.clone();
                longer.push(id);
                checker.advance(&longer, &mut after)?;
                queue.push_back((longer, after));
            }
        }
        checker.seen.push((prefix, state));
    }
    checker.check_batches()
}

/// Checks [`Constraint::reach`] in the states that at most `depth` tokens reach, up to 100 of them, for the text of
/// every token and of some pairs of tokens: it goes on as far as tokens spell it that the masks allow. `order` is that
/// of the constraint's vocabulary, in which each byte of its texts is a token. A constraint that tells nothing has
/// nothing to check.
///
/// # Errors
///
/// The first text that goes on further, or less far, or ends otherwise.
pub fn check_reach<C: Constraint>(
    constraint: &C,
    order: &TextOrder,
    depth: usize,
) -> Result<(), ConformanceError> {
    let mut scratch = constraint.scratch();
    let mut mask = TokenMask::new(constraint.vocab_len());
    let tokens: Vec<(TokenId, &[u8])> =
        order.vocabulary().text_tokens().filter(|(_, text)| !text.is_empty()).collect();
    let mut queue = VecDeque::from([(Vec::new(), constraint.start())]);
    let mut seen = 0;
    while let Some((prefix, state)) = queue.pop_front() {
        seen += 1;
        for (index, (_, text)) in tokens.iter().enumerate() {
            let (_, other) = tokens[(index * 7 + seen) % tokens.len()];
            for text in [text.to_vec(), [*text, other].concat()] {
                if let Some(Reach { len: len @ 1.., is_accepting: true }) =
                    constraint.reach(&mut scratch, &state, &text)
                    && !constraint.may_end_with(text[len - 1])
                {
                    let detail = format!("after {prefix:?}, `{}`", text[..len].escape_ascii());
                    return Err(ConformanceError::new("texts end with bytes that may end them", detail));
                }
                let Some(told) = constraint.reach(&mut scratch, &state, &text) else { return Ok(()) };
                let found = reach_by_masks(constraint, &mut scratch, &state, &text, order);
                if told != found {
                    let text = text.escape_ascii();
                    let detail = format!("after {prefix:?}, `{text}`: {told:?}, by masks {found:?}");
                    return Err(ConformanceError::new("a text goes on as its tokens do", detail));
                }
            }
        }
        if prefix.len() < depth && seen + queue.len() < 100 {
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            for id in mask.ids() {
                let mut after = state.clone();
                let mut longer = prefix.clone();
                longer.push(id);
                if constraint.advance(&mut scratch, &mut after, id).is_ok() {
                    queue.push_back((longer, after));
                }
            }
        }
    }
    Ok(())
}

struct Checker<'a, C: Constraint> {
    constraint: &'a C,
    /// The scratch of all states: its caches must not change an answer.
    used: C::Scratch,
    mask: TokenMask,
    seen: Vec<(Vec<TokenId>, C::State)>,
    /// By key, the first state with this key.
    keys: HashMap<u64, (Vec<TokenId>, C::State)>,
}

impl<C: Constraint> Checker<'_, C> {
    fn check_state(
        &mut self,
        prefix: &[TokenId],
        state: &C::State,
    ) -> Result<Vec<TokenId>, ConformanceError> {
        let at = || format!("after {prefix:?}");
        let constraint = self.constraint;
        let vocab_len = constraint.vocab_len();

        // Rules 1 and 3: the mask agrees with advancing every token, and a rejected advance changes nothing.
        constraint.fill_mask(&mut self.used, state, self.mask.as_mut());
        let mask = self.mask.clone();
        if !mask.as_ref().tail_is_zero() {
            return Err(ConformanceError::new("tail bits are zero", at()));
        }
        for index in 0..vocab_len + 2 {
            let id = TokenId::from_index(index);
            let mut after = state.clone();
            let taken = constraint.advance(&mut self.used, &mut after, id).is_ok();
            if taken != mask.contains(id) {
                let detail = format!("{}, token {id}: mask {}, advance {taken}", at(), mask.contains(id));
                return Err(ConformanceError::new("the mask is what advance takes", detail));
            }
            if constraint.allows(&mut self.used, state, id) != taken {
                return Err(ConformanceError::new(
                    "allows is what advance takes",
                    format!("{}, token {id}", at()),
                ));
            }
            if !taken && self.mask_of(&after) != mask {
                let detail = format!("{}, token {id}", at());
                return Err(ConformanceError::new("a rejected advance changes nothing", detail));
            }
        }
        // The clones above were advanced: their original must be unchanged.
        if self.mask_of(state) != mask {
            return Err(ConformanceError::new("clones are independent", at()));
        }

        // Rule 5: a fresh scratch, and a dirty buffer, give the same mask.
        let mut fresh = constraint.scratch();
        let mut dirty = TokenMask::new(vocab_len);
        dirty.as_mut().fill();
        constraint.fill_mask(&mut fresh, state, dirty.as_mut());
        if dirty != mask {
            return Err(ConformanceError::new("a fresh scratch and a used buffer give the same mask", at()));
        }

        // Rule 4: the shortcuts.
        if let Some(ready) = constraint.ready_mask(&self.used, state)
            && ready != mask.as_ref()
        {
            return Err(ConformanceError::new("a ready mask is the mask", at()));
        }
        let accepting = constraint.is_accepting(state);
        let allowed: Vec<_> = mask.ids().collect();
        let forced = (!accepting && allowed.len() == 1).then(|| allowed[0]);
        if constraint.forced(&mut self.used, state) != forced {
            return Err(ConformanceError::new(
                "forced is the only token of a state that does not accept",
                at(),
            ));
        }

        // Rule 2: a state that does not accept allows a token, or is beyond a limit.
        let beyond = constraint.beyond(&mut self.used, state);
        if beyond.is_some() != (!accepting && allowed.is_empty()) {
            let name =
                if beyond.is_some() { "a state beyond a limit allows nothing" } else { "no dead ends" };
            let detail =
                format!("{}: {} tokens, accepting {accepting}, limit {beyond:?}", at(), allowed.len());
            return Err(ConformanceError::new(name, detail));
        }
        if self.is_dead_end(state) {
            return Err(ConformanceError::new(
                "no dead ends",
                format!("{}: no accepted output in reach", at()),
            ));
        }
        self.check_key(prefix, state)?;
        Ok(allowed)
    }

    /// Rule 7: the state has its key in every scratch, and the first state with this key has the same mask and the
    /// same masks after each token.
    fn check_key(&mut self, prefix: &[TokenId], state: &C::State) -> Result<(), ConformanceError> {
        let key = self.constraint.state_key(&mut self.used, state);
        if self.constraint.state_key(&mut self.constraint.scratch(), state) != key {
            return Err(ConformanceError::new(
                "a key is the same in every scratch",
                format!("after {prefix:?}"),
            ));
        }
        let Some(key) = key else { return Ok(()) };
        let Some((other_prefix, other)) = self.keys.get(&key).cloned() else {
            self.keys.insert(key, (prefix.to_vec(), state.clone()));
            return Ok(());
        };
        let is_same = |checker: &mut Self, left: &C::State, right: &C::State| {
            checker.constraint.is_accepting(left) == checker.constraint.is_accepting(right)
                && checker.mask_of(left) == checker.mask_of(right)
        };
        let differ = |token: Option<TokenId>| {
            let detail = format!("after {prefix:?} and after {other_prefix:?}, then {token:?}");
            Err(ConformanceError::new("states with equal keys have equal futures", detail))
        };
        if !is_same(self, state, &other) {
            return differ(None);
        }
        for token in self.mask_of(state).ids() {
            let (mut after, mut other_after) = (state.clone(), other.clone());
            for state in [&mut after, &mut other_after] {
                self.advance(&[token], state)?;
            }
            if !is_same(self, &after, &other_after) {
                return differ(Some(token));
            }
        }
        Ok(())
    }

    fn mask_of(&mut self, state: &C::State) -> TokenMask {
        let mut mask = TokenMask::new(self.constraint.vocab_len());
        self.constraint.fill_mask(&mut self.used, state, mask.as_mut());
        mask
    }

    fn advance(&mut self, prefix: &[TokenId], state: &mut C::State) -> Result<(), ConformanceError> {
        let token = prefix[prefix.len() - 1];
        self.constraint.advance(&mut self.used, state, token).map_err(|rejected| {
            ConformanceError::new("advance is a function of the state", format!("{prefix:?}: {rejected}"))
        })
    }

    /// Whether every sequence from `state` is known to end without being accepted.
    fn is_dead_end(&mut self, state: &C::State) -> bool {
        let mut queue = VecDeque::from([state.clone()]);
        let mut visited = 0;
        while let Some(state) = queue.pop_front() {
            visited += 1;
            if self.constraint.is_accepting(&state) || visited == MAX_STATES {
                return false;
            }
            let mask = self.mask_of(&state);
            if self.constraint.beyond(&mut self.used, &state).is_some() {
                return false;
            }
            for id in mask.ids().take(MAX_STATES - queue.len().min(MAX_STATES)) {
                let mut after = state.clone();
                if self.constraint.advance(&mut self.used, &mut after, id).is_ok() {
                    queue.push_back(after);
                }
            }
        }
        true
    }

    /// Rule 4 for batches, of masks and of candidates: each row is the mask of its state, for any earlier content of
    /// the buffer.
    fn check_batches(&mut self) -> Result<(), ConformanceError> {
        let vocab_len = self.constraint.vocab_len();
        for states in self.seen.chunks(BATCH) {
            let mut batch = MaskBatch::new(states.len() + 1, vocab_len);
            (0..=states.len()).for_each(|row| batch.row_mut(row).fill());
            let untouched = batch.row(states.len()).to_owned();
            self.constraint.fill_masks(
                &mut self.used,
                &mut states.iter().map(|(_, state)| state),
                &mut batch,
            );
            for (row, (prefix, state)) in states.iter().enumerate() {
                self.constraint.fill_mask(&mut self.used, state, self.mask.as_mut());
                if batch.row(row) != self.mask.as_ref() {
                    return Err(ConformanceError::new(
                        "a batch is its rows",
                        format!("after {prefix:?}, row {row}"),
                    ));
                }
            }
            let ids: Vec<TokenId> = (0..vocab_len.min(CANDIDATES)).map(TokenId::from_index).collect();
            let candidates = ids.repeat(states.len());
            let mut valid = vec![false; candidates.len()];
            self.constraint.verify(
                &mut self.used,
                &mut states.iter().map(|(_, state)| state),
                ids.len(),
                &candidates,
                &mut valid,
            );
            for (row, (prefix, _)) in states.iter().enumerate() {
                for (token, valid) in ids.iter().zip(&valid[row * ids.len()..]) {
                    if *valid != batch.row(row).contains(*token) {
                        let detail = format!("after {prefix:?}, token {token}");
                        return Err(ConformanceError::new(
                            "verified candidates are those of the mask",
                            detail,
                        ));
                    }
                }
            }
            if batch.row(states.len()) != untouched.as_ref() {
                return Err(ConformanceError::new(
                    "a batch is its rows",
                    "a row beyond the states was changed",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyConstraint, MaskMut, Rejected, TableModel, Unconstrained};

    /// Exactly `length` tokens out of `0..3`, with one fault.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Fault {
        Nothing,
        MaskTooWide,
        DeadEnd,
        /// None: the end is beyond a limit.
        Limited,
        LimitTold,
        ChangesOnReject,
        Forced,
        Dirty,
        Batch,
        OneKey,
    }

    #[derive(Clone)]
    struct Exactly {
        length: usize,
        fault: Fault,
    }

    impl Constraint for Exactly {
        type State = usize;
        type Scratch = ();

        fn vocab_len(&self) -> usize {
            3
        }
        fn start(&self) -> usize {
            0
        }
        fn scratch(&self) {}
        fn advance(&self, (): &mut (), state: &mut usize, token: TokenId) -> Result<(), Rejected> {
            if token.index() < 2 && *state < self.length {
                *state += 1;
                return Ok(());
            }
            if self.fault == Fault::ChangesOnReject && *state > 0 {
                *state -= 1;
            }
            Err(Rejected::new(token))
        }
        fn is_accepting(&self, state: &usize) -> bool {
            *state == self.length && !matches!(self.fault, Fault::DeadEnd | Fault::Limited)
        }
        fn beyond(&self, (): &mut (), state: &usize) -> Option<&'static str> {
            let is_told = match self.fault {
                Fault::Limited => *state == self.length,
                Fault::LimitTold => *state == 0,
                _ => false,
            };
            is_told.then_some("length")
        }
        fn fill_mask(&self, (): &mut (), state: &usize, mut mask: MaskMut<'_>) {
            if self.fault != Fault::Dirty {
                mask.clear();
            }
            if *state < self.length {
                mask.insert(TokenId(0));
                mask.insert(TokenId(1));
            }
            if self.fault == Fault::MaskTooWide && *state == 1 {
                mask.insert(TokenId(2));
            }
        }
        fn state_key(&self, (): &mut (), state: &usize) -> Option<u64> {
            Some(if self.fault == Fault::OneKey { (*state).min(1) } else { *state } as u64)
        }
        fn forced(&self, (): &mut (), _state: &usize) -> Option<TokenId> {
            (self.fault == Fault::Forced).then_some(TokenId(0))
        }
        fn fill_masks(&self, (): &mut (), states: &mut dyn Iterator<Item = &usize>, masks: &mut MaskBatch) {
            for (row, state) in states.enumerate() {
                self.fill_mask(&mut (), state, masks.row_mut(row));
                if self.fault == Fault::Batch {
                    masks.row_mut(row).clear();
                }
            }
        }
    }

    #[test]
    fn each_fault_breaks_its_rule() {
        let check = |fault| check_constraint(&Exactly { length: 2, fault }, 3);
        assert_eq!(check(Fault::Nothing), Ok(()));
        assert_eq!(check(Fault::Limited), Ok(()));
        for (fault, rule) in [
            (Fault::MaskTooWide, "the mask is what advance takes"),
            (Fault::DeadEnd, "no dead ends"),
            (Fault::LimitTold, "a state beyond a limit allows nothing"),
            (Fault::ChangesOnReject, "a rejected advance changes nothing"),
            (Fault::Forced, "forced is the only token of a state that does not accept"),
            (Fault::Dirty, "a fresh scratch and a used buffer give the same mask"),
            (Fault::Batch, "a batch is its rows"),
            (Fault::OneKey, "states with equal keys have equal futures"),
        ] {
            assert_eq!(check(fault).unwrap_err().rule, rule, "{fault:?}");
        }
    }

    #[test]
    fn an_erased_constraint_keeps_the_contract() {
        let check = |constraint| check_constraint(&constraint, 3);
        check(AnyConstraint::new(Exactly { length: 2, fault: Fault::Nothing })).unwrap();
        let faulty = AnyConstraint::new(Exactly { length: 2, fault: Fault::Batch });
        assert_eq!(check(faulty).unwrap_err().rule, "a batch is its rows");
        let model = TableModel::uniform(["a", "", "b"]);
        check(AnyConstraint::new(Unconstrained::new(model.vocabulary()))).unwrap();
    }
}

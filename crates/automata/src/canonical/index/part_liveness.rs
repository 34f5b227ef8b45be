//! Safety of parts of texts: of a literal, and of a part of which some texts are left out.

use super::split_liveness::{Safety, SplitLiveness};
use crate::{Dfa, StateId, canonical::tokenizer::automaton::TokenizerAutomaton, ids::CharacterState};

impl SplitLiveness {
    /// By number of bytes read of `text`, the safety of the text as a part of longer ones. O(n) for n bytes, and the
    /// free added tokens in it.
    pub(crate) fn text_safety(&self, text: &[u8], tokenizer: &TokenizerAutomaton) -> Vec<Safety> {
        let mut safety = vec![Safety::Unknown; text.len() + 1];
        safety[text.len()] = Safety::Always;
        // By place: whether the rest can be read after a byte that may be the last but one of an added token, and
        // after one that may not.
        let mut from = vec![[false; 2]; text.len() + 1];
        from[text.len()] = [true; 2];
        for at in (0..text.len()).rev() {
            // The next character, if it is ordinary, by its bytes.
            let (mut place, mut end) = (Some(CharacterState::BETWEEN), at);
            let mut is_last = false;
            let mut by_character = false;
            for byte in &text[at..] {
                if end > at && self.last.contains(*byte) && self.last_but_one.contains(text[end - 1]) {
                    break;
                }
                is_last |= end == at && self.last.contains(*byte);
                place = place.and_then(|place| self.characters.step(place, *byte));
                end += 1;
                match place {
                    None => break,
                    Some(CharacterState::BETWEEN) => {
                        by_character = from[end][usize::from(!self.last_but_one.contains(*byte))];
                        break;
                    }
                    Some(_) => {}
                }
            }
            let by_added = (0..).zip(&tokenizer.added).any(|(number, added): (usize, _)| {
                self.free[number]
                    && text[at..].starts_with(&added.content)
                    && from[at + added.content.len()][1]
            });
            from[at] = [by_added || by_character && !is_last, by_added || by_character];
            safety[at] = match from[at] {
                [true, _] => Safety::Always,
                [false, true] => Safety::WhenCalm,
                [false, false] => Safety::Unknown,
            };
        }
        safety
    }

    /// Whether `byte` leads to a state of this safety that is certainly live, after any text.
    #[inline]
    pub(crate) fn is_live(&self, byte: u8, after: Safety) -> bool {
        byte.is_ascii()
            && !self.last.contains(byte)
            && match after {
                Safety::Always => true,
                Safety::WhenCalm => !self.last_but_one.contains(byte),
                Safety::Unknown => false,
            }
    }

    /// Whether `byte` is not the last but one byte of an added token.
    pub(crate) fn is_calm_byte(&self, byte: u8) -> bool {
        !self.last_but_one.contains(byte)
    }

    /// By state of `dfa`: whether it has more texts of ASCII characters that are ordinary and end no added token
    /// than are ever used up: texts of any length, or 2^32 of them.
    pub(crate) fn has_many(&self, dfa: &Dfa) -> Box<[bool]> {
        const MANY: u32 = u32::MAX;
        let bytes: Vec<u8> = (0..0x80u8)
            .filter(|byte| self.characters.is_character(*byte) && !self.last.contains(*byte))
            .collect();
        let safe = self.by_ascii(dfa);
        let is_safe = |state: StateId| safe[state.index()] == Safety::Always;
        let nexts = |state: StateId| {
            bytes.iter().filter_map(move |byte| dfa.step(state, *byte)).filter(|next| is_safe(*next))
        };
        let mut before: Vec<Vec<StateId>> = vec![Vec::new(); dfa.len()];
        let mut left = vec![0u32; dfa.len()];
        for state in dfa.states().filter(|state| is_safe(*state)) {
            for next in nexts(state) {
                before[next.index()].push(state);
                left[state.index()] += 1;
            }
        }
        // States are counted after all that they lead to. Those on a cycle, and before one, are never counted.
        let mut count = vec![MANY; dfa.len()];
        let mut open: Vec<StateId> =
            dfa.states().filter(|state| is_safe(*state) && left[state.index()] == 0).collect();
        while let Some(state) = open.pop() {
            let own = u32::from(dfa.is_accepting(state));
            let counts = nexts(state).map(|next| count[next.index()]);
            count[state.index()] = counts.fold(own, u32::saturating_add);
            for before in std::mem::take(&mut before[state.index()]) {
                left[before.index()] -= 1;
                if left[before.index()] == 0 {
                    open.push(before);
                }
            }
        }
        dfa.states().map(|state| is_safe(state) && count[state.index()] == MANY).collect()
    }
}

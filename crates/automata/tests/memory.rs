//! The documented memory is the memory that the allocator counts, and limits hold.
//!
//! A binary of its own, with one test, because the allocator counts for all threads.

use std::sync::Arc;

use peak_alloc::PeakAlloc;
use unskew_automata::{
    CanonicalConstraint, CanonicalIndex, LazyRegexConstraint, Limits, RegexConstraint, TokenizerAutomaton,
};
use unskew_core::{Constraint, Generations, TokenId, TokenMask};
use unskew_trie::TokenTrie;
use unskew_vocab::Tokenizer;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The result of `make`, and the memory that it leaves allocated.
fn allocated<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = HEAP.current_usage();
    let made = make();
    (made, HEAP.current_usage().saturating_sub(before))
}

#[track_caller]
fn agrees(what: &str, said: usize, counted: usize) {
    let difference = said.abs_diff(counted);
    assert!(difference <= counted / 5 + 4_096, "{what}: says {said}, and the allocator counts {counted}");
}

/// Computes masks along `outputs` texts, each of `length` tokens drawn from the masks.
fn walk<C: Constraint>(constraint: &C, scratch: &mut C::Scratch, outputs: u32, length: usize) {
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut random = 12_345u32;
    let mut ids: Vec<TokenId> = Vec::with_capacity(constraint.vocab_len());
    for _ in 0..outputs {
        let mut state = constraint.start();
        for _ in 0..length {
            constraint.fill_mask(scratch, &state, mask.as_mut());
            ids.clear();
            ids.extend(mask.ids());
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let Some(token) = ids.get((random >> 8) as usize % ids.len().max(1)) else { break };
            constraint.advance(scratch, &mut state, *token).unwrap();
        }
    }
}

#[test]
fn what_is_said_is_what_is_counted() {
    let (map, counted) = allocated(|| {
        let mut map: Generations<u32, Vec<u8>> = Generations::new(1 << 20);
        (0..20_000u32).for_each(|key| map.insert(key, vec![0; 100], 100));
        map
    });
    agrees("Generations", map.bytes(), counted);
    assert!(counted < 1 << 20 && map.evicted() > 0);

    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    let vocabulary = Arc::clone(tokenizer.vocabulary());
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = Limits::default();

    // Lazy constraints, in bounded memory.
    let lazy = |pattern: &str, limits: &Limits| {
        LazyRegexConstraint::new(pattern, Arc::clone(&trie), limits).unwrap()
    };
    let pattern = r"\w{0,1000}x\w{0,1000}";
    let (constraint, counted) = allocated(|| lazy(pattern, &limits));
    agrees("LazyRegexConstraint", constraint.memory_usage(), counted);
    let (chain, counted) = allocated(|| lazy(&"a?b?".repeat(50_000), &limits));
    agrees("LazyRegexConstraint of a chain", chain.memory_usage(), counted);
    for bytes in [4 << 20, 32 << 20] {
        let constraint = lazy(pattern, &limits.clone().lazy_bytes(bytes));
        let (scratch, counted) = allocated(|| {
            let mut scratch = constraint.scratch();
            walk(&constraint, &mut scratch, 4, 40);
            scratch
        });
        agrees("LazyScratch", scratch.memory_usage(), counted);
        assert!(counted < 2 * bytes, "{counted} of {bytes}");
        // The cache keeps masks: no mask evicts the others.
        assert!(counted > 1 << 20, "{counted} of {bytes}");
    }

    let constraint = RegexConstraint::new(r"[a-z ]{1,300}", Arc::clone(&trie), &limits).unwrap();
    let before = constraint.memory_usage();
    let ((), counted) = allocated(|| walk(&constraint, &mut (), 10, 200));
    agrees("RegexConstraint", constraint.memory_usage() - before, counted);

    // The first automaton fills tables of the process, which are not a part of it.
    let new = || TokenizerAutomaton::new(&vocabulary, tokenizer.tokenization().unwrap()).unwrap();
    drop(new());
    let (automaton, counted) = allocated(new);
    agrees("TokenizerAutomaton", automaton.memory_usage(), counted);
    let automaton = Arc::new(automaton);
    let index = || Arc::new(CanonicalIndex::new(Arc::clone(&automaton), Arc::clone(&trie)).unwrap());
    let pattern = r"(?:[\w ,.]|é|\n){0,400}";
    let small = limits.clone().lazy_bytes(1 << 20).mask_cache_bytes(1 << 18);
    let fill = |index: &Arc<CanonicalIndex>| {
        let constraint = CanonicalConstraint::new(pattern, index, &small).unwrap();
        let mut scratch = constraint.scratch();
        walk(&constraint, &mut scratch, 10, 60);
    };
    fill(&index());
    let (filled, counted) = allocated(|| {
        let index = index();
        fill(&index);
        index
    });
    agrees("CanonicalIndex", filled.memory_usage(), counted);

    let (constraint, counted) = allocated(|| CanonicalConstraint::new(pattern, &filled, &small).unwrap());
    agrees("CanonicalConstraint", constraint.memory_usage(), counted);
    #[cfg(feature = "published")]
    {
        use unskew_automata::published::{VegasConstraint, VegasLibrary};
        let dfa = unskew_automata::Dfa::from_pattern(r"[a-z]{1,9}(?: [a-z]{1,9}){0,4}\.", &small).unwrap();
        let library = VegasLibrary::new(&filled, 32 << 20);
        let whole = || VegasConstraint::new(&dfa, &filled, &library, &small).unwrap();
        drop(whole());
        let (constraint, counted) = allocated(whole);
        agrees("VegasConstraint", constraint.memory_usage(), counted);
    }

    let constraint = CanonicalConstraint::new(pattern, &filled, &small).unwrap();
    walk(&constraint, &mut constraint.scratch(), 10, 60);
    let (scratch, counted) = allocated(|| {
        let mut scratch = constraint.scratch();
        walk(&constraint, &mut scratch, 10, 60);
        scratch
    });
    agrees("CanonicalScratch", scratch.memory_usage(), counted);
    assert!(counted < 2 * (small.lazy_bytes + small.mask_cache_bytes), "{counted}");
}

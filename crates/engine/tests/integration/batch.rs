//! Batches beside one row at a time, with draft chains and trees, on any number of threads.

use std::sync::Arc;

use crate::common::{Random, bytes, ids, specs};
use unskew_core::TokenId;
use unskew_engine::{BatchRow, Compiler, DraftNode, Drafts, Matcher, MatcherError, fill_batch};

/// The rows of one sequence, by forks.
fn expected(matcher: &Matcher, nodes: &[DraftNode]) -> Vec<Vec<u32>> {
    let row = |matcher: &Matcher| {
        let mut row = vec![0; matcher.mask_words()];
        matcher.fill(&mut row).unwrap();
        row
    };
    // `None`: nothing is allowed after it any more.
    let mut behind: Vec<(Option<Matcher>, Vec<u32>)> = Vec::new();
    for node in nodes {
        let (before, last) = match node.parent {
            Some(parent) => behind[parent].clone(),
            None => (Some(matcher.fork()), row(matcher)),
        };
        let next = before.and_then(|mut fork| fork.accept(node.token).unwrap().then_some(fork));
        let filled = next.as_ref().map_or(last, row);
        behind.push((next, filled));
    }
    std::iter::once(row(matcher)).chain(behind.into_iter().map(|(_, row)| row)).collect()
}

#[test]
fn it_is_one_row_at_a_time() {
    let space = bytes();
    let compiler = Compiler::new(Arc::clone(&space));
    let mut random = Random::new(5);
    let mut matchers = Vec::new();
    for spec in specs().iter().filter(|spec| !spec.canonical) {
        let mut matcher = compiler.compile(spec).unwrap().matcher();
        for _ in 0..20 {
            matchers.push(matcher.fork());
            let mut row = vec![0; matcher.mask_words()];
            matcher.fill(&mut row).unwrap();
            let token = *random.pick(&ids(&row));
            assert!(matcher.accept(token).unwrap());
            if matcher.is_terminated() {
                matchers.push(matcher.fork());
                matcher.reset();
            }
        }
    }
    let words = compiler.mask_words() + 1;
    let pools: Vec<_> =
        [1, 2, 8].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap()).into();
    for round in 0..6 {
        let trees: Vec<Vec<DraftNode>> = matchers
            .iter()
            .map(|matcher| {
                let mut nodes: Vec<DraftNode> = Vec::new();
                for at in 0..random.below(6) {
                    let parent =
                        if round % 2 == 0 { at.checked_sub(1) } else { (0..at).nth(random.below(at + 1)) };
                    let rows = expected(matcher, &nodes);
                    let mask = ids(&rows[parent.map_or(0, |parent| parent + 1)]);
                    let any = TokenId::from_index(random.below(space.vocabulary().len()));
                    let token =
                        if random.below(5) == 0 || mask.is_empty() { any } else { *random.pick(&mask) };
                    nodes.push(DraftNode { token, parent });
                }
                nodes
            })
            .collect();
        let chains: Vec<Vec<TokenId>> =
            trees.iter().map(|nodes| nodes.iter().map(|node| node.token).collect()).collect();
        // Rows in no order, with some that nobody asks for.
        let mut order: Vec<usize> = (0..matchers.len()).collect();
        for at in 1..order.len() {
            order.swap(at, random.below(at + 1));
        }
        let (mut batch, mut next, mut wanted) = (Vec::new(), 0, Vec::new());
        for at in order {
            let drafts = if round % 2 == 0 { Drafts::Chain(&chains[at]) } else { Drafts::Tree(&trees[at]) };
            batch.push(BatchRow { matcher: &matchers[at], row: next, drafts });
            wanted.push((next, expected(&matchers[at], &trees[at])));
            next += 1 + trees[at].len() + random.below(2);
        }
        let mut expected = vec![7; (next + 1) * words];
        for (first, rows) in wanted {
            for (at, row) in rows.iter().enumerate() {
                let place = &mut expected[(first + at) * words..(first + at + 1) * words];
                place.fill(0);
                place[..row.len()].copy_from_slice(row);
            }
        }
        let mut masks = vec![7; expected.len()];
        fill_batch(&batch, &mut masks, words, None).unwrap();
        assert!(masks == expected);
        for pool in &pools {
            masks.fill(7);
            fill_batch(&batch, &mut masks, words, Some(pool)).unwrap();
            assert!(masks == expected, "{} threads", pool.current_num_threads());
        }
    }
}

#[test]
fn wrong_use_is_an_error() {
    let compiler = Compiler::new(bytes());
    let matcher = compiler.compile(&specs()[0]).unwrap().matcher();
    let words = compiler.mask_words();
    let mut masks = vec![0; 3 * words];
    let row = |row, drafts| BatchRow { matcher: &matcher, row, drafts };
    let mut fill = |batch: &[BatchRow<'_>], words| fill_batch(batch, &mut masks, words, None);
    let a = [TokenId(97)];
    let itself = [DraftNode { token: a[0], parent: Some(0) }];
    assert!(fill(&[row(0, Drafts::NONE), row(2, Drafts::NONE)], words).is_ok());
    for batch in [
        vec![row(0, Drafts::NONE), row(0, Drafts::NONE)],
        vec![row(3, Drafts::NONE)],
        vec![row(2, Drafts::Chain(&a))],
        vec![row(usize::MAX, Drafts::Chain(&a))],
        vec![row(0, Drafts::Tree(&itself))],
    ] {
        assert!(matches!(fill(&batch, words), Err(MatcherError::Batch(_))), "{batch:?}");
    }
    assert!(matches!(fill(&[row(0, Drafts::NONE)], words - 1), Err(MatcherError::ShortRow { .. })));
    assert!(matches!(fill(&[row(0, Drafts::NONE)], 0), Err(MatcherError::ShortRow { .. })));
    let beyond = [TokenId(100_000)];
    assert!(matches!(
        fill(&[row(0, Drafts::Chain(&beyond))], words),
        Err(MatcherError::BeyondVocabulary { .. })
    ));
    assert!(fill(&[], 0).is_ok());
}

#[test]
fn eight_threads_share_a_compiler() {
    let space = bytes();
    let compiler = Compiler::new(space);
    let specs = specs();
    let rows = |seed: u64| {
        let mut random = Random::new(seed);
        let mut all = Vec::new();
        for spec in specs.iter().filter(|spec| !spec.canonical) {
            let mut matcher = compiler.compile(spec).unwrap().matcher();
            for _ in 0..30 {
                let mut row = vec![0; matcher.mask_words()];
                matcher.fill(&mut row).unwrap();
                let token = *random.pick(&ids(&row));
                if !matcher.accept(token).unwrap() {
                    matcher.reset();
                }
                all.extend(row);
            }
        }
        all
    };
    let expected: Vec<Vec<u32>> = (0..8).map(rows).collect();
    compiler.clear();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || rows(seed))).collect();
        for (thread, expected) in threads.into_iter().zip(&expected) {
            assert!(thread.join().unwrap() == *expected);
        }
    });
}

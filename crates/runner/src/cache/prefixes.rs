//! The prefixes whose keys and values a model remembers: a radix tree over pages, bounded in bytes.
//!
//! A node is a page of some sequence: its key are the [`PAGE`] tokens of the page, and its path from the root are the
//! tokens before them. Keys and values are a function of the tokens, so that any sequence with the same tokens may
//! take the page. Requests that begin with one prompt read it once, and so do the walks of one sampler after another.
//!
//! Pages that were not used for longest go first, leaves before what they hang on. They are looked for when the limit
//! is passed, and an eighth of all goes at a time, so that a search through all nodes is rare. Tried instead: a heap
//! of leaves by their last use. Each step along a path changes an entry of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use unskew_core::TokenId;

use crate::cache::{Cache, PAGE, Page};
use crate::math::rotary::Regime;

/// The tokens of a page.
type Key = [TokenId; PAGE];

/// The regimes whose pages are kept; others are of one length only.
const REGIMES: usize = 2;

#[derive(Debug)]
struct Node {
    page: Arc<Page>,
    key: Key,
    /// `None`: the root of the regime.
    parent: Option<usize>,
    regime: Regime,
    children: HashMap<Key, usize>,
    /// The number of the last search that passed it.
    used: u64,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Prefixes {
    nodes: Vec<Option<Node>>,
    /// Places of nodes that are gone.
    free: Vec<usize>,
    roots: [HashMap<Key, usize>; REGIMES],
    page_bytes: usize,
    limit: usize,
    clock: u64,
}

impl Prefixes {
    /// For pages of a size, up to `limit` bytes of them.
    pub(crate) fn new(page_bytes: usize, limit: usize) -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            roots: Default::default(),
            page_bytes: page_bytes.max(1),
            limit,
            clock: 0,
        }
    }

    /// Sets the limit, and forgets what is beyond it.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.evict();
    }

    fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// The bytes of all pages.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * self.page_bytes
    }

    /// Whether pages of a regime are remembered.
    pub(crate) fn keeps(&self, regime: Regime) -> bool {
        regime < REGIMES && self.limit >= self.page_bytes
    }

    /// The known ones of the first `pages` pages of a text, first to last.
    pub(crate) fn find(
        &mut self,
        regime: Regime,
        pages: usize,
        token: impl Fn(usize) -> TokenId,
    ) -> Vec<Arc<Page>> {
        self.clock += 1;
        let mut found = Vec::new();
        let mut children = &self.roots[regime];
        let mut path = Vec::new();
        for number in 0..pages {
            let key: Key = std::array::from_fn(|at| token(number * PAGE + at));
            let Some(index) = children.get(&key) else { break };
            let node = self.nodes[*index].as_ref().expect("a child is a node");
            found.push(Arc::clone(&node.page));
            path.push(*index);
            children = &node.children;
        }
        for index in path {
            self.nodes[index].as_mut().expect("a child is a node").used = self.clock;
        }
        found
    }

    /// Remembers the pages of a text, all of them full. The cache takes pages that are known already, so that there
    /// is one of each.
    pub(crate) fn store(&mut self, regime: Regime, tokens: &[TokenId], cache: &mut Cache) {
        self.clock += 1;
        let mut parent: Option<usize> = None;
        let (keys, _) = tokens.as_chunks::<PAGE>();
        for (number, key) in keys.iter().enumerate() {
            let children = match parent {
                Some(index) => &self.nodes[index].as_ref().expect("a parent is a node").children,
                None => &self.roots[regime],
            };
            let index = match children.get(key) {
                Some(index) => {
                    let index = *index;
                    let node = self.nodes[index].as_mut().expect("a child is a node");
                    node.used = self.clock;
                    if !Arc::ptr_eq(&node.page, &cache.pages()[number]) {
                        cache.put(number, Arc::clone(&node.page));
                    }
                    index
                }
                None => self.insert(regime, parent, *key, &cache.pages()[number]),
            };
            parent = Some(index);
        }
        self.evict();
    }

    fn insert(&mut self, regime: Regime, parent: Option<usize>, key: Key, page: &Arc<Page>) -> usize {
        let node =
            Node { page: Arc::clone(page), key, parent, regime, children: HashMap::new(), used: self.clock };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index] = Some(node);
                index
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        };
        self.children(regime, parent).insert(key, index);
        index
    }

    fn children(&mut self, regime: Regime, parent: Option<usize>) -> &mut HashMap<Key, usize> {
        match parent {
            Some(index) => &mut self.nodes[index].as_mut().expect("a parent is a node").children,
            None => &mut self.roots[regime],
        }
    }

    /// Forgets pages until there is room for an eighth of the limit.
    fn evict(&mut self) {
        if self.bytes() <= self.limit {
            return;
        }
        let most = (self.limit - self.limit / 8) / self.page_bytes;
        let leaves = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let node = node.as_ref()?;
            node.children.is_empty().then_some(Reverse((node.used, index)))
        });
        let mut leaves: BinaryHeap<_> = leaves.collect();
        while self.len() > most
            && let Some(Reverse((_, index))) = leaves.pop()
        {
            // A parent without other children is a leaf from now on.
            if let Some(parent) = self.forget(index)
                && let Some(node) = &self.nodes[parent]
                && node.children.is_empty()
            {
                leaves.push(Reverse((node.used, parent)));
            }
        }
    }

    /// Forgets a leaf, and returns its parent.
    fn forget(&mut self, index: usize) -> Option<usize> {
        let Node { parent, regime, key, .. } = self.nodes[index].take().expect("a leaf is a node");
        self.free.push(index);
        self.children(regime, parent).remove(&key);
        parent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use unskew_core::TokenId;

    use super::Prefixes;
    use crate::cache::{Cache, Heads, PAGE};
    use crate::config::ModelConfig;

    fn heads() -> Heads {
        let config = ModelConfig::from_json(
            r#"{"model_type": "llama", "hidden_size": 2, "intermediate_size": 1, "num_hidden_layers": 1,
                "num_attention_heads": 1, "vocab_size": 3}"#,
        );
        Heads::new(&config.unwrap())
    }

    /// A text of pages, each page of one token.
    fn text(pages: &[u32]) -> Vec<TokenId> {
        pages.iter().flat_map(|page| [TokenId(*page); PAGE]).collect()
    }

    fn cache(pages: usize) -> Cache {
        let mut cache = Cache::default();
        cache.reserve(0, pages * PAGE, &heads());
        cache
    }

    fn known(prefixes: &mut Prefixes, pages: &[u32]) -> usize {
        let text = text(pages);
        prefixes.find(0, pages.len(), |position| text[position]).len()
    }

    #[test]
    fn the_least_used_goes_first() {
        let page = heads().page_bytes();
        let mut prefixes = Prefixes::new(page, 8 * page);
        prefixes.store(0, &text(&[1, 2, 3, 4]), &mut cache(4));
        prefixes.store(0, &text(&[1, 2, 5, 6]), &mut cache(4));
        assert_eq!(prefixes.bytes(), 6 * page);
        assert_eq!(known(&mut prefixes, &[1, 2, 3, 4]), 4);
        // Nine pages are one too many, and one more goes with it.
        prefixes.store(0, &text(&[7, 7, 7]), &mut cache(3));
        assert_eq!(prefixes.bytes(), 7 * page);
        assert_eq!(known(&mut prefixes, &[1, 2, 5, 6]), 2);
        assert_eq!(known(&mut prefixes, &[1, 2, 3, 4]), 4);
        assert_eq!(known(&mut prefixes, &[7, 7, 7]), 3);
        prefixes.set_limit(0);
        assert_eq!((prefixes.bytes(), prefixes.keeps(0)), (0, false));
    }

    #[test]
    fn a_page_is_kept_once() {
        let page = heads().page_bytes();
        let mut prefixes = Prefixes::new(page, 8 * page);
        let (mut one, mut other) = (cache(2), cache(2));
        prefixes.store(0, &text(&[1, 2]), &mut one);
        prefixes.store(0, &text(&[1, 3]), &mut other);
        assert!(Arc::ptr_eq(&one.pages()[0], &other.pages()[0]));
        assert!(!Arc::ptr_eq(&one.pages()[1], &other.pages()[1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The bound holds after every text, the newest text that fits is known whole, and nothing else than prefixes
        /// of stored texts is known.
        #[test]
        fn the_bound_holds(
            limit in 0_usize..12,
            texts in proptest::collection::vec(proptest::collection::vec(0_u32..3, 1..6), 1..30),
        ) {
            let page = heads().page_bytes();
            let mut prefixes = Prefixes::new(page, limit * page);
            for (number, pages) in texts.iter().enumerate() {
                if prefixes.keeps(0) {
                    prefixes.store(0, &text(pages), &mut cache(pages.len()));
                }
                prop_assert!(prefixes.bytes() <= limit * page);
                if pages.len() <= limit - limit.div_ceil(8).min(limit) {
                    prop_assert_eq!(known(&mut prefixes, pages), pages.len());
                }
                for other in &texts {
                    let len = known(&mut prefixes, other);
                    let seen = texts[..=number].iter().any(|text| text.starts_with(&other[..len]));
                    prop_assert!(seen);
                }
            }
        }
    }
}

//! Sequences under a constraint: `unskew.Matcher`, and the calls for many of them.
//!
//! A mask is made without the interpreter lock, in an array of numpy where it is one. Two threads may fill one
//! matcher at once. A change of a matcher while another thread reads it is Python's `RuntimeError`.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::{prelude::*, types::PyBytes};
use rayon::{ThreadPool, ThreadPoolBuilder};
use unskew::{
    core::TokenId,
    engine::{self, BatchRow, DraftNode, Drafts, MatcherOptions},
};

use crate::{
    capture::{self, Capture},
    compiler::Compiled,
    error::{Class, guarded, of_matcher},
    tokenizer::{ids, numbers},
    view::Masks,
};

/// The rows of a batch from which on threads pay.
const MANY_ROWS: usize = 16;

/// The most threads that a caller may ask for.
const MAX_THREADS: usize = 256;

/// The most forced tokens that are listed where nothing else is said.
const FORCED: usize = 1024;

/// One sequence of tokens under a constraint.
#[pyclass(module = "unskew")]
#[derive(Debug)]
pub(crate) struct Matcher {
    matcher: engine::Matcher,
}

#[pymethods]
impl Matcher {
    #[new]
    #[pyo3(signature = (compiled, *, stop_ids=None))]
    fn new(compiled: &Compiled, stop_ids: Option<Vec<u32>>) -> PyResult<Self> {
        let mut options = MatcherOptions::default();
        options.stop_ids = stop_ids.map(|stop_ids| ids(&stop_ids));
        guarded(|| {
            let matcher = engine::Matcher::new(&compiled.compiled, options);
            matcher.map(|matcher| Self { matcher }).map_err(|error| of_matcher(&error))
        })
    }

    /// Writes the mask of the next token into a row of `mask`.
    #[pyo3(signature = (mask, row=0))]
    fn fill(&self, py: Python<'_>, mask: &Bound<'_, PyAny>, row: usize) -> PyResult<()> {
        guarded(|| {
            let mut masks = Masks::new(mask, self.matcher.mask_words())?;
            masks.check(row)?;
            let len = masks.words();
            masks.make(py, &[row], |words, places| {
                let first = places[0] * len;
                self.matcher.fill(&mut words[first..first + len]).map_err(|error| of_matcher(&error))
            })
        })
    }

    /// Appends a token. False: it is not allowed here, and nothing has changed.
    fn accept(&mut self, id: u32) -> PyResult<bool> {
        guarded(|| self.matcher.accept(TokenId(id)).map_err(|error| of_matcher(&error)))
    }

    /// Appends the longest allowed beginning of `ids`; answers with its length.
    #[pyo3(name = "accept_all")]
    fn accept_many(
        &mut self,
        py: Python<'_>,
        #[pyo3(from_py_with = token_ids)] ids: Vec<TokenId>,
    ) -> PyResult<usize> {
        let matcher = &mut self.matcher;
        guarded(|| py.detach(|| matcher.accept_all(&ids)).map_err(|error| of_matcher(&error)))
    }

    /// The length of the longest allowed beginning of `ids`. Nothing changes.
    fn validate(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = token_ids)] ids: Vec<TokenId>,
    ) -> PyResult<usize> {
        guarded(|| py.detach(|| self.matcher.validate(&ids)).map_err(|error| of_matcher(&error)))
    }

    /// Takes back the last `count` tokens, the end among them.
    fn rollback(&mut self, py: Python<'_>, count: usize) -> PyResult<()> {
        let matcher = &mut self.matcher;
        guarded(|| py.detach(|| matcher.rollback(count)).map_err(|error| of_matcher(&error)))
    }

    /// A second matcher at the same place.
    fn fork(&self) -> Self {
        Self { matcher: self.matcher.fork() }
    }

    fn __copy__(&self) -> Self {
        self.fork()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.fork()
    }

    /// Back to the start.
    fn reset(&mut self) {
        self.matcher.reset();
    }

    /// The tokens that follow in any case, each the only one allowed. To take them changes no distribution.
    #[pyo3(signature = (most=FORCED))]
    fn forced(&self, py: Python<'_>, most: usize) -> PyResult<Vec<u32>> {
        let forced =
            guarded(|| py.detach(|| self.matcher.forced_tokens(most)).map_err(|error| of_matcher(&error)));
        forced.map(|ids| numbers(&ids))
    }

    /// Bytes that every continuation begins with.
    #[pyo3(signature = (most=FORCED))]
    fn forced_text<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        let forced =
            guarded(|| py.detach(|| self.matcher.forced_text(most)).map_err(|error| of_matcher(&error)));
        forced.map(|bytes| PyBytes::new(py, &bytes))
    }

    /// Whether the output may end here.
    fn is_accepting(&self) -> bool {
        self.matcher.is_accepting()
    }

    /// Whether a stop id was accepted.
    fn is_terminated(&self) -> bool {
        self.matcher.is_terminated()
    }

    /// The parts of the output that the constraint names; None where the output is not whole.
    fn captures(&self, py: Python<'_>) -> PyResult<Option<Vec<Capture>>> {
        guarded(|| capture::of_result(py.detach(|| self.matcher.captures()), Class::Matcher))
    }

    /// The temperature that the constraint asks for at the next token, or None.
    fn temperature(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let temperature = || py.detach(|| self.matcher.temperature());
        guarded(|| temperature().map_err(|error| Class::Matcher.error(error.to_string())))
    }

    /// The ids so far, the end among them.
    #[getter]
    fn ids(&self) -> Vec<u32> {
        numbers(self.matcher.tokens())
    }

    /// The ids that end the output.
    #[getter]
    fn stop_ids(&self) -> Vec<u32> {
        numbers(self.matcher.stop_ids())
    }

    /// How many words of 32 bits a mask has.
    #[getter]
    fn mask_words(&self) -> usize {
        self.matcher.mask_words()
    }

    fn __repr__(&self) -> String {
        let place = match (self.matcher.is_terminated(), self.matcher.is_accepting()) {
            (true, _) => "ended",
            (false, true) => "may end",
            (false, false) => "may not end",
        };
        format!("<unskew.Matcher at {} ids, {place}>", self.matcher.tokens().len())
    }
}

/// Ids of any sequence of numbers.
fn token_ids(object: &Bound<'_, PyAny>) -> PyResult<Vec<TokenId>> {
    object.extract::<Vec<u32>>().map(|numbers| ids(&numbers))
}

/// Writes the masks of many matchers in one call, each into the row that `rows` says (default: one after the other).
/// With `drafts`, the masks after each draft token of a matcher come in the rows after its own; with `parents`,
/// drafts are trees.
#[pyfunction]
#[pyo3(signature = (matchers, mask, *, rows=None, drafts=None, parents=None, threads=None))]
#[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
pub(crate) fn fill_batch(
    py: Python<'_>,
    matchers: Vec<PyRef<'_, Matcher>>,
    mask: &Bound<'_, PyAny>,
    rows: Option<Vec<usize>>,
    drafts: Option<Vec<Vec<u32>>>,
    parents: Option<Vec<Vec<isize>>>,
    threads: Option<usize>,
) -> PyResult<()> {
    let Some(words) = matchers.iter().map(|matcher| matcher.matcher.mask_words()).max() else {
        return Ok(());
    };
    let count = matchers.len();
    let given = [
        ("rows", rows.as_ref().map(Vec::len)),
        ("drafts", drafts.as_ref().map(Vec::len)),
        ("parents", parents.as_ref().map(Vec::len)),
    ];
    for (what, len) in given {
        if let Some(len) = len.filter(|len| *len != count) {
            return Err(Class::Matcher.error(format!("`{what}` has {len} entries for {count} matchers")));
        }
    }
    let drafts: Vec<Vec<TokenId>> = match drafts {
        Some(drafts) => drafts.iter().map(|draft| ids(draft)).collect(),
        None => vec![Vec::new(); count],
    };
    let trees = parents.map(|parents| trees(&drafts, &parents)).transpose()?;
    let mut masks = guarded(|| Masks::new(mask, words))?;
    let words = masks.words();
    // The place of each row, and of the first row of each matcher among them.
    let (mut places, mut firsts) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (at, draft) in drafts.iter().enumerate() {
        let first = rows.as_ref().map_or(places.len(), |rows| rows[at]);
        firsts.push(places.len());
        for place in first..=first.saturating_add(draft.len()) {
            masks.check(place)?;
            places.push(place);
        }
    }
    let mut sorted = places.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Class::Matcher.error(format!("row {} is asked for twice", twice[0])));
    }
    let pool = pool(threads, places.len())?;
    let matchers: Vec<&engine::Matcher> = matchers.iter().map(|matcher| &matcher.matcher).collect();
    let fill = |made: &mut [u32], places: &[usize]| {
        let batch = matchers.iter().zip(&firsts).enumerate().map(|(at, (matcher, first))| {
            let drafts = match &trees {
                Some(trees) => Drafts::Tree(&trees[at]),
                None => Drafts::Chain(&drafts[at]),
            };
            BatchRow { matcher, row: places[*first], drafts }
        });
        let batch: Vec<BatchRow<'_>> = batch.collect();
        engine::fill_batch(&batch, made, words, pool.as_deref()).map_err(|error| of_matcher(&error))
    };
    guarded(|| masks.make(py, &places, fill))
}

/// Draft tokens with the places of those before them; -1 stands for the sequence.
fn trees(drafts: &[Vec<TokenId>], parents: &[Vec<isize>]) -> PyResult<Vec<Vec<DraftNode>>> {
    let of_one = |(tokens, parents): (&Vec<TokenId>, &Vec<isize>)| {
        if tokens.len() != parents.len() {
            let (tokens, parents) = (tokens.len(), parents.len());
            let message =
                format!("a draft has {tokens} tokens and {parents} parents: give one for each token");
            return Err(Class::Matcher.error(message));
        }
        let node = |(token, parent): (&TokenId, &isize)| {
            match usize::try_from(*parent) {
            Ok(parent) => Ok(DraftNode { token: *token, parent: Some(parent) }),
            Err(_) if *parent == -1 => Ok(DraftNode { token: *token, parent: None }),
            Err(_) => Err(Class::Matcher.error(format!(
                "the parent {parent} of a draft token is none: give the place of an earlier token of the draft, or -1"
            ))),
        }
        };
        tokens.iter().zip(parents).map(node).collect()
    };
    drafts.iter().zip(parents).map(of_one).collect()
}

/// Appends one token to each matcher; answers with whether it was allowed, one by one.
#[pyfunction]
pub(crate) fn accept_batch(
    py: Python<'_>,
    mut matchers: Vec<PyRefMut<'_, Matcher>>,
    #[pyo3(from_py_with = token_ids)] ids: Vec<TokenId>,
) -> PyResult<Vec<bool>> {
    if ids.len() != matchers.len() {
        let message = format!("`ids` has {} entries for {} matchers", ids.len(), matchers.len());
        return Err(Class::Matcher.error(message));
    }
    let mut of: Vec<&mut engine::Matcher> = matchers.iter_mut().map(|matcher| &mut matcher.matcher).collect();
    let mut accept =
        || of.iter_mut().zip(&ids).map(|(matcher, id)| matcher.accept(*id)).collect::<Result<_, _>>();
    guarded(|| py.detach(&mut accept).map_err(|error| of_matcher(&error)))
}

/// A pool of threads, of the process that made it: after a fork, its threads are not there.
struct Pool {
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

/// The threads for so many rows; none: the caller does the work.
fn pool(threads: Option<usize>, rows: usize) -> PyResult<Option<Arc<ThreadPool>>> {
    static POOL: Mutex<Option<Pool>> = Mutex::new(None);
    let threads = match threads {
        None if rows < MANY_ROWS => 1,
        None => std::thread::available_parallelism().map_or(1, usize::from),
        Some(threads) if (1..=MAX_THREADS).contains(&threads) => threads,
        Some(threads) => {
            let message = format!("`threads` is {threads}: give 1 to {MAX_THREADS}");
            return Err(Class::Matcher.error(message));
        }
    };
    if threads == 1 {
        return Ok(None);
    }
    let process = std::process::id();
    let mut kept = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = kept.as_ref().filter(|pool| (pool.process, pool.threads) == (process, threads)) {
        return Ok(Some(Arc::clone(&pool.pool)));
    }
    let made = ThreadPoolBuilder::new().num_threads(threads).thread_name(|at| format!("unskew-{at}")).build();
    let pool = Arc::new(
        made.map_err(|error| Class::Matcher.error(format!("`threads` cannot be started: {error}")))?,
    );
    let before = kept.replace(Pool { process, threads, pool: Arc::clone(&pool) });
    // The end of a pool waits for threads, which those of another process cannot answer.
    if let Some(before) = before.filter(|before| before.process != process) {
        std::mem::forget(before);
    }
    Ok(Some(pool))
}

//! Memory of the caller: rows of masks, and rows of logits.
//!
//! Anything with Python's buffer protocol is taken: arrays of numpy and of the standard library, `bytearray`, and
//! tensors of torch on the CPU by their `numpy()`. Other arrays on the CPU are taken by `__dlpack__`, where numpy is
//! installed.
//!
//! Masks are written into arrays of numpy in place ([`Array`]), while nobody else has borrowed the array. Everything
//! else, and an array that another thread fills at the same time, is read and written through a `memoryview`, a few
//! hundred nanoseconds each time; [`Rows`] looks at the object once.
//!
//! Tried instead: pyo3's `PyBuffer`. Its slices are deprecated as unsound, its copies are of whole buffers alone, and
//! the stable ABI has it from Python 3.11 on.

use std::cell::RefCell;

use numpy::{
    PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArray2, PyReadwriteArrayDyn, PyUntypedArrayMethods,
};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyMemoryView, PySlice, PyString, PyTuple},
};

use crate::error::{Class, guarded};

/// An object of another array library as an array of numpy, over the same memory.
///
/// Tried instead: the capsule itself. Its pointer is read with unsafe code.
fn from_dlpack<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let Ok(numpy) = py.import(intern!(py, "numpy")) else {
        let message =
            format!("`{what}` has no buffer, and its `__dlpack__` is read by numpy, which is not installed");
        return Err(Class::Matcher.error(message));
    };
    numpy.call_method1(intern!(py, "from_dlpack"), (object,)).map_err(|error| {
        Class::Matcher.error(format!("`{what}` cannot be read where it is: {}", error.value(py)))
    })
}

/// The bytes of a word of a mask.
const WORD: usize = size_of::<u32>();

/// The bytes of a logit.
const LOGIT: usize = size_of::<f32>();

/// A buffer as a line of bytes, with its format and shape before that.
struct View<'py> {
    bytes: Bound<'py, PyAny>,
    /// The array of numpy over this memory, if there is one.
    array: Option<Bound<'py, PyAny>>,
    format: char,
    item: usize,
    shape: Vec<usize>,
}

impl<'py> View<'py> {
    /// `what` names the argument in errors.
    fn new(object: &Bound<'py, PyAny>, what: &str, writable: bool) -> PyResult<Self> {
        let py = object.py();
        let (view, array) = match PyMemoryView::from(object) {
            Ok(view) => (view, object.clone()),
            Err(_) if object.hasattr(intern!(py, "detach"))? && object.hasattr(intern!(py, "numpy"))? => {
                let array = object.call_method0(intern!(py, "detach"))?.call_method0(intern!(py, "numpy"))?;
                (PyMemoryView::from(&array)?, array)
            }
            Err(_) if object.hasattr(intern!(py, "__dlpack__"))? => {
                let array = from_dlpack(object, what)?;
                (PyMemoryView::from(&array)?, array)
            }
            Err(error) => return Err(error),
        };
        if writable && view.getattr(intern!(py, "readonly"))?.extract()? {
            return Err(Class::Matcher.error(format!("`{what}` is read-only memory")));
        }
        if !view.getattr(intern!(py, "c_contiguous"))?.extract::<bool>()? {
            return Err(Class::Matcher
                .error(format!("`{what}` does not lie in one piece, row by row: copy it first")));
        }
        let is_array = is_numpy(&array);
        if is_array
            && !array.getattr(intern!(py, "flags"))?.getattr(intern!(py, "aligned"))?.extract::<bool>()?
        {
            return Err(Class::Matcher.error(format!(
                "`{what}` is not aligned: its numbers lie across words of the memory: copy it first"
            )));
        }
        let format = view.getattr(intern!(py, "format"))?;
        // Byte order and alignment may stand in front.
        let format = format.cast::<PyString>()?.to_cow()?.chars().last().unwrap_or('B');
        let item = view.getattr(intern!(py, "itemsize"))?.extract()?;
        let shape = view.getattr(intern!(py, "shape"))?;
        let shape =
            shape.cast::<PyTuple>()?.iter().map(|len| len.extract()).collect::<PyResult<Vec<usize>>>()?;
        if shape.contains(&0) {
            return Err(Class::Matcher.error(format!("`{what}` is empty")));
        }
        let bytes = view.call_method1(intern!(py, "cast"), (intern!(py, "B"),))?;
        let array = is_array.then_some(array);
        Ok(Self { bytes, array, format, item, shape })
    }

    fn write(&self, at: usize, bytes: &[u8]) -> PyResult<()> {
        write(&self.bytes, at, bytes)
    }

    fn read(&self, at: usize, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        let py = self.bytes.py();
        let part = self.bytes.get_item(stretch(py, at, len))?;
        Ok(part.call_method0(intern!(py, "tobytes"))?.cast_into()?)
    }

    /// Rows and their items, where it has one dimension or two.
    fn rows(&self, what: &str) -> PyResult<(usize, usize)> {
        match self.shape[..] {
            [len] => Ok((1, len)),
            [rows, len] => Ok((rows, len)),
            _ => {
                Err(Class::Matcher
                    .error(format!("`{what}` has {} dimensions: give 1 or 2", self.shape.len())))
            }
        }
    }

    /// Rows of a mask and the words of one. A line of items holds rows of `words` words.
    fn masks(&self, words: usize) -> PyResult<(usize, usize)> {
        let whole = match (self.format, self.item) {
            ('i' | 'I' | 'l' | 'L', WORD) => 1,
            ('B' | 'b' | 'c', 1) => WORD,
            (format, item) => {
                let message =
                    format!("a mask is of int32, uint32 or bytes, not of items of {item} bytes ({format:?})");
                return Err(Class::Matcher.error(message));
            }
        };
        let (rows, items) = self.rows("mask")?;
        if items % whole != 0 {
            return Err(Class::Matcher
                .error(format!("a row of {items} bytes is no whole number of words of 4 bytes")));
        }
        let len = items / whole;
        if len < words {
            return Err(Class::Matcher
                .error(format!("a row of {len} words is too short for a mask of {words} words")));
        }
        if self.shape.len() == 2 {
            return Ok((rows, len));
        }
        if len % words != 0 {
            let message = format!(
                "`mask` has {len} words in a line, which are no whole number of rows of {words} words"
            );
            return Err(Class::Matcher.error(message));
        }
        Ok((len / words, words))
    }

    fn is_f32(&self) -> bool {
        (self.format, self.item) == ('f', LOGIT)
    }
}

fn write(view: &Bound<'_, PyAny>, at: usize, bytes: &[u8]) -> PyResult<()> {
    let py = view.py();
    view.set_item(stretch(py, at, bytes.len()), PyBytes::new(py, bytes))
}

fn stretch(py: Python<'_>, at: usize, len: usize) -> Bound<'_, PySlice> {
    let place = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
    PySlice::new(py, place(at), place(at.saturating_add(len)), 1)
}

/// Rows of masks in memory of the caller, looked at once: `fill` takes them in place of the object.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Rows {
    bytes: Py<PyAny>,
    /// The array, if it is one of numpy.
    array: Option<Py<PyAny>>,
    /// Rows, and the words of each.
    #[pyo3(get)]
    rows: usize,
    #[pyo3(get)]
    words: usize,
}

#[pymethods]
impl Rows {
    #[new]
    fn new(mask: &Bound<'_, PyAny>, mask_words: usize) -> PyResult<Self> {
        if mask_words == 0 {
            return Err(Class::Matcher.error("`mask_words` is 0: a mask has at least one word"));
        }
        let view = View::new(mask, "mask", true)?;
        let (rows, words) = view.masks(mask_words)?;
        Ok(Self { bytes: view.bytes.unbind(), array: view.array.map(Bound::unbind), rows, words })
    }
}

/// An array of numpy that is written in place.
pub(crate) struct Array<'py> {
    words: ArrayWords<'py>,
    rows: usize,
    row_words: usize,
}

enum ArrayWords<'py> {
    Signed(PyReadwriteArrayDyn<'py, i32>),
    Unsigned(PyReadwriteArrayDyn<'py, u32>),
}

impl<'py> Array<'py> {
    /// `None` for everything but a writable, aligned array of rows of at least `words` words that nobody else has
    /// borrowed.
    fn new(object: &Bound<'py, PyAny>, words: usize) -> Option<Self> {
        if !is_numpy(object) {
            return None;
        }
        let (rows, row_words, words) = if let Ok(array) = object.cast::<PyArrayDyn<i32>>() {
            let (rows, row_words) = shape(array, words).filter(|_| array.data().is_aligned())?;
            (rows, row_words, ArrayWords::Signed(array.try_readwrite().ok()?))
        } else {
            let array = object.cast::<PyArrayDyn<u32>>().ok()?;
            let (rows, row_words) = shape(array, words).filter(|_| array.data().is_aligned())?;
            (rows, row_words, ArrayWords::Unsigned(array.try_readwrite().ok()?))
        };
        Some(Self { words, rows, row_words })
    }

    /// All words, row by row.
    pub(crate) fn words(&mut self) -> &mut [u32] {
        match &mut self.words {
            ArrayWords::Signed(array) => bytemuck::cast_slice_mut(array.as_slice_mut().unwrap_or_default()),
            ArrayWords::Unsigned(array) => array.as_slice_mut().unwrap_or_default(),
        }
    }
}

/// Whether an object is an array of numpy. Without numpy there is none, and the crate of its API panics.
fn is_numpy(object: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let of = object.get_type();
    if let Some(class) = CLASS.get(py) {
        return of.is(class);
    }
    let is_named = |of: &Bound<'_, pyo3::types::PyType>| -> PyResult<bool> {
        Ok(of.name()?.to_cow()? == "ndarray" && of.module()?.to_cow()? == "numpy")
    };
    if !is_named(&of).unwrap_or(false) {
        return false;
    }
    CLASS.get_or_init(py, || of.clone().into_any().unbind());
    true
}

/// Rows and the words of each, of an array whose words lie row by row. `None` where a caller must be told the fault.
fn shape<'py>(array: &impl PyUntypedArrayMethods<'py>, words: usize) -> Option<(usize, usize)> {
    if !array.is_c_contiguous() {
        return None;
    }
    match *array.shape() {
        [rows, len] if rows > 0 && len >= words => Some((rows, len)),
        [len] if len > 0 && len % words == 0 => Some((len / words, words)),
        _ => None,
    }
}

/// Rows that were looked at before, or just now.
pub(crate) enum Masks<'py> {
    Array(Array<'py>),
    Known(Bound<'py, Rows>),
    New(Rows),
}

impl<'py> Masks<'py> {
    pub(crate) fn new(mask: &Bound<'py, PyAny>, words: usize) -> PyResult<Self> {
        let words = words.max(1);
        if let Some(array) = Array::new(mask, words) {
            return Ok(Self::Array(array));
        }
        let masks = match mask.cast::<Rows>() {
            Ok(rows) => Self::Known(rows.clone()),
            Err(_) => Self::New(Rows::new(mask, words)?),
        };
        let array = masks.rows().and_then(|rows| rows.array.as_ref()).map(|array| array.bind(mask.py()));
        Ok(array.and_then(|array| Array::new(array, words)).map_or(masks, Self::Array))
    }

    /// The object that was looked at, where it is not an array.
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Array(_) => None,
            Self::Known(rows) => Some(rows.get()),
            Self::New(rows) => Some(rows),
        }
    }

    /// Rows, and the words of each.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Array(array) => (array.rows, array.row_words),
            Self::Known(rows) => (rows.get().rows, rows.get().words),
            Self::New(rows) => (rows.rows, rows.words),
        }
    }

    /// The words of a row.
    pub(crate) fn words(&self) -> usize {
        self.shape().1
    }

    /// An error where there is no such row.
    pub(crate) fn check(&self, row: usize) -> PyResult<()> {
        match self.shape().0 {
            rows if row < rows => Ok(()),
            rows => {
                Err(Class::Matcher
                    .error(format!("row {row} is beyond the end of the masks: there are {rows}")))
            }
        }
    }

    /// Makes the rows `places` by `make`, which gets their words and the place of each row there, without the
    /// interpreter lock: in place in an array, else in the buffer `words` of this thread.
    pub(crate) fn make<T: Send>(
        &mut self,
        py: Python<'_>,
        places: &[usize],
        make: impl FnOnce(&mut [u32], &[usize]) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let row_words = self.words();
        let view = match self {
            Self::Array(array) => {
                let words = array.words();
                return py.detach(|| make(words, places));
            }
            Self::Known(rows) => rows.get().bytes.bind(py),
            Self::New(rows) => rows.bytes.bind(py),
        };
        // Rows that are asked for lie close together in the buffer.
        let close: Vec<usize> = (0..places.len()).collect();
        with_words(places.len().saturating_mul(row_words), |made| {
            let answer = py.detach(|| make(made, &close))?;
            for (row, place) in made.chunks_exact(row_words).zip(places) {
                let bytes: &[u8] = bytemuck::cast_slice(row);
                write(view, place * bytes.len(), bytes)?;
            }
            Ok(answer)
        })
    }
}

/// The most words of a buffer that a thread keeps: 64 MiB.
const KEPT_WORDS: usize = 16 << 20;

thread_local! {
    /// Where masks are made that are not made in place.
    static WORDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Calls `with` with the buffer of this thread.
fn with_words<T>(len: usize, with: impl FnOnce(&mut [u32]) -> T) -> T {
    // It is taken out, since Python may run other code on this thread meanwhile.
    let mut words = WORDS.take();
    if words.len() < len {
        words.resize(len, 0);
    }
    let answer = with(&mut words[..len]);
    words.truncate(KEPT_WORDS);
    words.shrink_to(KEPT_WORDS);
    WORDS.set(words);
    answer
}

/// Sets logits to minus infinity where a mask forbids them, in place. Ids beyond the mask are forbidden.
#[pyfunction]
pub(crate) fn apply(py: Python<'_>, logits: &Bound<'_, PyAny>, mask: &Bound<'_, PyAny>) -> PyResult<()> {
    guarded(|| applied(py, logits, mask))
}

fn applied(py: Python<'_>, logits: &Bound<'_, PyAny>, mask: &Bound<'_, PyAny>) -> PyResult<()> {
    let view = View::new(logits, "logits", true)?;
    if !view.is_f32() {
        return Err(Class::Matcher.error("`logits` are not float32: convert them first"));
    }
    let (rows, len) = view.rows("logits")?;
    let mask = View::new(mask, "mask", false)?;
    // A line of words is one row.
    let (mask_rows, words) = match mask.shape.len() {
        1 => mask.masks(1).map(|(words, _)| (1, words))?,
        _ => mask.masks(1)?,
    };
    if mask_rows != rows {
        return Err(Class::Matcher.error(format!("`logits` have {rows} rows and `mask` has {mask_rows}")));
    }
    for row in 0..rows {
        let allowed = mask.read(row * words * WORD, words * WORD)?;
        let read = view.read(row * len * LOGIT, len * LOGIT)?;
        let (allowed, read) = (allowed.as_bytes(), read.as_bytes());
        let masked = py.detach(|| masked(read, allowed));
        view.write(row * len * LOGIT, &masked)?;
    }
    Ok(())
}

/// A row of logits with minus infinity where a mask has no bit.
fn masked(logits: &[u8], mask: &[u8]) -> Vec<u8> {
    let mut row = logits.to_vec();
    let words = mask.chunks_exact(WORD).map(word).chain(std::iter::repeat(0));
    for (logits, word) in row.chunks_mut(32 * LOGIT).zip(words) {
        if word == u32::MAX {
            continue;
        }
        for (bit, logit) in logits.chunks_exact_mut(LOGIT).enumerate() {
            if word & (1 << bit) == 0 {
                logit.copy_from_slice(&f32::NEG_INFINITY.to_ne_bytes());
            }
        }
    }
    row
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

/// Rows of logits to be read: an array of 32 bits where it lies, and a copy of anything else.
pub(crate) enum FloatRows<'py> {
    Array(PyReadonlyArray2<'py, f32>),
    Copied(Vec<f32>, usize),
}

/// The rows as a slice, which other threads may read.
pub(crate) struct FloatSlice<'a> {
    all: &'a [f32],
    len: usize,
}

impl FloatSlice<'_> {
    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.all[index * self.len..(index + 1) * self.len]
    }
}

impl<'py> FloatRows<'py> {
    /// At least `rows` rows of at least `len` logits. A copy has as many as are asked for.
    pub(crate) fn new(object: &Bound<'py, PyAny>, rows: usize, len: usize) -> PyResult<Self> {
        if is_numpy(object)
            && let Ok(array) = object.cast::<PyArray2<f32>>()
            && matches!(*array.shape(), [found, width] if found >= rows && width >= len)
            && let Ok(array) = array.try_readonly()
            && array.as_slice().is_ok()
        {
            return Ok(Self::Array(array));
        }
        let mut copy = Vec::with_capacity(rows * len);
        logits(object, rows, len, &mut copy)?;
        Ok(Self::Copied(copy, len))
    }

    pub(crate) fn get(&self) -> FloatSlice<'_> {
        match self {
            Self::Array(array) => {
                FloatSlice { all: array.as_slice().unwrap_or_default(), len: array.shape()[1] }
            }
            Self::Copied(all, len) => FloatSlice { all, len: *len },
        }
    }
}

/// Rows of logits of a Python function: `rows` of `len` each, into `into`.
pub(crate) fn logits(
    object: &Bound<'_, PyAny>,
    rows: usize,
    len: usize,
    into: &mut Vec<f32>,
) -> PyResult<()> {
    into.clear();
    let wrong = |shape: &[usize]| {
        Class::Sample.error(format!(
            "the model's answer has the shape {shape:?}, and {rows} rows of {len} logits were asked for: one row for each \
             sequence, one logit for each id of the tokenizer (`vocab_size` pads it)"
        ))
    };
    if let Some(view) = line(object)? {
        if !(view.shape == [rows, len] || (rows == 1 && view.shape == [len])) {
            return Err(wrong(&view.shape));
        }
        return floats(&view, into);
    }
    // A row may be an array, or a sequence of numbers.
    let mut found = 0;
    for row in object.try_iter()? {
        let row = row?;
        found += 1;
        let before = into.len();
        match line(&row)? {
            Some(view) if view.shape.len() == 1 => floats(&view, into)?,
            Some(view) => return Err(wrong(&view.shape)),
            None => into.extend(row.extract::<Vec<f32>>()?),
        }
        if into.len() - before != len || found > rows {
            return Err(wrong(&[found, into.len() - before]));
        }
    }
    if found == rows { Ok(()) } else { Err(wrong(&[found, len])) }
}

/// The buffer of an object, if it has one.
fn line<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<View<'py>>> {
    let py = object.py();
    let has_buffer = PyMemoryView::from(object).is_ok() || object.hasattr(intern!(py, "__dlpack__"))?;
    if has_buffer || (object.hasattr(intern!(py, "detach"))? && object.hasattr(intern!(py, "numpy"))?) {
        return View::new(object, "logits", false).map(Some);
    }
    Ok(None)
}

fn floats(view: &View<'_>, into: &mut Vec<f32>) -> PyResult<()> {
    let bytes = view.bytes.call_method0(intern!(view.bytes.py(), "tobytes"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    match (view.format, view.item) {
        ('f', LOGIT) => {
            into.extend(bytes.chunks_exact(LOGIT).map(|item| f32::from_bits(word(item))));
        }
        #[allow(clippy::cast_possible_truncation, reason = "the samplers read rows of 32 bits")]
        ('d', 8) => into.extend(
            bytes.chunks_exact(8).map(|item| f64::from_ne_bytes(item.try_into().unwrap_or_default()) as f32),
        ),
        (format, item) => {
            return Err(Class::Sample.error(format!(
                "the model's answer is of items of {item} bytes ({format:?}): give float32 or float64"
            )));
        }
    }
    Ok(())
}

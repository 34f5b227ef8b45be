//! Reads a GGUF file from its beginning to its weights.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
};

use crate::{Gguf, GgufError, GgufTensor, GgufValue, error::quoted, types};

/// The longest name of a key or a tensor, by the format.
const NAME_BYTES: u64 = 65_535;
/// The most dimensions of a tensor in ggml.
const DIMENSIONS: u32 = 4;
/// The alignment of the weights where no key names one.
const ALIGNMENT: u64 = 32;

/// Reads a file of `len` bytes, of which `limit` may stand in front of the weights.
pub(super) fn read(reader: impl Read, len: u64, limit: usize) -> Result<Gguf, GgufError> {
    let mut source = Source { reader, at: 0, len, limit };
    if len < 4 || source.bytes(4, "the magic number")? != Gguf::MAGIC {
        return Err(GgufError::NotGguf);
    }
    let version = source.u32("the version")?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version { version });
    }
    // A tensor: a name, the number of dimensions, a type and a place. A key: a name, a type and one byte.
    let tensor_count = source.count("tensors", 8 + 4 + 4 + 8)?;
    let key_count = source.count("keys", 8 + 4 + 1)?;

    let mut metadata = HashMap::new();
    for _ in 0..key_count {
        let key = source.name("key")?;
        let kind = source.u32("the type of a value")?;
        let value = source.value(&key, kind)?;
        if metadata.contains_key(&key) {
            return Err(GgufError::Twice { what: "key", name: quoted(&key) });
        }
        metadata.insert(key, value);
    }
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT,
        Some(GgufValue::Unsigned(value)) if value.is_power_of_two() && *value <= 1 << 30 => *value,
        Some(value) => {
            let value = if let GgufValue::Unsigned(value) = value { *value } else { 0 };
            let reason = "an alignment is a power of two";
            return Err(GgufError::Value { key: quoted("general.alignment"), value, reason });
        }
    };

    let (mut tensors, mut names) = (Vec::new(), HashSet::new());
    for _ in 0..tensor_count {
        let tensor = source.tensor(alignment)?;
        if !names.insert(tensor.name.clone()) {
            return Err(GgufError::Twice { what: "tensor", name: quoted(&tensor.name) });
        }
        tensors.push(tensor);
    }
    let data_start = source.at.next_multiple_of(alignment);
    for tensor in &mut tensors {
        // Places in the file are counted from the first weight.
        let start = tensor.start.checked_add(data_start);
        let end = start.and_then(|start| start.checked_add(tensor.bytes.unwrap_or(0)));
        match (start, end) {
            (Some(start), Some(end)) if end <= len => tensor.start = start,
            _ => {
                let reason = format!(
                    "it begins {} bytes after byte {data_start} and has {} bytes, and the file has {len}",
                    tensor.start,
                    tensor.bytes.unwrap_or(0)
                );
                return Err(GgufError::Tensor { name: quoted(&tensor.name), reason });
            }
        }
    }
    check_overlaps(&tensors)?;
    Ok(Gguf { version, metadata, tensors, data_start })
}

/// Refuses tensors that share bytes: the place of one of them is wrong.
fn check_overlaps(tensors: &[GgufTensor]) -> Result<(), GgufError> {
    let mut places: Vec<&GgufTensor> =
        tensors.iter().filter(|tensor| tensor.bytes.is_some_and(|bytes| bytes > 0)).collect();
    places.sort_by_key(|tensor| tensor.start);
    for pair in places.windows(2) {
        if pair[1].start - pair[0].start < pair[0].bytes.unwrap_or(0) {
            let reason =
                format!("it begins at byte {} within the tensor {}", pair[1].start, quoted(&pair[0].name));
            return Err(GgufError::Tensor { name: quoted(&pair[1].name), reason });
        }
    }
    Ok(())
}

/// A file that is read once, from front to back.
struct Source<R> {
    reader: R,
    at: u64,
    len: u64,
    limit: usize,
}

impl<R: Read> Source<R> {
    fn left(&self) -> u64 {
        self.len - self.at
    }

    /// Whether `wanted` bytes can come next.
    fn check(&self, wanted: u64, what: &'static str) -> Result<usize, GgufError> {
        if wanted > self.left() {
            return Err(GgufError::Truncated { what, at: self.at, wanted, left: self.left() });
        }
        let end = self.at.saturating_add(wanted);
        match usize::try_from(wanted) {
            Ok(wanted) if end <= self.limit as u64 => Ok(wanted),
            _ => Err(GgufError::TooLarge { limit: self.limit }),
        }
    }

    fn bytes(&mut self, wanted: u64, what: &'static str) -> Result<Vec<u8>, GgufError> {
        let mut bytes = vec![0; self.check(wanted, what)?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufError> {
        self.reader.read_exact(bytes).map_err(GgufError::Read)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        self.check(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things of at least `least` bytes each.
    fn count(&mut self, what: &'static str, least: u64) -> Result<u64, GgufError> {
        let at = self.at;
        let count = self.u64(what)?;
        let (left, most) = (self.left(), self.left() / least);
        if count > most {
            return Err(GgufError::Count { what, count, at, left, most });
        }
        Ok(count)
    }

    fn text(&mut self, what: &'static str) -> Result<String, GgufError> {
        let len = self.u64(what)?;
        let at = self.at;
        String::from_utf8(self.bytes(len, what)?).map_err(|_| GgufError::NotUtf8 { what, at })
    }

    fn name(&mut self, what: &'static str) -> Result<String, GgufError> {
        let at = self.at;
        let name = self.text(what)?;
        let count = name.len() as u64;
        if count > NAME_BYTES {
            return Err(GgufError::Count {
                what: "bytes of a name",
                count,
                at,
                left: self.left(),
                most: NAME_BYTES,
            });
        }
        Ok(name)
    }

    fn flag(&mut self, key: &str) -> Result<bool, GgufError> {
        match self.array::<1>("a truth value")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                let value = u64::from(other);
                Err(GgufError::Value { key: quoted(key), value, reason: "a truth value is 0 or 1" })
            }
        }
    }

    fn unsigned(&mut self, kind: u32) -> Result<u64, GgufError> {
        Ok(match kind {
            0 => u64::from(self.array::<1>("a number")?[0]),
            2 => u64::from(u16::from_le_bytes(self.array("a number")?)),
            4 => u64::from(self.u32("a number")?),
            _ => self.u64("a number")?,
        })
    }

    fn signed(&mut self, kind: u32) -> Result<i64, GgufError> {
        Ok(match kind {
            1 => i64::from(i8::from_le_bytes(self.array("a number")?)),
            3 => i64::from(i16::from_le_bytes(self.array("a number")?)),
            5 => i64::from(i32::from_le_bytes(self.array("a number")?)),
            _ => i64::from_le_bytes(self.array("a number")?),
        })
    }

    fn float(&mut self, kind: u32) -> Result<f64, GgufError> {
        Ok(match kind {
            6 => f64::from(f32::from_le_bytes(self.array("a number")?)),
            _ => f64::from_le_bytes(self.array("a number")?),
        })
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<GgufValue, GgufError> {
        Ok(match kind {
            0 | 2 | 4 | 10 => GgufValue::Unsigned(self.unsigned(kind)?),
            1 | 3 | 5 | 11 => GgufValue::Signed(self.signed(kind)?),
            6 | 12 => GgufValue::Float(self.float(kind)?),
            7 => GgufValue::Bool(self.flag(key)?),
            8 => GgufValue::Text(self.text("a text")?),
            9 => {
                let kind = self.u32("the type of an array")?;
                self.values(key, kind)?
            }
            kind => return Err(GgufError::ValueType { key: quoted(key), kind }),
        })
    }

    fn values(&mut self, key: &str, kind: u32) -> Result<GgufValue, GgufError> {
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            // No file has arrays of arrays, and ggml reads none.
            kind => return Err(GgufError::ValueType { key: quoted(key), kind }),
        };
        let count = self.count("entries of an array", least)?;
        // They fit into the file; do they fit into the limit?
        self.check(count * least, "an array")?;
        Ok(match kind {
            0 | 2 | 4 | 10 => {
                GgufValue::Unsigneds((0..count).map(|_| self.unsigned(kind)).collect::<Result<_, _>>()?)
            }
            1 | 3 | 5 | 11 => {
                GgufValue::Signeds((0..count).map(|_| self.signed(kind)).collect::<Result<_, _>>()?)
            }
            6 | 12 => GgufValue::Floats((0..count).map(|_| self.float(kind)).collect::<Result<_, _>>()?),
            7 => GgufValue::Bools((0..count).map(|_| self.flag(key)).collect::<Result<_, _>>()?),
            _ => GgufValue::Texts((0..count).map(|_| self.text("a text")).collect::<Result<_, _>>()?),
        })
    }

    /// An entry of the table of tensors. Its place is counted from the first weight.
    fn tensor(&mut self, alignment: u64) -> Result<GgufTensor, GgufError> {
        let name = self.name("tensor")?;
        let wrong = |reason: String| GgufError::Tensor { name: quoted(&name), reason };
        let dimensions = self.u32("the number of dimensions")?;
        if dimensions > DIMENSIONS {
            return Err(wrong(format!("it has {dimensions} dimensions, {DIMENSIONS} are possible")));
        }
        let shape: Vec<u64> =
            (0..dimensions).map(|_| self.u64("a dimension")).collect::<Result<_, GgufError>>()?;
        let kind = self.u32("the type of a tensor")?;
        let start = self.u64("the place of a tensor")?;
        if start % alignment != 0 {
            return Err(wrong(format!("it begins at byte {start}, which is no multiple of {alignment}")));
        }
        let entries = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
        let entries = entries.filter(|entries| i64::try_from(*entries).is_ok());
        let entries =
            entries.ok_or_else(|| wrong(format!("the shape {shape:?} is larger than any memory")))?;
        let bytes = match types::block(kind) {
            None => None,
            Some((block, bytes)) => {
                let row = shape.first().copied().unwrap_or(1);
                if row % block != 0 {
                    let reason = format!("its rows of {row} entries are not made of blocks of {block}");
                    return Err(wrong(reason));
                }
                let all = (entries / block).checked_mul(bytes);
                Some(all.ok_or_else(|| wrong(format!("the shape {shape:?} is larger than any memory")))?)
            }
        };
        Ok(GgufTensor { name, shape, kind, start, bytes })
    }
}

//! The bounds that a sampler has learned, kept in a file from one run to the next: `--save-trie` and `--load-trie`.
//!
//! The bounds of one task are wrong for another, and the outputs drawn with them would follow another distribution.
//! So the file names its task, part by part, by a checksum of the contents (not the names) of all files that a part
//! is read from; a part that differs is refused by name. The file also holds the generator where it stood after the
//! last output: without another `--seed` a run goes on with the outputs that the one before would have drawn next.
//!
//! ```text
//! "unskew-draws"  version u32  model, sampling, constraint, prompt u64 each  seed 32 bytes  position u128
//! the saved prefixes, with a checksum of their own
//! XXH3 of all bytes in front of it, u64
//! ```

use std::{
    fs::File,
    hash::Hasher,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{
    Draws, Language, ModelSource, Spec, Start,
    items::{self, Check, ItemFile},
    read,
    spec::FileRole,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use twox_hash::XxHash3_64;

use crate::command_line::{
    args::{ModelArgs, SamplerArgs},
    error::{Failure, Result},
    inputs,
};

/// The largest file that is loaded, in bytes: several times the memory that the prefixes of a run may take.
const MAX_TRIE_BYTES: u64 = 1 << 30;

const MAGIC: &[u8; 12] = b"unskew-draws";
const VERSION: u32 = 3;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 * 8 + 32 + 16;

/// Why a file is not one to go on from.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub(crate) enum ResumeError {
    #[error("no file of --save-trie: it does not begin with `unskew-draws`")]
    Magic,
    #[error("written by another version of unskew ({found}, this is {VERSION}): draw anew and save again")]
    Version { found: u32 },
    #[error("saved with another {part}: the bounds there are wrong here; give the same, or draw anew")]
    Differs { part: &'static str },
    #[error("damaged: its checksum is not that of its content; draw anew and save again")]
    Checksum,
}

/// The parts that decide the distribution of the outputs, each as a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts([u64; 4]);

const PARTS: [&str; 4] =
    ["model or tokenizer", "--temperature, --top-k, --top-p or --truncate", "constraint", "prompt"];

impl Parts {
    /// Of a run; reads all files that it names.
    pub(crate) fn of(model: &ModelArgs, sampling: &SamplerArgs, spec: &Spec, start: &Start) -> Result<Self> {
        let mut text = Sum::new();
        text.add(start.healed.as_bytes());
        start.prompt.iter().for_each(|id| text.add(&id.0.to_le_bytes()));
        Ok(Self([self::model(model)?, self::sampling(sampling), constraint(spec)?, text.finish()]))
    }
}

/// A checksum of several things, each with its length in front of it.
struct Sum(XxHash3_64);

impl Sum {
    fn new() -> Self {
        Self(XxHash3_64::with_seed(0))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
    }

    /// The content of a file, piece by piece.
    fn add_file(&mut self, path: &Path) -> Result<()> {
        // A second time a pipe gives nothing, or waits for ever.
        if !std::fs::metadata(path).map_err(|error| Failure::file(path, error))?.is_file() {
            let message = "no regular file; --save-trie and --load-trie read it twice, so give it in one";
            return Err(Failure::file(path, message));
        }
        let file = File::open(path).map_err(|error| Failure::file(path, error))?;
        let mut reader = BufReader::new(file);
        let (mut buffer, mut all) = (vec![0; 1 << 20], XxHash3_64::with_seed(0));
        loop {
            let read = reader.read(&mut buffer).map_err(|error| Failure::file(path, error))?;
            if read == 0 {
                self.add(&all.finish().to_le_bytes());
                return Ok(());
            }
            all.write(&buffer[..read]);
        }
    }

    /// A file of items. A built set is read together with its changes, since another process may make one of the two.
    fn add_items(&mut self, path: &Path) -> Result<()> {
        if !ItemFile::open(path)?.is_built() {
            return self.add_file(path);
        }
        let (set, changes) = items::open(path, Check::All)?;
        self.add(set.as_bytes());
        self.add(&changes.map_or_else(Vec::new, |changes| changes.to_bytes()));
        Ok(())
    }

    /// The files of a folder, and of those in it, whose names end in one of these ways.
    fn add_folder(&mut self, folder: &Path, endings: &[&str]) -> Result<()> {
        for path in read::files(folder, endings)? {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            self.add(name.as_os_str().as_encoded_bytes());
            self.add_file(&path)?;
        }
        Ok(())
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

fn model(args: &ModelArgs) -> Result<u64> {
    let mut sum = Sum::new();
    match &args.model {
        #[cfg(feature = "tiny-model")]
        ModelSource::Tiny => sum.add(crate::tiny_model::TINY.safetensors),
        #[cfg(feature = "tiny-model")]
        ModelSource::TinyDraft => sum.add(crate::tiny_model::DRAFT.safetensors),
        // They do not load.
        #[cfg(not(feature = "tiny-model"))]
        ModelSource::Tiny | ModelSource::TinyDraft => {}
        ModelSource::Folder(folder) => sum.add_folder(folder, inputs::OF_MODELS)?,
        ModelSource::Table(path) | ModelSource::Gguf(path) | ModelSource::LlamaCpp(path) => {
            sum.add_file(path)?;
        }
        ModelSource::Endpoint(address) => {
            sum.add(address.as_bytes());
            sum.add(args.endpoint.as_deref().unwrap_or_default().as_bytes());
        }
    }
    if let Some(path) = &args.tokenizer {
        sum.add_file(path)?;
    }
    if let Some(quantize) = args.quantize {
        sum.add(format!("{quantize:?}").as_bytes());
    }
    Ok(sum.finish())
}

fn sampling(options: &SamplerArgs) -> u64 {
    let SamplerArgs { temperature, top_k, top_p, truncate, .. } = options;
    let mut sum = Sum::new();
    sum.add(format!("{temperature:?} {top_k:?} {top_p:?} {truncate:?}").as_bytes());
    sum.finish()
}

/// The JSON of the constraint, in which each file is its ending (a grammar is read by that), and the content of the
/// files.
fn constraint(spec: &Spec) -> Result<u64> {
    let mut sum = Sum::new();
    let mut spec = spec.clone();
    if let Language::Set(set) = &mut spec.language {
        // Masks are the same wherever they are made.
        set.gpu = false;
    }
    let mut result = Ok(());
    let named = spec.map_files(|role, path| {
        let read = match role {
            FileRole::Text => sum.add_file(&path),
            FileRole::Items => sum.add_items(&path),
            FileRole::Registry => sum.add_folder(&path, inputs::OF_SCHEMAS),
        };
        if result.is_ok() {
            result = read;
        }
        path.extension().map(PathBuf::from).unwrap_or_default()
    });
    result?;
    sum.add(named.to_json().as_bytes());
    Ok(sum.finish())
}

/// The content of a file: the generator where it stood, and the sampler's own bytes.
#[derive(Debug)]
pub(crate) struct Saved {
    rng: ChaCha8Rng,
    prefixes: Vec<u8>,
}

impl Saved {
    /// Reads a file that was saved for the same parts.
    pub(crate) fn read(path: &Path, parts: &Parts) -> Result<Self> {
        let bytes = read::bytes(path, MAX_TRIE_BYTES)?;
        Self::parse(&bytes, parts).map_err(|error| Failure::file(path, error))
    }

    fn parse(bytes: &[u8], parts: &Parts) -> std::result::Result<Self, ResumeError> {
        let mut rest = bytes;
        if take(&mut rest) != Some(*MAGIC) {
            return Err(ResumeError::Magic);
        }
        let version = take(&mut rest).map(u32::from_le_bytes).ok_or(ResumeError::Magic)?;
        if version != VERSION {
            return Err(ResumeError::Version { found: version });
        }
        let Some((content, checksum)) = bytes.split_last_chunk() else { return Err(ResumeError::Checksum) };
        if XxHash3_64::oneshot(content) != u64::from_le_bytes(*checksum) {
            return Err(ResumeError::Checksum);
        }
        let mut rest = content.get(MAGIC.len() + 4..).ok_or(ResumeError::Checksum)?;
        for (part, name) in parts.0.iter().zip(PARTS) {
            if take(&mut rest).map(u64::from_le_bytes) != Some(*part) {
                return Err(ResumeError::Differs { part: name });
            }
        }
        let (Some(seed), Some(position)) = (take::<32>(&mut rest), take::<16>(&mut rest)) else {
            return Err(ResumeError::Checksum);
        };
        let mut rng = ChaCha8Rng::from_seed(seed);
        rng.set_word_pos(u128::from_le_bytes(position));
        Ok(Self { rng, prefixes: rest.to_vec() })
    }

    /// Gives a sampler the bounds, and the generator too where `goes_on`.
    pub(crate) fn load(&self, path: &Path, draws: &mut Draws, goes_on: bool) -> Result<()> {
        let generator = goes_on.then(|| self.rng.clone());
        draws.resume(&self.prefixes, generator).map_err(|error| match error {
            crate::Error::Learned(error) => Failure::file(path, error),
            other => other.into(),
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// A file to be, which has its name once it is complete.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
}

impl Target {
    /// Sees whether it can be written: the bounds may be the work of hours.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        unskew_files::probe(path).map_err(|error| Failure::bad(&error))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Saves the bounds of a sampler that learns; a test of the method has seen that it does.
    pub(crate) fn save(self, parts: &Parts, draws: &mut Draws) -> Result<()> {
        let prefixes = draws.learned().unwrap_or_default();
        let bytes = to_bytes(parts, draws.generator(), &prefixes);
        unskew_files::write(&self.path, &bytes).map_err(|error| Failure::bad(&error))
    }
}

fn to_bytes(parts: &Parts, rng: &ChaCha8Rng, prefixes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + prefixes.len() + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    parts.0.iter().for_each(|part| bytes.extend_from_slice(&part.to_le_bytes()));
    bytes.extend_from_slice(&rng.get_seed());
    bytes.extend_from_slice(&rng.get_word_pos().to_le_bytes());
    bytes.extend_from_slice(prefixes);
    bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(parts: &Parts) -> Vec<u8> {
        let mut rng = ChaCha8Rng::from_seed([7; 32]);
        rng.set_word_pos(12);
        to_bytes(parts, &rng, b"prefixes")
    }

    #[test]
    fn a_part_that_differs_is_named() {
        let parts = Parts([1, 2, 3, 4]);
        let file = bytes(&parts);
        assert_eq!(file.len(), HEADER_BYTES + 8 + 8);
        let saved = Saved::parse(&file, &parts).unwrap();
        assert_eq!((saved.rng.get_seed(), saved.rng.get_word_pos()), ([7; 32], 12));
        assert_eq!(saved.prefixes, b"prefixes");
        for (index, name) in PARTS.into_iter().enumerate() {
            let mut other = parts;
            other.0[index] = 9;
            assert_eq!(Saved::parse(&file, &other).unwrap_err(), ResumeError::Differs { part: name });
        }
        let mut version = file.clone();
        version[MAGIC.len()] = 9;
        assert_eq!(Saved::parse(&version, &parts).unwrap_err(), ResumeError::Version { found: 9 });
        // Every other value of every byte.
        for at in 0..file.len() {
            for change in 1..=255 {
                let mut damaged = file.clone();
                damaged[at] ^= change;
                assert!(Saved::parse(&damaged, &parts).is_err(), "byte {at} changed by {change:#x}");
            }
        }
        for len in 0..file.len() {
            assert!(Saved::parse(&file[..len], &parts).is_err(), "{len}");
        }
    }
}

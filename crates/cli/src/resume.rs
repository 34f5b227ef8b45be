//! What a sampler has learned, kept in a file from one run to the next: `--save-trie` and `--load-trie`.
//!
//! The bounds of one task are wrong for another, and with them the law of what is drawn. So the file says what it is of, part
//! by part, by a checksum of the contents (not the names) of all files that a part is read from; where a part differs it is
//! refused, with the name of the part. It also holds the generator where it stood after the last output: without another
//! `--seed` a run goes on with the outputs that the one before would have drawn next.
//!
//! ```text
//! "unskew-draws"  version u32  model, sampling, constraint, prompt u64 each  seed 32 bytes  position u128
//! the saved prefixes, with a checksum of their own
//! XXH3 of all that stands before, u64
//! ```

use std::{
    error::Error,
    fs::File,
    hash::Hasher,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use twox_hash::XxHash3_64;
use unskew::{
    core::{Constraint, LanguageModel, Sampler, TokenId},
    samplers::{Asap, Exact, SampleError, Sampling, TrieFileError},
};

use crate::{
    args::{ConstraintArgs, GenerateArgs, ModelArgs, ModelChoice, SamplerOptions},
    error::{Failure, Result},
    inputs,
    read::{self, MAX_TRIE_BYTES},
    sets,
};

const MAGIC: &[u8; 12] = b"unskew-draws";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 * 8 + 32 + 16;

/// Why a file is not one to go on from.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub(crate) enum ResumeError {
    #[error("not what --save-trie writes: the file does not begin with `unskew-draws`")]
    Magic,
    #[error("written by another version of unskew ({found}, this is {VERSION}): draw anew and save again")]
    Version { found: u32 },
    #[error("saved with another {part}: what was learned there is wrong here; give the same, or draw anew")]
    Differs { part: &'static str },
    #[error("damaged: its checksum is not that of what it holds; draw anew and save again")]
    Checksum,
    #[error(transparent)]
    Trie(#[from] TrieFileError),
}

/// A sampler whose bounds can be kept.
pub(crate) trait Learning: Sampler {
    fn save(&mut self) -> Vec<u8>;
    fn load(&mut self, bytes: &[u8]) -> std::result::Result<(), TrieFileError>;
}

/// What the prefixes are saved under. The header says what it stands for.
const NAME: &str = "unskew generate";

macro_rules! learning {
    ($($policy:ident),*) => {
        $(impl<M: LanguageModel, C: Constraint> Learning for Sampling<M, C, $policy> {
            fn save(&mut self) -> Vec<u8> {
                Sampling::save(self, NAME)
            }
            fn load(&mut self, bytes: &[u8]) -> std::result::Result<(), TrieFileError> {
                Sampling::load(self, NAME, bytes)
            }
        })*
    };
}

learning!(Asap, Exact);

pub(crate) type BoxedLearning<'a, E> = Box<dyn Learning<Error = SampleError<E>> + 'a>;

/// What decides the law of the outputs, each part as a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts([u64; 4]);

const PARTS: [&str; 4] =
    ["model or tokenizer", "--temperature, --top-k, --top-p or --truncate", "constraint", "prompt"];

impl Parts {
    /// Of a run; reads all files that it names.
    pub(crate) fn of(args: &GenerateArgs, prompt: &[TokenId], healed: &str) -> Result<Self> {
        let mut text = Sum::new();
        text.add(healed.as_bytes());
        prompt.iter().for_each(|id| text.add(&id.0.to_le_bytes()));
        Ok(Self([
            model(&args.model)?,
            sampling(&args.sampler.options),
            constraint(&args.constraint)?,
            text.finish(),
        ]))
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
            let message =
                "no regular file; what --save-trie and --load-trie compare is read twice, so give it in one";
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
        let Some((set, changes)) = sets::content(path)? else { return self.add_file(path) };
        self.add(set.as_bytes());
        self.add(&changes);
        Ok(())
    }

    /// The files of a folder, and of those in it, whose names end in one of these ways.
    fn add_folder(&mut self, folder: &Path, endings: &[&str]) -> Result<()> {
        for path in inputs::of_folder(folder, endings)? {
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
        ModelChoice::Tiny => sum.add(unskew::tiny_model::TINY.safetensors),
        ModelChoice::TinyDraft => sum.add(unskew::tiny_model::DRAFT.safetensors),
        ModelChoice::Folder(folder) => sum.add_folder(folder, inputs::OF_MODELS)?,
        ModelChoice::Table(path) => sum.add_file(path)?,
    }
    if let Some(path) = &args.tokenizer {
        sum.add_file(path)?;
    }
    Ok(sum.finish())
}

fn sampling(options: &SamplerOptions) -> u64 {
    let SamplerOptions { temperature, top_k, top_p, truncate, .. } = options;
    let mut sum = Sum::new();
    sum.add(format!("{temperature:?} {top_k:?} {top_p:?} {truncate:?}").as_bytes());
    sum.finish()
}

fn constraint(args: &ConstraintArgs) -> Result<u64> {
    // All of them by name, so that an option that comes to them cannot be forgotten here.
    let ConstraintArgs {
        regex,
        regex_file,
        grammar,
        max_ignored,
        maximal_munch,
        json_schema,
        whitespace,
        ascii,
        exponents,
        schema_registry,
        any_order,
        set,
        subset,
        exclude_set,
        choice,
        canonical,
        // Masks are the same wherever they are made.
        gpu: _,
    } = args;
    let mut sum = Sum::new();
    let options =
        format!("{max_ignored:?} {whitespace:?} {ascii} {exponents:?} {any_order} {canonical} {subset:?}");
    sum.add(options.as_bytes());
    // Added only where it is asked for: files from before it are of the same constraint without it.
    if *maximal_munch {
        sum.add(b"maximal munch");
    }
    regex.iter().chain(choice).for_each(|text| sum.add(text.as_bytes()));
    let files = [
        ("regex", regex_file),
        ("grammar", grammar),
        ("schema", json_schema),
        ("set", set),
        ("excluded", exclude_set),
    ];
    for (kind, path) in files {
        if let Some(path) = path {
            sum.add(kind.as_bytes());
            // A grammar is read by the ending of its name.
            sum.add(path.extension().unwrap_or_default().as_encoded_bytes());
            match kind {
                "set" | "excluded" => sum.add_items(path)?,
                _ => sum.add_file(path)?,
            }
        }
    }
    if let Some(folder) = schema_registry {
        sum.add_folder(folder, inputs::OF_SCHEMAS)?;
    }
    // A choice is another constraint than a regex of the same text.
    sum.add(&[u8::from(regex.is_some())]);
    Ok(sum.finish())
}

/// What a file holds: the generator where it stood, and the sampler's own bytes.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) rng: ChaCha8Rng,
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

    /// Gives a sampler what was learned.
    pub(crate) fn load<E: Error + Send + Sync + 'static>(
        &self,
        path: &Path,
        sampler: &mut BoxedLearning<'_, E>,
    ) -> Result<()> {
        sampler.load(&self.prefixes).map_err(|error| Failure::file(path, ResumeError::from(error)))
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
    /// Sees whether it can be written: what is to be saved may be the work of hours.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        unskew_files::probe(path).map_err(|error| Failure::bad(&error))?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn save<E: Error + Send + Sync + 'static>(
        self,
        parts: &Parts,
        rng: &ChaCha8Rng,
        sampler: &mut BoxedLearning<'_, E>,
    ) -> Result<()> {
        let bytes = to_bytes(parts, rng, &sampler.save());
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
    fn what_differs_is_named() {
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

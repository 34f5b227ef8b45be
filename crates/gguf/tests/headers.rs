//! Headers: their contents, and the files that are refused before memory is asked for.

use unskew_gguf::{Gguf, GgufError, GgufValue};
use unskew_testdata::gguf::GgufWriter;

fn small() -> GgufWriter {
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama").number("n", 3).float("f", 0.5).flag("b", true);
    file.texts("texts", &["a", ""]).numbers("numbers", &[-1, 2]).floats("floats", &[1.5]);
    file.tensor("one", &[4, 2], 0, vec![0; 32]).tensor("two", &[32], 8, vec![0; 34]);
    file
}

#[test]
fn a_file_is_read_to_its_weights() {
    let bytes = small().bytes();
    let gguf = Gguf::from_bytes(&bytes).unwrap();
    assert_eq!((gguf.version(), gguf.architecture(), gguf.number("n")), (3, Some("llama"), Some(3)));
    assert_eq!((gguf.flag("b"), gguf.text("n"), gguf.number("f")), (Some(true), None, None));
    assert_eq!(gguf.get("texts"), Some(&GgufValue::Texts(vec!["a".to_owned(), String::new()])));
    assert_eq!(gguf.get("numbers"), Some(&GgufValue::Signeds(vec![-1, 2])));
    assert_eq!(gguf.get("floats"), Some(&GgufValue::Floats(vec![1.5])));
    assert_eq!(gguf.metadata().count(), 7);
    let start = gguf.data_start();
    assert_eq!(start % 32, 0);
    let tensors: Vec<_> =
        gguf.tensors().iter().map(|tensor| (&*tensor.name, tensor.start, tensor.bytes)).collect();
    assert_eq!(tensors, [("one", start, Some(32)), ("two", start + 32, Some(34))]);
    // The weights themselves are not read, but they are there.
    assert_eq!(Gguf::from_bytes(&bytes[..start as usize + 66]).unwrap(), gguf);
    let error = Gguf::from_bytes(&bytes[..start as usize + 65]).unwrap_err();
    assert!(matches!(error, GgufError::Tensor { .. }), "{error}");
}

#[test]
fn every_shorter_file_is_an_error() {
    let bytes = small().bytes();
    let start = Gguf::from_bytes(&bytes).unwrap().data_start() as usize;
    for len in 0..start {
        Gguf::from_bytes(&bytes[..len]).unwrap_err();
    }
}

/// A file of `parts` after the magic number and the version.
fn raw(version: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(parts.concat());
    bytes
}

#[test]
fn faults_are_named() {
    let u64s = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let error = |bytes: &[u8]| Gguf::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(error(b"GGML\x03\0\0\0"), "not a GGUF file: it does not begin with `GGUF`");
    assert!(error(&raw(1, &[&u64s(&[0, 0])])).contains("version 1 of GGUF"));
    // Version 3 in the other order of bytes.
    assert!(error(&raw(3 << 24, &[&u64s(&[0, 0])])).contains("little-endian"));
    let huge = 1_000_000_000_000;
    assert_eq!(
        error(&raw(3, &[&u64s(&[huge, 0])])),
        "1000000000000 tensors at byte 8, and the 8 bytes that are left hold 0 at the most"
    );
    assert!(error(&raw(3, &[&u64s(&[0, huge])])).contains("1000000000000 keys at byte 16"));
    let key = |value: &[u8]| [&u64s(&[0, 1, 1])[..], b"k", value].concat();
    // A text, and an array, that are longer than the file.
    assert!(error(&raw(3, &[&key(&[8, 0, 0, 0]), &u64s(&[huge])])).contains("a text at byte"));
    let array = [&[9, 0, 0, 0, 8, 0, 0, 0][..], &u64s(&[huge])].concat();
    assert!(error(&raw(3, &[&key(&array)])).contains("1000000000000 entries of an array"));
    let nested = [&[9, 0, 0, 0, 9, 0, 0, 0][..], &u64s(&[0])].concat();
    assert!(error(&raw(3, &[&key(&nested)])).contains("type 9"));
    assert!(error(&raw(3, &[&key(&[13, 0, 0, 0]), &u64s(&[0])])).contains("type 13"));
    assert!(error(&raw(3, &[&key(&[7, 0, 0, 0, 2])])).contains("a truth value is 0 or 1"));
    let bytes = small().bytes();
    let mut wrong = bytes.clone();
    let at = bytes.windows(20).position(|part| part == b"general.architecture").unwrap();
    wrong[at] = 0xff;
    assert!(error(&wrong).contains("the key at byte 32 is not UTF-8"));
    let twice = small().number("n", 4).bytes();
    assert_eq!(error(&twice), "the key \"n\" is listed twice");
    let tensor = |shape: &[u64], kind| small().tensor("three", shape, kind, Vec::new()).bytes();
    assert!(error(&tensor(&[1 << 40, 1 << 40], 0)).contains("larger than any memory"));
    assert!(error(&tensor(&[1 << 40], 0)).contains("and has 4398046511104 bytes"));
    assert!(error(&tensor(&[33], 8)).contains("blocks of 32"));
    assert!(error(&tensor(&[1; 5], 0)).contains("5 dimensions"));
    assert!(
        error(&small().tensor("one", &[1], 0, vec![0; 4]).bytes()).contains("tensor \"one\" is listed twice")
    );
    let odd = small().number("general.alignment", 48).bytes();
    assert!(error(&odd).contains("power of two"));

    let folder = std::env::temp_dir().join(format!("unskew-gguf-{}", std::process::id()));
    std::fs::write(&folder, &bytes).unwrap();
    let error = Gguf::open_with(&folder, 100).unwrap_err();
    assert!(matches!(error, GgufError::TooLarge { limit: 100 }), "{error}");
    std::fs::remove_file(&folder).unwrap();
}

/// The place of a tensor in `small`, as its table says.
fn moved(name: &str, to: u64) -> Vec<u8> {
    let mut bytes = small().bytes();
    let table = bytes.windows(11).position(|part| part == b"\x03\0\0\0\0\0\0\0one").unwrap();
    let at = table + bytes[table..].windows(3).position(|part| part == name.as_bytes()).unwrap();
    let dimensions = usize::from(bytes[at + 3]);
    let place = at + 3 + 4 + 8 * dimensions + 4;
    bytes[place..place + 8].copy_from_slice(&to.to_le_bytes());
    bytes
}

#[test]
fn a_wrong_place_of_a_tensor_is_an_error() {
    Gguf::from_bytes(&moved("two", 32)).unwrap();
    for (name, to, words) in [
        ("two", 1_000_000_000_000 * 32, "it begins 32000000000000 bytes after"),
        ("two", u64::MAX - 31, "bytes after"),
        ("two", 64, "and the file has"),
        ("two", 33, "no multiple of 32"),
        ("two", 0, "within the tensor \"one\""),
        ("one", 32, "within the tensor \"one\""),
    ] {
        let error = Gguf::from_bytes(&moved(name, to)).unwrap_err();
        assert!(matches!(error, GgufError::Tensor { .. }), "{error}");
        assert!(error.to_string().contains(words), "{name} {to}: {error}");
    }
}

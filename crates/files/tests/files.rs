//! Files are replaced whole, nothing but files is replaced, and nothing of a living writer is removed.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use unskew_files::{FileError, NewFile, follow, is_same, probe, refuse_inputs, remove, write};

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_file_has_its_name_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, b"old").unwrap();
    let mut file = NewFile::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(file);
    assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["a".to_owned()]));
    write(&path, b"new").unwrap();
    assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"new".to_vec(), vec!["a".to_owned()]));
    probe(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
    let error = write(folder.path().join("no/such"), b"").unwrap_err();
    assert!(error.to_string().contains("no/such: "), "{error}");
    assert!(matches!(error, FileError::Io { .. }));
}

#[test]
fn an_output_is_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let [a, hard] = ["a", "hard"].map(|name| folder.path().join(name));
    fs::write(&a, "a").unwrap();
    fs::hard_link(&a, &hard).unwrap();
    let around = folder.path().join("../").join(folder.path().file_name().unwrap()).join("a");
    for other in [&a, &around] {
        assert!(is_same(&a, other));
        assert!(matches!(refuse_inputs(other, [&hard, &a]), Err(FileError::IsInput { .. })));
    }
    #[cfg(unix)]
    assert!(is_same(&a, &hard));
    // A file that does not exist is no input.
    let none = folder.path().join("none");
    assert!(!is_same(&none, &none));
    refuse_inputs(&none, [&a, &none]).unwrap();
    refuse_inputs(&a, [&none]).unwrap();
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn nothing_but_a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, socket, link] = ["pipe", "socket", "link"].map(|name| folder.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        symlink("/dev/null", &link).unwrap();
        let before = names(folder.path());
        let refused = [
            (folder.path(), "a folder"),
            (Path::new("/dev/null"), "a device"),
            (&link, "a device"),
            (&pipe, "a pipe"),
            (&socket, "a socket"),
        ];
        for (path, expected) in refused {
            for error in [write(path, b"").unwrap_err(), probe(path).unwrap_err()] {
                assert!(matches!(error, FileError::NotAFile { kind, .. } if kind == expected), "{error}");
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(names(folder.path()), before);
    }

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("in")).unwrap();
        symlink("two", path("one")).unwrap();
        symlink("in/three", path("two")).unwrap();
        symlink("../file", path("in/three")).unwrap();
        // First it is not there, then it is.
        for content in ["first", "second"] {
            write(path("one"), content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(path("file")).unwrap(), content);
            assert!(path("one").is_symlink() && path("two").is_symlink() && path("in/three").is_symlink());
            assert!(!path("file").is_symlink());
        }
        assert!(is_same(path("one"), path("file")) && is_same(path("file"), follow(path("two")).unwrap()));
        assert!(matches!(refuse_inputs(path("one"), [path("file")]), Err(FileError::IsInput { .. })));
        symlink("circle", path("circle")).unwrap();
        write(path("circle"), b"").unwrap_err();
        follow(path("circle")).unwrap_err();
    }

    #[test]
    fn permissions_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"").unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode() & 0o600, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"a").unwrap();
        assert_eq!(mode(), 0o640);
    }

    fn leftovers(folder: &Path) -> usize {
        names(folder).iter().filter(|name| name.starts_with(".unskew-new-")).count()
    }

    #[test]
    fn what_a_dead_writer_left_is_removed_and_what_a_living_one_has_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let others = [".unskew-newer", "a.partial", ".tmp"];
        others.iter().for_each(|name| fs::write(path(name), "").unwrap());
        let left = path(".unskew-new-abcdef");
        fs::write(&left, "left by a writer").unwrap();
        let mut living = NewFile::create(path("a")).unwrap();
        assert_eq!((left.exists(), leftovers(folder.path())), (false, 1));
        living.write_all(b"a").unwrap();

        // A second writer comes and goes while the first lives.
        fs::write(&left, "left by a writer").unwrap();
        write(path("b"), b"b").unwrap();
        assert_eq!(leftovers(folder.path()), 2);
        living.commit().unwrap();
        assert_eq!(fs::read(path("a")).unwrap(), b"a");
        // A process that another test begins has the locks of this one until it runs its own program.
        let is_clean = (0..100).any(|_| {
            write(path("b"), b"b").unwrap();
            leftovers(folder.path()) == 0 || {
                std::thread::sleep(std::time::Duration::from_millis(1));
                false
            }
        });
        assert!(is_clean);
        assert!(others.iter().all(|name| path(name).exists()));
    }

    /// Many writers in one folder, with files of dead ones among them: none loses its file.
    #[test]
    fn writers_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: String| folder.path().join(name);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                scope.spawn(move || {
                    for round in 0..40 {
                        if writer == 0 {
                            fs::write(path(format!(".unskew-new-{round:06}")), "").unwrap();
                        }
                        write(path(format!("{}", writer / 2)), &[round; 100]).unwrap();
                    }
                });
            }
        });
        for name in 0..4 {
            assert_eq!(fs::read(path(format!("{name}"))).unwrap(), [39; 100]);
        }
        probe(path("end".to_owned())).unwrap();
        assert_eq!(names(folder.path()), ["0", "1", "2", "3"]);
    }
}

/// The child of the next test: replaces a file and removes another.
fn child(folder: &Path) {
    write(folder.join("a"), b"new").unwrap();
    remove(folder.join("b")).unwrap();
}

/// A process is ended in front of each step. The folder is always as before or as after, in order.
#[cfg(all(unix, debug_assertions))]
#[test]
fn a_process_may_end_at_any_step() {
    const CHILD: &str = "UNSKEW_FILES_TEST_CHILD";
    if let Some(folder) = std::env::var_os(CHILD) {
        return child(&PathBuf::from(folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let mut seen = Vec::new();
    for step in 0.. {
        write(&a, b"old").unwrap();
        write(&b, b"b").unwrap();
        assert_eq!(names(folder.path()), ["a", "b"], "what was left at step {step} is removed");
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_may_end_at_any_step"])
            .env(CHILD, folder.path())
            .env("UNSKEW_ABORT_AT_STEP", step.to_string())
            .output()
            .unwrap();
        let state = (String::from_utf8(fs::read(&a).unwrap()).unwrap(), b.exists());
        if run.status.success() {
            assert_eq!(state, ("new".to_owned(), false));
            break;
        }
        seen.push(state);
    }
    let old = seen.iter().filter(|state| **state == ("old".to_owned(), true)).count();
    let new = seen.iter().filter(|state| **state == ("new".to_owned(), true)).count();
    let gone = seen.iter().filter(|state| **state == ("new".to_owned(), false)).count();
    // Create, permissions, write, sync, rename; sync of the folder, remove; sync of the folder.
    assert_eq!((old, new, gone), (5, 2, 1), "{seen:?}");
}

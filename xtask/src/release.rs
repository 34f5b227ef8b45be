//! `cargo xtask release`: all that a release consists of, made into one folder with checksums; and the crates, pushed.
//!
//! The workflow `release` calls the parts on the machines that can make them, and pushes what they made. Everything
//! else happens here, so that a release can be rehearsed on a Linux machine alone, without containers (`zig`).
//!
//! Most of the time goes into the compilation of libraries, for each target once: programs and wheels of a target share
//! them. For that they have one profile (`dist`), one linker, one set of options, and one choice of the features of
//! libraries, which cargo makes from the packages that it is asked for together.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Result,
    check::{self, PUBLISHED},
    notices,
    process::{self, output, target as target_folder},
    python::{self, run},
    zig,
};

/// The targets of a Linux machine.
const LINUX: [&str; 4] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// The profile of what is shipped.
const PROFILE: &str = "dist";

/// The path of the loader of musl. A program that is not static names it.
const LOADER: &[u8] = b"/lib/ld-musl-";

/// A part of a release: its name, and what makes it.
type Part = (&'static str, fn(&Release) -> Result<()>);

/// The part that is made only where it is asked for: it needs such an interpreter.
const FREE_THREADED: &str = "free-threaded";

/// In this order, the last one after all others.
const PARTS: [Part; 9] = [
    ("crates", Release::crates),
    ("sdist", Release::sdist),
    // Before the wheels: cargo builds the libraries of all targets at once.
    ("archives", Release::archives),
    ("wheels", Release::wheels),
    (FREE_THREADED, Release::free_threaded),
    ("c", Release::c),
    ("npm", Release::npm),
    ("site", Release::site),
    ("sums", Release::sums),
];

struct Release {
    root: PathBuf,
    /// Where it is made.
    out: PathBuf,
    /// The parts that are made.
    parts: Vec<&'static str>,
    targets: Vec<String>,
}

/// `--dry-run FOLDER [--only PART]... [--target TRIPLE]...` makes parts of a release; `--notes TAG` prints what is new
/// in it; `--publish` pushes the crates.
pub(crate) fn release(root: &Path, args: &[&str]) -> Result<()> {
    match args {
        ["--publish"] => publish(root),
        ["--notes", tag] => {
            let changes = fs::read_to_string(root.join("CHANGELOG.md"))?;
            let address = format!("{}/blob/{tag}/", crate::manifests::address(root)?);
            print!("{}", absolute(notes(&changes, tag, env!("CARGO_PKG_VERSION"))?, &address));
            Ok(())
        }
        ["--dry-run", folder, rest @ ..] => {
            let (only, targets) = options(rest)?;
            let out = std::path::absolute(folder)?;
            // Cargo keeps the builds of a profile in a folder with the name of the profile.
            let of_cargo = std::path::absolute(target_folder(root))?.join(PROFILE);
            if out == of_cargo {
                return Err(format!("{folder} is cargo's own folder: name another").into());
            }
            fs::create_dir_all(&out)?;
            let is_made = |name: &&str| match only.is_empty() {
                true => *name != FREE_THREADED,
                false => only.contains(name),
            };
            let release = Release {
                root: root.to_owned(),
                out,
                parts: PARTS.map(|(name, _)| name).into_iter().filter(is_made).collect(),
                targets: with_default(root, targets)?,
            };
            let mut times = String::new();
            for (name, make) in PARTS.iter().filter(|(name, _)| release.parts.contains(name)) {
                let (begin, worked) = (Instant::now(), process::worked());
                make(&release).map_err(|error| format!("{name}: {error}\n{times}"))?;
                times += &format!("  {name}: {:.0} s", begin.elapsed().as_secs_f64());
                if let (Some(before), Some(after)) = (worked, process::worked()) {
                    times += &format!(", {:.0} s of a core", after - before);
                }
                times += "\n";
            }
            println!("{}\n{times}", release.out.display());
            Ok(())
        }
        _ => Err("`release --dry-run FOLDER` makes a release, `--notes TAG` prints what is new, `--publish` pushes the crates".into()),
    }
}

/// The section of a version in the changelog. The tag must be that of the version.
fn notes<'a>(changes: &'a str, tag: &str, version: &str) -> Result<&'a str> {
    if tag.strip_prefix('v') != Some(version) {
        return Err(format!("the tag {tag} is not v{version}, the version of Cargo.toml").into());
    }
    let heading = format!("\n## {version}");
    let (_, section) = changes
        .split_once(&heading)
        .filter(|(_, rest)| rest.starts_with(['\n', ' ']))
        .ok_or_else(|| format!("CHANGELOG.md has no section `## {version}`"))?;
    let section = section.split_once('\n').map_or("", |(_, section)| section);
    Ok(section.split("\n## ").next().unwrap_or_default())
}

/// A text in Markdown with addresses in place of relative links: the page of a release lies in no folder of the
/// repository.
fn absolute(text: &str, address: &str) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_relative = !part.contains("://") || part.find(')') < part.find("://");
        out += "](";
        out += if is_relative { address } else { "" };
        out += part;
    }
    out
}

/// The parts and the targets that options name.
fn options<'a>(mut args: &[&'a str]) -> Result<(Vec<&'a str>, Vec<String>)> {
    let (mut only, mut targets) = (Vec::new(), Vec::new());
    while let [option, rest @ ..] = args {
        args = match (*option, rest) {
            ("--only", [part, rest @ ..]) if PARTS.iter().any(|(name, _)| name == part) => {
                only.push(*part);
                rest
            }
            ("--only", _) => {
                let names = PARTS.map(|(name, _)| name).join(", ");
                return Err(format!("--only takes a part: {names}").into());
            }
            ("--target", [triple, rest @ ..]) => {
                targets.push((*triple).to_owned());
                rest
            }
            _ => return Err(format!("`release` has no option `{option}`").into()),
        };
    }
    Ok((only, targets))
}

/// Without a choice, those of Linux on Linux, and elsewhere the machine's own.
fn with_default(root: &Path, targets: Vec<String>) -> Result<Vec<String>> {
    if !targets.is_empty() {
        return Ok(targets);
    }
    if cfg!(target_os = "linux") {
        return Ok(LINUX.map(str::to_owned).to_vec());
    }
    Ok(vec![host(root)?])
}

fn host(root: &Path) -> Result<String> {
    // Cargo's own answer, which is that of its compiler.
    let version = output(root, &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("cargo does not say what it runs on")?.to_owned())
}

impl Release {
    /// A new folder for a part.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join(name);
        if folder.is_dir() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn crates(&self) -> Result<()> {
        check::package(&self.root)?;
        let folder = self.folder("crates")?;
        for package in PUBLISHED {
            let name = format!("{package}-{}.crate", env!("CARGO_PKG_VERSION"));
            fs::copy(target_folder(&self.root).join("package").join(&name), folder.join(&name))?;
        }
        Ok(())
    }

    /// The Python package as sources, for machines that no wheel is for.
    fn sdist(&self) -> Result<()> {
        let folder = self.folder("sdist")?;
        let mut command = Command::new(zig::program(&self.root, "maturin")?);
        command.args(["sdist", "--manifest-path"]).arg(self.root.join("crates/python/Cargo.toml"));
        run(command.arg("--out").arg(folder))
    }

    /// A wheel with the stable ABI for each target, and nothing of the machine that makes it.
    fn wheels(&self) -> Result<()> {
        let folder = self.folder("wheels")?;
        for target in &self.targets {
            run(self.maturin(target, &folder)?)?;
        }
        let made = files(&folder)?;
        if made.len() != self.targets.len() {
            return Err(format!("{} wheels for {} targets", made.len(), self.targets.len()).into());
        }
        made.iter().try_for_each(|wheel| python::is_small(wheel))
    }

    /// A wheel for the free-threaded interpreter that `python3` or the variable `PYTHON` is. It has no stable ABI.
    fn free_threaded(&self) -> Result<()> {
        let folder = self.folder(FREE_THREADED)?;
        let interpreter = python::tools(&self.root)?;
        if !python::is_free_threaded(&interpreter)? {
            return Err("this interpreter has a lock: PYTHON=python3.14t names one without".into());
        }
        let mut command = self.maturin(&host(&self.root)?, &folder)?;
        run(command.args(["--no-default-features", "--interpreter"]).arg(interpreter))?;
        files(&folder)?.iter().try_for_each(|wheel| python::is_small(wheel))
    }

    fn maturin(&self, target: &str, out: &Path) -> Result<Command> {
        python::notices(&self.root)?;
        let mut command = Command::new(zig::program(&self.root, "maturin")?);
        command.args(["build", "--profile", PROFILE, "--locked", "--target", target]);
        if zig::is_linux(target) {
            let oldest = if target.ends_with("-musl") { "musllinux_1_2" } else { "manylinux2014" };
            command.args(["--compatibility", oldest]);
        }
        command.arg("--manifest-path").arg(self.root.join("crates/python/Cargo.toml")).arg("--out").arg(out);
        // Of all targets: one of them may be this machine's, whose linker is that of build scripts and macros too.
        // Cargo builds these anew for another linker, and then all libraries.
        command.envs(zig::environment(&self.root, &self.targets)?);
        Ok(command)
    }

    /// The command line with its licences, manual and completions, as an archive for each target.
    fn archives(&self) -> Result<()> {
        let folder = self.folder("archives")?;
        self.programs()?;
        let pages = self.pages()?;
        for target in &self.targets {
            let (suffix, archive) = match target.contains("windows") {
                true => (".exe", "zip"),
                false => ("", "tar.gz"),
            };
            let name = format!("unskew-{}-{target}", env!("CARGO_PKG_VERSION"));
            let stage = self.folder(&name)?;
            let program = format!("unskew{suffix}");
            let built = fs::read(self.built(target).join(&program))?;
            if target.ends_with("-musl") && built.windows(LOADER.len()).any(|bytes| bytes == LOADER) {
                return Err(
                    format!("{program} for {target} is not static: it names the loader of musl").into()
                );
            }
            fs::copy(self.built(target).join(&program), stage.join(&program))?;
            for file in ["LICENSE-MIT", "LICENSE-APACHE", "crates/cli/README.md"] {
                let name = Path::new(file).file_name().ok_or("a file without a name")?;
                fs::copy(self.root.join(file), stage.join(name))?;
            }
            notices::write(&self.root, "unskew", &stage.join("THIRD-PARTY.txt"))?;
            for part in ["man", "completions"] {
                fs::create_dir(stage.join(part))?;
                for page in files(&pages.join(part))? {
                    fs::copy(&page, stage.join(part).join(page.file_name().ok_or("a page without a name")?))?;
                }
            }
            self.pack(&name, &folder.join(format!("{name}.{archive}")))?;
        }
        Ok(())
    }

    /// Builds the programs of all targets. The package of the wheel is named for its choice of features; of it nothing
    /// is built here.
    fn programs(&self) -> Result<()> {
        let mut args = vec!["build", "--profile", PROFILE, "--locked"];
        for package in ["unskew", "unskew-pages", "unskew-python"] {
            args.extend(["--package", package]);
        }
        args.extend(["--bin", "unskew", "--bin", "unskew-pages"]);
        for target in &self.targets {
            args.extend(["--target", target]);
        }
        let environment = zig::programs(&self.root, &self.targets)?;
        process::run(&self.root, &args, &environment)
    }

    /// Where cargo puts programs for a target.
    fn built(&self, target: &str) -> PathBuf {
        target_folder(&self.root).join(target).join(PROFILE)
    }

    /// The manual, the completions and the page of all options, which are the same for all targets. A target of this
    /// machine has the program that writes them; one with musl needs no musl to run.
    fn pages(&self) -> Result<PathBuf> {
        let folder = self.said();
        let host = host(&self.root)?;
        let platform = |triple: &str| triple.rsplit_once('-').map(|(platform, _)| platform.to_owned());
        match self.targets.iter().find(|target| platform(target) == platform(&host)) {
            Some(target) => {
                let program = format!("unskew-pages{}", std::env::consts::EXE_SUFFIX);
                run(Command::new(self.built(target).join(program)).arg(&folder))?;
            }
            None => {
                let folder = folder.to_str().ok_or("the folder's path is not UTF-8")?;
                crate::run(&self.root, &["pages", folder])?;
            }
        }
        Ok(folder)
    }

    /// Where the pages are.
    fn said(&self) -> PathBuf {
        target_folder(&self.root).join("pages")
    }

    /// The C library for this machine as cargo-c installs it: headers, a versioned shared library, a static one, and a
    /// file for pkg-config.
    fn c(&self) -> Result<()> {
        let folder = self.folder("c")?;
        let name = format!("unskew-capi-{}-{}", env!("CARGO_PKG_VERSION"), host(&self.root)?);
        let stage = self.folder(&name)?;
        notices::write(&self.root, "unskew-capi", &stage.join("THIRD-PARTY.txt"))?;
        let staged = stage.to_str().ok_or("the folder's path is not UTF-8")?;
        let host = host(&self.root)?;
        // A folder of its own: cargo-c is a cargo of another version, and each would build anew what the other has
        // built.
        let target = target_folder(&self.root).join("c");
        let target = target.to_str().ok_or("the folder's path is not UTF-8")?;
        let install = ["cinstall", "--profile", PROFILE, "--locked", "--package", "unskew-capi"];
        let place = ["--destdir", staged, "--prefix", "/usr/local", "--libdir", "lib"];
        let place = [&place[..], &["--target", &host, "--target-dir", target]].concat();
        let environment = zig::environment(&self.root, std::slice::from_ref(&host))?;
        process::run(&self.root, &[&install[..], &place].concat(), &environment).map_err(|error| {
            format!("{error}; `cargo install --locked cargo-c` provides `cargo cinstall`")
        })?;
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            fs::copy(self.root.join("crates/capi").join(file), stage.join(file))?;
        }
        self.compiles(&stage)?;
        self.pack(&name, &folder.join(format!("{name}.tar.gz")))
    }

    /// Whether a program of C finds the headers and the library by the file for pkg-config, on a Unix with pkg-config.
    fn compiles(&self, stage: &Path) -> Result<()> {
        if !cfg!(unix) {
            return Ok(());
        }
        let installed = stage.join("usr/local/lib/pkgconfig");
        let mut flags = Command::new("pkg-config");
        flags.args(["--cflags", "--libs", "unskew-capi"]);
        flags.env("PKG_CONFIG_SYSROOT_DIR", stage).env("PKG_CONFIG_PATH", &installed);
        let Ok(flags) = flags.output() else {
            println!("no pkg-config: no program of C is compiled with the library");
            return Ok(());
        };
        let text = String::from_utf8(flags.stdout)?;
        if !flags.status.success() || text.trim().is_empty() {
            return Err(format!("pkg-config: {}", String::from_utf8_lossy(&flags.stderr)).into());
        }
        let program = target_folder(&self.root).join("masks-in-c");
        let mut compiler = Command::new("cc");
        compiler.arg(self.root.join("crates/capi/tests/c/masks.c")).args(text.split_whitespace());
        run(compiler.arg("-o").arg(program))
    }

    /// The package of `cargo xtask wasm`, as the registry takes it.
    fn npm(&self) -> Result<()> {
        crate::run(&self.root, &["wasm", "--build"])?;
        let folder = self.folder("npm")?;
        let mut pack = process::npm();
        pack.args(["pack", "--pack-destination"])
            .arg(&folder)
            .arg(target_folder(&self.root).join("npm/unskew"));
        run(pack)
    }

    /// The pages of `cargo xtask site`, as an archive.
    fn site(&self) -> Result<()> {
        let said = self.said();
        crate::site::site(&self.root, true, self.parts.contains(&"archives").then_some(&*said))?;
        let folder = self.folder("site")?;
        let archive = folder.join(format!("unskew-site-{}.tar.gz", env!("CARGO_PKG_VERSION")));
        let mut tar = Command::new("tar");
        run(tar.arg("-czf").arg(archive).arg("-C").arg(self.root.join("target")).arg("site"))
    }

    /// `SHA256SUMS`, of every file of all parts.
    fn sums(&self) -> Result<()> {
        const NAME: &str = "SHA256SUMS";
        let parts = PARTS.iter().map(|(name, _)| self.out.join(name)).filter(|part| part.is_dir());
        let (mut folders, mut names) = (parts.collect::<Vec<_>>(), Vec::new());
        while let Some(folder) = folders.pop() {
            for path in entries(&folder)? {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    names.push(path.strip_prefix(&self.out)?.to_owned());
                }
            }
        }
        names.sort();
        let sums = Command::new("sha256sum").arg("--").args(&names).current_dir(&self.out).output()?;
        if names.is_empty() || !sums.status.success() {
            return Err(format!("no sums of {} files", names.len()).into());
        }
        fs::write(self.out.join(NAME), sums.stdout)?;
        Ok(())
    }

    /// Packs a folder beside the parts into an archive, and removes it.
    fn pack(&self, name: &str, archive: &Path) -> Result<()> {
        // The tar of Windows makes a zip of such a name. That of Git for Windows, which may come first there, does not.
        let mut tar = match std::env::var_os("SystemRoot").filter(|_| cfg!(windows)) {
            Some(windows) => Command::new(Path::new(&windows).join("System32").join("tar.exe")),
            None => Command::new("tar"),
        };
        run(tar.arg("-a").arg("-cf").arg(archive).arg("-C").arg(&self.out).arg(name))?;
        fs::remove_dir_all(self.out.join(name))?;
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_file()).collect())
}

/// What became of a push.
#[derive(Debug, PartialEq, Eq)]
enum Push {
    Done,
    /// The registry has this version already, from a run that was cut off.
    There,
    /// The registry takes so many new crates at once and no more.
    Later,
    Failed,
}

fn push(success: bool, message: &str) -> Push {
    match message {
        _ if success => Push::Done,
        _ if message.contains("already exists on") || message.contains("is already uploaded") => Push::There,
        _ if message.contains("429 Too Many Requests") => Push::Later,
        _ => Push::Failed,
    }
}

/// Pushes each crate, those first that others need. It may be run again after it was cut off. The registry takes five
/// crates with new names, and then one in ten minutes, so that the first release takes two and a half hours.
fn publish(root: &Path) -> Result<()> {
    const WAIT: Duration = Duration::from_secs(11 * 60);
    for package in PUBLISHED {
        loop {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args(["publish", "--locked", "--no-verify", "--package", package]).current_dir(root);
            println!("$ cargo publish --locked --no-verify --package {package}");
            let answer = command.output()?;
            let message = String::from_utf8_lossy(&answer.stderr);
            match push(answer.status.success(), &message) {
                Push::Done => break,
                Push::There => {
                    println!("  is there");
                    break;
                }
                Push::Later => {
                    println!("  the registry takes it later; waiting {} s", WAIT.as_secs());
                    std::thread::sleep(WAIT);
                }
                Push::Failed => return Err(format!("{package} was not published:\n{message}").into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Push, absolute, notes, options, push};

    #[test]
    fn links_of_notes_lead_to_the_tag() {
        let text = "[a](docs/a.md#b) and [c](https://c.org/d) and [e](f) https://g.org";
        let expected = "[a](h/docs/a.md#b) and [c](https://c.org/d) and [e](h/f) https://g.org";
        assert_eq!(absolute(text, "h/"), expected);
    }

    #[test]
    fn notes_are_the_section_of_the_tag() {
        let changes = "# Changelog\n\n## 0.2.0\n\nnew\n\n## 0.1.0 (2026)\n\n### A\n\nold\n";
        assert_eq!(notes(changes, "v0.2.0", "0.2.0").unwrap(), "\nnew\n");
        assert_eq!(notes(changes, "v0.1.0", "0.1.0").unwrap(), "\n### A\n\nold\n");
        assert!(notes(changes, "v0.1.0", "0.2.0").is_err() && notes(changes, "v0.1", "0.1").is_err());
    }

    #[test]
    fn parts_and_targets_are_options() {
        let (only, targets) = options(&["--only", "wheels", "--target", "a-b", "--only", "sums"]).unwrap();
        assert_eq!((only, targets), (vec!["wheels", "sums"], vec!["a-b".to_owned()]));
        assert!(options(&["--only", "nothing"]).unwrap_err().to_string().contains("wheels"));
        assert!(options(&["--target"]).is_err() && options(&["wheels"]).is_err());
    }

    #[test]
    fn a_push_that_was_cut_off_goes_on() {
        let there = "error: crate unskew-core@0.1.0 already exists on crates.io index";
        let later = "error: failed to publish to registry\n\nCaused by:\n  the remote server responded with an error (status 429 Too Many Requests): You have published too many new crates";
        assert_eq!(push(false, there), Push::There);
        assert_eq!(push(false, later), Push::Later);
        assert_eq!(push(false, "error: no token found"), Push::Failed);
        assert_eq!(push(true, ""), Push::Done);
    }
}

//! How the threads of llama.cpp wait for each other.
//!
//! They meet at a barrier after each product, and OpenMP lets them spin there. Where another program takes a core, all
//! spin until the late one comes: a pass was 10 to 60 times slower beside other work, and as fast as ever where threads
//! sleep (`OMP_WAIT_POLICY=passive`). OpenMP reads that variable before `main` begins, so that a program must be
//! started with it.
//!
//! Tried instead: llama.cpp without OpenMP, whose own barrier spins without an end; and fewer threads, which only
//! helps where one is left.

/// Starts this program anew with `OMP_WAIT_POLICY=passive`, unless a variable says how threads wait. Call it first in
/// `main`. It does nothing where a program cannot become another one (Windows).
pub fn wait_passively() {
    #[cfg(unix)]
    {
        use std::{env, os::unix::process::CommandExt, process::Command};

        if ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"]
            .iter()
            .any(|name| env::var_os(name).is_some())
        {
            return;
        }
        let (Ok(program), mut args) = (env::current_exe(), env::args_os()) else { return };
        let mut command = Command::new(program);
        if let Some(name) = args.next() {
            command.arg0(name);
        }
        // It returns where it fails. Threads spin then, and the program is right.
        let _ = command.args(args).env("OMP_WAIT_POLICY", "passive").exec();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{env, process::Command};

    /// Set where this test is the program that starts anew.
    const PROGRAM: &str = "UNSKEW_TEST_OF_THREADS";

    #[test]
    #[allow(clippy::print_stdout, reason = "the test that started this program reads it")]
    fn a_program_starts_anew_once() {
        if env::var_os(PROGRAM).is_some() {
            super::wait_passively();
            println!("policy {}", env::var("OMP_WAIT_POLICY").unwrap_or_default());
            return;
        }
        let run = |policy: Option<&str>| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "--nocapture", "threads::tests::a_program_starts_anew_once"]);
            command.env(PROGRAM, "1");
            for name in ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"] {
                command.env_remove(name);
            }
            if let Some(policy) = policy {
                command.env("OMP_WAIT_POLICY", policy);
            }
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert!(run(None).contains("policy passive"), "{}", run(None));
        assert!(run(Some("active")).contains("policy active"), "{}", run(Some("active")));
    }
}

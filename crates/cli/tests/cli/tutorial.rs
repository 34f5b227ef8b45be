//! The program of the tutorial in Rust is the example `five_minutes`, which is compiled here with a `println` that
//! keeps what it prints.

use std::cell::RefCell;

use crate::documents::{blocks, document};

thread_local!(static PRINTED: RefCell<String> = const { RefCell::new(String::new()) });

macro_rules! println {
    ($($arguments:tt)*) => {
        crate::tutorial::PRINTED.with_borrow_mut(|printed| {
            *printed += &format!($($arguments)*);
            printed.push('\n');
        })
    };
}

#[path = "../../examples/five_minutes.rs"]
mod example;

#[test]
fn the_page_is_the_example_and_prints_what_it_says() {
    let page = document("docs/tutorials/rust.md");
    let example = document("crates/cli/examples/five_minutes.rs");
    let (_, code) = example.split_once("\nuse ").unwrap();
    let blocks = blocks(&page);
    let block = |language: &str| &blocks.iter().find(|(found, _)| *found == language).unwrap().1;
    assert_eq!(*block("rust"), format!("use {code}").replace("pub(crate) fn main", "fn main"));
    example::main().unwrap();
    PRINTED.with_borrow(|printed| assert_eq!(printed, block("text")));
}

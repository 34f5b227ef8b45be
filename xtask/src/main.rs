//! Development tasks.
#[cfg(feature = "train")]
mod corpus;
#[cfg(feature = "train")]
mod train;
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
fn main() -> Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let steps = std::env::args().nth(2).map(|steps| steps.parse().unwrap());
    #[cfg(feature = "train")]
    train::run(root, steps)?;
    Ok(())
}

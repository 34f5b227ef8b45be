#![allow(clippy::all, clippy::pedantic, missing_docs)]
use std::time::Instant;
use unskew_core::{Constraint, OutputEnd, TokenMask};
use unskew_engine::{Compiler, Spec, TokenSpace};
use unskew_vocab::Tokenizer;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let tokens = TokenSpace::from_tokenizer(Tokenizer::from_file(path).unwrap(), &[], 0).unwrap();
    let compiler = Compiler::new(tokens);
    let t = Instant::now();
    compiler.tokens().text_order();
    println!("order {:?}", t.elapsed());
    for (name, spec, text) in [
        ("choices", Spec::choices(["A", "B", "C", "D"]), "A"),
        ("number", Spec::regex("[0-9]{1,4}"), "123"),
        ("word", Spec::regex("[a-z]{3,8}"), "hello"),
        ("string", Spec::regex("\"[^\"]*\""), "\"hello world, this is text\""),
        ("record", Spec::json_schema(r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}"#), r#"{"name": "John Smith", "age": 30}"#),
        ("nested", Spec::json_schema(r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}},"b":{"type":"object","properties":{"c":{"type":"number"}}}}}"#), r#"{"a": ["x", "hello"], "b": {"c": 1.5}}"#),
        ("any json", Spec::json_schema("true"), r#"{"a": ["x", "hello"], "b": {"c": 1.5}}"#),
        ("free", Spec::regex("(?s).{1,2000}"), "hello world"),
    ] {
        let compiled = match compiler.compile(&spec) { Ok(c) => c, Err(e) => { println!("{name}: {e}"); continue } };
        let ids = compiler.tokens().encode_output(text).unwrap();
        let model = compiled.clone().with_end(OutputEnd::Model);
        let free = compiled.with_end(OutputEnd::Free);
        let (mut ms, mut fs) = (model.scratch(), free.scratch());
        let (mut m, mut f) = (model.start(), free.start());
        let mut mask = TokenMask::new(model.vocab_len());
        let mut ends = TokenMask::new(model.vocab_len());
        for (i, id) in ids.iter().copied().map(Some).chain([None]).enumerate() {
            let t = Instant::now(); model.fill_mask(&mut ms, &m, mask.as_mut()); let cold_m = t.elapsed(); let n = mask.count();
            let t = Instant::now(); free.fill_mask(&mut fs, &f, mask.as_mut()); let cold = t.elapsed(); let nf = mask.count();
            let t = Instant::now(); for _ in 0..1000 { free.fill_mask(&mut fs, &f, mask.as_mut()); } let warm = t.elapsed()/1000;
            let t = Instant::now(); for _ in 0..1000 { model.fill_mask(&mut ms, &m, mask.as_mut()); } let warm_m = t.elapsed()/1000;
            let acc = free.is_accepting(&f);
            let e = if acc { free.fill_ends(&mut fs, &f, ends.as_mut()); ends.count() } else { 0 };
            println!("{name} {i}: allowed {n}, passing {}, ends {e}; cold model {cold_m:?} free {cold:?}; warm model {warm_m:?} free {warm:?}", nf - n);
            if let Some(id) = id { model.advance(&mut ms, &mut m, id).unwrap(); free.advance(&mut fs, &mut f, id).unwrap(); }
        }
    }
}

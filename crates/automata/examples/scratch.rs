//! scratch
fn main() {
    for name in ["gpt2", "cl100k", "llama3", "qwen2", "llama2", "mistral-v1"] {
        let t =
            unskew_vocab::Tokenizer::from_file(format!("/work/shared/data/tokenizers/{name}/tokenizer.json"))
                .unwrap();
        println!("{name}");
        unskew_automata::canonical::scratch(t.vocabulary(), t.tokenization().unwrap());
    }
}

//! Notebooks as pages: their text, their code, and the outputs that are stored in them.
//!
//! Of an output the page has the richest form that is safe in it: a picture, the table of pandas, else the text. The
//! frame in which a notebook shows the page of an audit becomes a frame here.

use serde_json::Value;

use crate::Result;

/// A notebook in Markdown. Lines of text are those of the notebook, so that links in them are followed as its own.
pub(super) fn markdown(text: &str) -> Result<String> {
    let notebook: Value = serde_json::from_str(text)?;
    let mut page = String::new();
    for cell in notebook["cells"].as_array().into_iter().flatten() {
        let source = joined(&cell["source"]);
        match cell["cell_type"].as_str() {
            Some("markdown") => page += &format!("{source}\n\n"),
            Some("code") => {
                page += &format!("```python\n{source}\n```\n\n");
                for output in cell["outputs"].as_array().into_iter().flatten() {
                    page += &shown(output);
                }
            }
            _ => {}
        }
    }
    Ok(page)
}

fn shown(output: &Value) -> String {
    let data = &output["data"];
    let html = joined(&data["text/html"]);
    if let Some(image) = data["image/png"].as_str() {
        let image: String = image.split_whitespace().collect();
        return format!(
            "<p class=\"plot\"><img alt=\"the plot of this cell\" src=\"data:image/png;base64,{image}\"></p>\n\n"
        );
    }
    if html.starts_with("<iframe") {
        // An attribute has no line breaks here: an empty line would end the block of HTML.
        return format!(
            "{}\n\n",
            html.replacen("<iframe", "<iframe title=\"the page of this cell\" loading=\"lazy\"", 1)
                .replace('\n', "&#10;")
        );
    }
    if let (Some(begin), Some(end)) = (html.find("<table"), html.find("</table>")) {
        let table = &html[begin..end];
        let lines: Vec<&str> =
            table.lines().filter(|line| !line.trim().is_empty()).map(str::trim_start).collect();
        return format!(
            "<div class=\"table-wrapper output\">{}</table></div>\n\n",
            lines.join("\n").replace(" border=\"1\"", "")
        );
    }
    let text = joined(if data.is_object() { &data["text/plain"] } else { &output["text"] });
    format!("```text\n{}\n```\n\n", text.trim_end())
}

/// A text, or the lines of one.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn cells_and_outputs_are_shown() {
        let notebook = r#"{"cells": [
            {"cell_type": "markdown", "source": ["A\n", "text"]},
            {"cell_type": "code", "source": "f()", "outputs": [
                {"output_type": "stream", "text": ["1\n", "2\n"]},
                {"output_type": "display_data", "data": {"image/png": "aWE=\n", "text/plain": "plot"}},
                {"output_type": "execute_result", "data": {"text/html": "<div>\n<style></style>\n<table border=\"1\">\n\n  <tr></tr>\n</table></div>"}},
                {"output_type": "execute_result", "data": {"text/html": "<iframe srcdoc=\"a\n\nb\"></iframe>"}}
            ]}]}"#;
        let page = markdown(notebook).unwrap();
        for part in [
            "A\ntext\n\n```python\nf()\n```",
            "```text\n1\n2\n```",
            "src=\"data:image/png;base64,aWE=\"",
            "<div class=\"table-wrapper output\"><table>\n<tr></tr></table></div>",
            "srcdoc=\"a&#10;&#10;b\"",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
    }
}

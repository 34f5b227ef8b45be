//! How the models of each family write calls of tools, as data: the marks, and what stands between them.
//!
//! The forms are those of the models' chat templates, as XGrammar 0.2.8 has them in its builders (`tests/test_tools.py`
//! compares the languages), and for Mistral as `mistral-common` writes them from version 13 of its tokenizers on. A
//! form that is not known exactly is not here: Gemma's calls are no JSON, and Llama 4 writes Python.

/// A family of models that write calls alike.
#[derive(Debug)]
pub(super) struct Form {
    /// The name of the family, and how the names of its models begin, in lower case.
    pub(super) names: &'static [&'static str],
    pub(super) shape: Shape,
    /// Texts that may be control tokens of the model's tokenizer.
    pub(super) marks: &'static [&'static str],
    /// The text around all calls; empty where each stands by itself.
    pub(super) section: (&'static str, &'static str),
    /// The text in front of the section where there is no free text.
    pub(super) lead: &'static str,
    /// The text in front of the arguments. `{name}` is the name of the tool, and `{id}` a number.
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
    /// The text between two calls of a section.
    pub(super) between: &'static str,
    /// How arguments are written: `json`, or a style of structural tags.
    pub(super) style: &'static str,
    /// White space in arguments that are JSON; empty where that of the [`Spec`](crate::Spec) is read.
    pub(super) whitespace: &'static str,
    /// What no string and no name of the arguments has in it: parsers would take the call for ended.
    pub(super) unquoted: &'static [&'static str],
    /// What free text has not in it; the first one begins a call or a section.
    pub(super) excludes: &'static [&'static str],
    /// Whether free text may follow calls that are required.
    pub(super) goes_on: bool,
    /// The marks around the model's reasoning, and the text after it.
    pub(super) thought: Option<(&'static str, &'static str, &'static str)>,
    /// What a model writes that reasons always, where it is not to.
    pub(super) thoughtless: &'static str,
}

/// The order of the parts of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Reasoning, then free text with calls.
    Free,
    /// Reasoning, a response and calls, each in its own marks: Kimi K3.
    Kimi,
    /// Messages in channels: gpt-oss.
    Harmony,
}

const PLAIN: Form = Form {
    names: &[],
    shape: Shape::Free,
    marks: &[],
    section: ("", ""),
    lead: "",
    begin: "",
    end: "",
    between: "",
    style: "json",
    whitespace: "",
    unquoted: &[],
    excludes: &[],
    goes_on: true,
    thought: None,
    thoughtless: "",
};

const THINK: Option<(&str, &str, &str)> = Some(("<think>", "</think>", ""));
const THINK_LINES: Option<(&str, &str, &str)> = Some(("<think>", "</think>", "\n\n"));
const THINK_MARKS: &[&str] = &["<think>", "</think>", "<tool_call>", "</tool_call>"];

const HERMES: Form = Form {
    names: &["hermes", "qwen2.5"],
    marks: THINK_MARKS,
    begin: "<tool_call>\n{\"name\": \"{name}\", \"arguments\": ",
    end: "}\n</tool_call>",
    unquoted: &["</tool_call>"],
    excludes: &["<tool_call>", "<think>", "</think>"],
    ..PLAIN
};
const QWEN_XML: Form = Form {
    names: &["qwen_3_coder", "qwen3-coder"],
    begin: "<tool_call>\n<function={name}>\n",
    end: "\n</function>\n</tool_call>",
    style: "qwen_xml",
    unquoted: &["</parameter>", "<parameter=", "</function>", "</tool_call>"],
    excludes: &["<tool_call>\n<function=", "<think>", "</think>"],
    thought: THINK_LINES,
    ..HERMES
};
const DEEPSEEK_JSON: Form = Form {
    names: &["deepseek_v3_1", "deepseek-v3.1", "deepseek-v3.2-exp"],
    marks: &[
        "<think>",
        "</think>",
        "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
        "<\u{ff5c}tool\u{2581}calls\u{2581}end\u{ff5c}>",
        "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>",
        "<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>",
        "<\u{ff5c}tool\u{2581}sep\u{ff5c}>",
    ],
    section: (
        "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
        "<\u{ff5c}tool\u{2581}calls\u{2581}end\u{ff5c}>",
    ),
    begin: "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>{name}<\u{ff5c}tool\u{2581}sep\u{ff5c}>",
    end: "<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>",
    // The parsers of vLLM 0.32 look for arguments on one line.
    whitespace: "line",
    unquoted: &["<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>"],
    excludes: &["<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>", "<think>", "</think>"],
    goes_on: false,
    thought: THINK,
    ..PLAIN
};
const DEEPSEEK_XML: Form = Form {
    names: &["deepseek_v3_2", "deepseek-v3.2"],
    marks: &["<think>", "</think>"],
    section: ("<\u{ff5c}DSML\u{ff5c}function_calls>\n", "</\u{ff5c}DSML\u{ff5c}function_calls>"),
    lead: "\n\n",
    begin: "<\u{ff5c}DSML\u{ff5c}invoke name=\"{name}\">\n",
    end: "</\u{ff5c}DSML\u{ff5c}invoke>\n",
    style: "deepseek_xml",
    unquoted: &["<\u{ff5c}DSML\u{ff5c}", "</\u{ff5c}DSML\u{ff5c}"],
    excludes: &["<\u{ff5c}DSML\u{ff5c}function_calls>", "<think>", "</think>"],
    goes_on: false,
    thought: THINK,
    ..PLAIN
};

/// All families.
pub(super) const FORMS: &[Form] = &[
    Form {
        names: &["llama", "llama-3.1", "llama-3.2", "llama-3.3", "meta-llama-3.1"],
        begin: "{\"name\": \"{name}\", \"parameters\": ",
        end: "}",
        excludes: &["{\"name\": ", "<think>", "</think>"],
        ..PLAIN
    },
    HERMES,
    Form { names: &["qwen_3", "qwen3"], thought: THINK_LINES, ..HERMES },
    QWEN_XML,
    Form { names: &["qwen_3_5", "qwen3.5", "qwen3.6"], ..QWEN_XML },
    Form {
        names: &["mimo", "mimo-v2.6"],
        begin: "<tool_call><function={name}>",
        end: "</function></tool_call>",
        style: "mimo_xml",
        excludes: &["<tool_call>", "<think>", "</think>", "</tool_call>", "<function="],
        thought: THINK,
        ..QWEN_XML
    },
    Form {
        names: &["exaone", "exaone-4.0"],
        begin: "<tool_call>{\"name\": \"{name}\", \"arguments\": ",
        end: "}</tool_call>",
        thought: THINK_LINES,
        ..HERMES
    },
    Form {
        names: &["glm_4_7", "glm-4.7", "glm-5"],
        marks: &[
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
        ],
        begin: "<tool_call>{name}",
        end: "</tool_call>",
        style: "glm_xml",
        unquoted: &["</arg_value>", "</tool_call>"],
        excludes: &[
            "<tool_call>",
            "<think>",
            "</think>",
            "</tool_call>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
        ],
        thought: THINK,
        ..PLAIN
    },
    Form {
        names: &["kimi", "kimi-k2", "kimi-k2.5"],
        marks: &[
            "<think>",
            "</think>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ],
        section: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        begin: "<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
        end: "<|tool_call_end|>",
        unquoted: &["<|tool_call_end|>"],
        excludes: &["<|tool_calls_section_begin|>", "<think>", "</think>", "<|tool_call_begin|>"],
        goes_on: false,
        thought: THINK,
        ..PLAIN
    },
    Form {
        names: &["kimi_k3", "kimi-k3"],
        shape: Shape::Kimi,
        marks: &["<|open|>", "<|close|>", "<|sep|>"],
        section: ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        begin: "<|open|>call tool=\"{name}\" index=\"{id}\"<|sep|>",
        end: "<|close|>call<|sep|>",
        style: "kimi_k3_xml",
        unquoted: &["<|open|>", "<|close|>", "<|sep|>"],
        excludes: &["<|open|>", "<|close|>"],
        goes_on: false,
        thought: Some(("<|open|>think<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>")),
        ..PLAIN
    },
    Form {
        names: &["deepseek_r1", "deepseek-r1"],
        begin: "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>function<\u{ff5c}tool\u{2581}sep\u{ff5c}>{name}\n```json\n",
        end: "\n```<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>",
        between: "\n",
        ..DEEPSEEK_JSON
    },
    DEEPSEEK_JSON,
    DEEPSEEK_XML,
    Form {
        names: &["deepseek_v4", "deepseek-v4"],
        section: ("<\u{ff5c}DSML\u{ff5c}tool_calls>\n", "</\u{ff5c}DSML\u{ff5c}tool_calls>"),
        excludes: &["<\u{ff5c}DSML\u{ff5c}tool_calls>", "<think>", "</think>"],
        ..DEEPSEEK_XML
    },
    Form {
        names: &["deepseek_v4_1", "deepseek-v4.1"],
        section: ("<\u{ff5c}DSML\u{ff5c} calls>\n", "</\u{ff5c}DSML\u{ff5c} calls>"),
        begin: "<\u{ff5c}DSML\u{ff5c} invoke name=\"{name}\">\n",
        end: "</\u{ff5c}DSML\u{ff5c} invoke>\n",
        style: "deepseek_v4_1_xml",
        excludes: &["<\u{ff5c}DSML\u{ff5c} calls>", "<think>", "</think>"],
        ..DEEPSEEK_XML
    },
    Form {
        names: &["minimax", "minimax-m2.5", "minimax-m2.7"],
        marks: &["<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"],
        section: ("<minimax:tool_call>\n", "</minimax:tool_call>"),
        lead: "\n",
        begin: "<invoke name=\"{name}\">\n",
        end: "</invoke>\n",
        style: "minimax_xml",
        unquoted: &["</parameter>", "<parameter name=", "</invoke>"],
        excludes: &["<minimax:tool_call>", "<think>", "</think>"],
        goes_on: false,
        thought: THINK_LINES,
        thoughtless: "\n</think>\n\n\n\n",
        ..PLAIN
    },
    Form {
        names: &["minimax_m3", "minimax-m3"],
        marks: &["<mm:think>", "</mm:think>", "]<]minimax[>["],
        section: ("]<]minimax[>[<tool_call>\n", "]<]minimax[>[</tool_call>"),
        begin: "]<]minimax[>[<invoke name=\"{name}\">",
        end: "]<]minimax[>[</invoke>\n",
        style: "minimax_m3_xml",
        unquoted: &["]<]minimax[>["],
        excludes: &[
            "]<]minimax[>[<tool_call>",
            "<mm:think>",
            "</mm:think>",
            "]<]minimax[>[</tool_call>",
            "]<]minimax[>[<invoke",
            "]<]minimax[>[</invoke>",
        ],
        thought: Some(("<mm:think>", "</mm:think>", "")),
        ..PLAIN
    },
    Form {
        names: &["cohere"],
        marks: &["<|START_THINKING|>", "<|END_THINKING|>"],
        section: ("<cofl:tool_calls>", "</cofl:tool_calls>"),
        begin: "<cofl:tool_call id=\"{id}\" name=\"{name}\">",
        end: "</cofl:tool_call>",
        style: "cohere_xml",
        unquoted: &["<cofl:", "</cofl:", "<|START_THINKING|>", "<|END_THINKING|>"],
        excludes: &["<cofl:tool_calls>", "<|START_THINKING|>", "<|END_THINKING|>"],
        goes_on: false,
        thought: Some(("<|START_THINKING|>", "<|END_THINKING|>", "")),
        ..PLAIN
    },
    Form {
        names: &["mistral_v13", "ministral-3", "magistral-small-2507", "magistral-small-2509"],
        marks: &["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
        begin: "[TOOL_CALLS]{name}[ARGS]",
        unquoted: &["[TOOL_CALLS]", "[ARGS]"],
        excludes: &["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
        thought: Some(("[THINK]", "[/THINK]", "")),
        ..PLAIN
    },
    Form {
        names: &["harmony", "gpt-oss"],
        shape: Shape::Harmony,
        marks: &[
            "<|start|>",
            "<|channel|>",
            "<|constrain|>",
            "<|message|>",
            "<|call|>",
            "<|end|>",
            "<|return|>",
        ],
        end: "<|call|>",
        unquoted: &["<|call|>"],
        excludes: &["<|end|>", "<|return|>"],
        goes_on: false,
        ..PLAIN
    },
];

/// The three ways in which gpt-oss begins a call.
pub(super) const HARMONY_CALLS: [&str; 3] = [
    "<|channel|>commentary to=functions.{name}<|constrain|>json<|message|>",
    " to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>",
    " to=functions.{name}<|channel|>commentary json<|message|>",
];

/// The form of a model, by the name of its family, or by its own with or without its owner: `Qwen/Qwen3-8B`.
pub(super) fn named(model: &str) -> Option<&'static Form> {
    let name = model.rsplit(['/', '\\']).next()?.to_lowercase();
    let is_family = |form: &&Form| {
        form.names[0] == name || form.names[0].replace('_', "") == name.replace(['_', '-'], "")
    };
    if let Some(form) = FORMS.iter().find(is_family) {
        return Some(form);
    }
    let begins =
        |known: &str| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    // The longest beginning: `qwen3-coder-30b` is no `qwen3`.
    let known = FORMS.iter().flat_map(|form| form.names[1..].iter().map(move |name| (*name, form)));
    known.filter(|(known, _)| begins(known)).max_by_key(|(known, _)| known.len()).map(|(_, form)| form)
}

//! The W3C's notation as published: the productions of Turtle and the terminals of SPARQL 1.1, in which a
//! backslash is an ordinary character. Expected results were determined by hand.

use unskew_grammar::{Fate, Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain, from_ebnf};

use crate::common::oracle::{Alphabet, Oracle, bytes};

/// W3C, "SPARQL 1.1 Query Language", section 19.8: the productions 139 to 173.
const SPARQL: &str = r##"
[139] IRIREF ::= '<' ([^<>"{}|^`\]-[#x00-#x20])* '>'
[140] PNAME_NS ::= PN_PREFIX? ':'
[141] PNAME_LN ::= PNAME_NS PN_LOCAL
[142] BLANK_NODE_LABEL ::= '_:' ( PN_CHARS_U | [0-9] ) ((PN_CHARS|'.')* PN_CHARS)?
[143] VAR1 ::= '?' VARNAME
[144] VAR2 ::= '$' VARNAME
[145] LANGTAG ::= '@' [a-zA-Z]+ ('-' [a-zA-Z0-9]+)*
[146] INTEGER ::= [0-9]+
[147] DECIMAL ::= [0-9]* '.' [0-9]+
[148] DOUBLE ::= [0-9]+ '.' [0-9]* EXPONENT | '.' ([0-9])+ EXPONENT | ([0-9])+ EXPONENT
[149] INTEGER_POSITIVE ::= '+' INTEGER
[150] DECIMAL_POSITIVE ::= '+' DECIMAL
[151] DOUBLE_POSITIVE ::= '+' DOUBLE
[152] INTEGER_NEGATIVE ::= '-' INTEGER
[153] DECIMAL_NEGATIVE ::= '-' DECIMAL
[154] DOUBLE_NEGATIVE ::= '-' DOUBLE
[155] EXPONENT ::= [eE] [+-]? [0-9]+
[156] STRING_LITERAL1 ::= "'" ( ([^#x27#x5C#xA#xD]) | ECHAR )* "'"
[157] STRING_LITERAL2 ::= '"' ( ([^#x22#x5C#xA#xD]) | ECHAR )* '"'
[158] STRING_LITERAL_LONG1 ::= "'''" ( ( "'" | "''" )? ( [^'\] | ECHAR ) )* "'''"
[159] STRING_LITERAL_LONG2 ::= '"""' ( ( '"' | '""' )? ( [^"\] | ECHAR ) )* '"""'
[160] ECHAR ::= '\' [tbnrf\"']
[161] NIL ::= '(' WS* ')'
[162] WS ::= #x20 | #x9 | #xD | #xA
[163] ANON ::= '[' WS* ']'
[164] PN_CHARS_BASE ::= [A-Z] | [a-z] | [#x00C0-#x00D6] | [#x00D8-#x00F6] | [#x00F8-#x02FF] | [#x0370-#x037D]
    | [#x037F-#x1FFF] | [#x200C-#x200D] | [#x2070-#x218F] | [#x2C00-#x2FEF] | [#x3001-#xD7FF] | [#xF900-#xFDCF]
    | [#xFDF0-#xFFFD] | [#x10000-#xEFFFF]
[165] PN_CHARS_U ::= PN_CHARS_BASE | '_'
[166] VARNAME ::= ( PN_CHARS_U | [0-9] ) ( PN_CHARS_U | [0-9] | #x00B7 | [#x0300-#x036F] | [#x203F-#x2040] )*
[167] PN_CHARS ::= PN_CHARS_U | '-' | [0-9] | #x00B7 | [#x0300-#x036F] | [#x203F-#x2040]
[168] PN_PREFIX ::= PN_CHARS_BASE ((PN_CHARS|'.')* PN_CHARS)?
[169] PN_LOCAL ::= (PN_CHARS_U | ':' | [0-9] | PLX ) ((PN_CHARS | '.' | ':' | PLX)* (PN_CHARS | ':' | PLX) )?
[170] PLX ::= PERCENT | PN_LOCAL_ESC
[171] PERCENT ::= '%' HEX HEX
[172] HEX ::= [0-9] | [A-F] | [a-f]
[173] PN_LOCAL_ESC ::= '\' ( '_' | '~' | '.' | '-' | '!' | '$' | '&' | "'" | '(' | ')' | '*' | '+' | ',' | ';' | '='
    | '/' | '?' | '#' | '@' | '%' )
"##;

/// W3C, "RDF 1.1 Turtle", section 6.5.
const TURTLE: &str = r##"
[1] turtleDoc ::= statement*
[2] statement ::= directive | triples '.'
[3] directive ::= prefixID | base | sparqlPrefix | sparqlBase
[4] prefixID ::= '@prefix' PNAME_NS IRIREF '.'
[5] base ::= '@base' IRIREF '.'
[5s] sparqlBase ::= "BASE" IRIREF
[6s] sparqlPrefix ::= "PREFIX" PNAME_NS IRIREF
[6] triples ::= subject predicateObjectList | blankNodePropertyList predicateObjectList?
[7] predicateObjectList ::= verb objectList (';' (verb objectList)?)*
[8] objectList ::= object (',' object)*
[9] verb ::= predicate | 'a'
[10] subject ::= iri | BlankNode | collection
[11] predicate ::= iri
[12] object ::= iri | BlankNode | collection | blankNodePropertyList | literal
[13] literal ::= RDFLiteral | NumericLiteral | BooleanLiteral
[14] blankNodePropertyList ::= '[' predicateObjectList ']'
[15] collection ::= '(' object* ')'
[16] NumericLiteral ::= INTEGER | DECIMAL | DOUBLE
[128s] RDFLiteral ::= String (LANGTAG | '^^' iri)?
[133s] BooleanLiteral ::= 'true' | 'false'
[17] String ::= STRING_LITERAL_QUOTE | STRING_LITERAL_SINGLE_QUOTE | STRING_LITERAL_LONG_SINGLE_QUOTE
    | STRING_LITERAL_LONG_QUOTE
[135s] iri ::= IRIREF | PrefixedName
[136s] PrefixedName ::= PNAME_LN | PNAME_NS
[137s] BlankNode ::= BLANK_NODE_LABEL | ANON
[18] IRIREF ::= '<' ([^#x00-#x20<>"{}|^`\] | UCHAR)* '>' /* #x00=NULL #01-#x1F=control codes #x20=space */
[139s] PNAME_NS ::= PN_PREFIX? ':'
[140s] PNAME_LN ::= PNAME_NS PN_LOCAL
[141s] BLANK_NODE_LABEL ::= '_:' (PN_CHARS_U | [0-9]) ((PN_CHARS | '.')* PN_CHARS)?
[144s] LANGTAG ::= '@' [a-zA-Z]+ ('-' [a-zA-Z0-9]+)*
[19] INTEGER ::= [+-]? [0-9]+
[20] DECIMAL ::= [+-]? [0-9]* '.' [0-9]+
[21] DOUBLE ::= [+-]? ([0-9]+ '.' [0-9]* EXPONENT | '.' [0-9]+ EXPONENT | [0-9]+ EXPONENT)
[154s] EXPONENT ::= [eE] [+-]? [0-9]+
[22] STRING_LITERAL_QUOTE ::= '"' ([^#x22#x5C#xA#xD] | ECHAR | UCHAR)* '"' /* #x22=" #x5C=\ #xA=new line #xD=carriage return */
[23] STRING_LITERAL_SINGLE_QUOTE ::= "'" ([^#x27#x5C#xA#xD] | ECHAR | UCHAR)* "'" /* #x27=' #x5C=\ #xA=new line #xD=carriage return */
[24] STRING_LITERAL_LONG_SINGLE_QUOTE ::= "'''" (("'" | "''")? ([^'\] | ECHAR | UCHAR))* "'''"
[25] STRING_LITERAL_LONG_QUOTE ::= '"""' (('"' | '""')? ([^"\] | ECHAR | UCHAR))* '"""'
[26] UCHAR ::= '\u' HEX HEX HEX HEX | '\U' HEX HEX HEX HEX HEX HEX HEX HEX
[159s] ECHAR ::= '\' [tbnrf"'\]
[161s] WS ::= #x20 | #x9 | #xD | #xA /* #x20=space #x9=character tabulation #xD=carriage return #xA=new line */
[162s] ANON ::= '[' WS* ']'
[163s] PN_CHARS_BASE ::= [A-Z] | [a-z] | [#x00C0-#x00D6] | [#x00D8-#x00F6] | [#x00F8-#x02FF] | [#x0370-#x037D]
    | [#x037F-#x1FFF] | [#x200C-#x200D] | [#x2070-#x218F] | [#x2C00-#x2FEF] | [#x3001-#xD7FF] | [#xF900-#xFDCF]
    | [#xFDF0-#xFFFD] | [#x10000-#xEFFFF]
[164s] PN_CHARS_U ::= PN_CHARS_BASE | '_'
[166s] PN_CHARS ::= PN_CHARS_U | '-' | [0-9] | #x00B7 | [#x0300-#x036F] | [#x203F-#x2040]
[167s] PN_PREFIX ::= PN_CHARS_BASE ((PN_CHARS | '.')* PN_CHARS)?
[168s] PN_LOCAL ::= (PN_CHARS_U | ':' | [0-9] | PLX) ((PN_CHARS | '.' | ':' | PLX)* (PN_CHARS | ':' | PLX))?
[169s] PLX ::= PERCENT | PN_LOCAL_ESC
[170s] PERCENT ::= '%' HEX HEX
[171s] HEX ::= [0-9] | [A-F] | [a-f]
[172s] PN_LOCAL_ESC ::= '\' ('_' | '~' | '.' | '-' | '!' | '$' | '&' | "'" | '(' | ')' | '*' | '+' | ',' | ';' | '=' | '/'
    | '?' | '#' | '@' | '%')
"##;

fn read(text: &str) -> Result<Grammar, String> {
    from_ebnf(text, &GrammarLimits::default()).map_err(|error| error.to_string())
}

#[track_caller]
fn check(grammar: &str, accepted: &[&str], rejected: &[&str]) {
    let read = read(grammar).unwrap_or_else(|error| panic!("{error}"));
    let oracle = Oracle::new(&read, &Alphabet::all());
    for (texts, wanted) in [(accepted, true), (rejected, false)] {
        for text in texts {
            assert_eq!(
                oracle.accepts(&bytes(text)),
                wanted,
                "{text:?} of {}",
                grammar.lines().next().unwrap()
            );
        }
    }
}

#[test]
fn the_terminals_of_sparql() {
    let terminal = |name: &str, accepted: &[&str], rejected: &[&str]| {
        check(&format!("root ::= {name}{SPARQL}"), accepted, rejected);
    };
    terminal(
        "IRIREF",
        &["<>", "<http://a/é#b>", "<']-[>"],
        &["<a b>", "<a\\b>", "<\u{0}>", "<\">", "<^>", "<`>", "<{>", "<a", "<a>>", "<\n>"],
    );
    terminal(
        "STRING_LITERAL1",
        &["''", "'a\"b'", r"'\''", r"'\\'", r"'\t\b\n\r\f\''"],
        &[r"'\'", "'\n'", r"'\x'", "'''", "'"],
    );
    terminal("STRING_LITERAL2", &[r#""""#, r#""\"""#, r#""'\n""#], &[r#""\""#, "\"\r\"", r#""\u""#]);
    terminal(
        "STRING_LITERAL_LONG1",
        &["''''''", "'''\n'a''b'''", r"'''\''''"],
        &["'''''", r"'''\'''", r"'''\a'''"],
    );
    terminal("STRING_LITERAL_LONG2", &["\"\"\"\"a\n\"\"\"", "\"\"\"\\\\\"\"\""], &["\"\"\"\\\"\"\""]);
    terminal("ECHAR", &[r"\t", r"\\", "\\\"", r"\'"], &["\\", "t", r"\a", "\t", r"\]"]);
    terminal(
        "PN_LOCAL",
        &["a", "0", ":", "%4fé", r"\~", r"a\#.b", "a.b"],
        &["", "a.", ".a", "-a", r"\a", "%4", "\\"],
    );
    terminal(
        "PN_CHARS_BASE",
        &["A", "z", "À", "Ö", "Ø", "ÿ", "\u{10000}", "\u{effff}", "\u{fffd}"],
        &["×", "÷", "0", "_", "\u{37e}", "\u{f0000}"],
    );
    terminal("VAR1", &["?a", "?0\u{b7}", "?_"], &["?", "a", "?-", "?a-"]);
    terminal("DOUBLE", &["1.e0", ".1E+2", "12e-3"], &["1", ".e1", "1e", "1.0"]);
    terminal("WS", &[" ", "\t", "\r", "\n"], &["", "\u{b}"]);
    terminal("ANON", &["[]", "[ \n]"], &["[", "[a]"]);
    terminal("PNAME_LN", &["a:b", ":b", "é.x:0"], &["a:", "a.:b", "_:b"]);
    terminal("LANGTAG", &["@en", "@en-gb-1"], &["@", "@1", "@en-"]);
}

#[test]
fn the_productions_of_turtle() {
    let terminal = |name: &str, accepted: &[&str], rejected: &[&str]| {
        check(&format!("root ::= {name}{TURTLE}"), accepted, rejected);
    };
    terminal(
        "IRIREF",
        &["<>", "<http://a/>", r"<\u00e9>", r"<\U0001F600>"],
        &["<a b>", r"<\>", r"<\n>", r"<\u00e>", "<^>", "<\u{1f}>"],
    );
    terminal("UCHAR", &[r"\u00E9", r"\UABCDEF01"], &["é", r"\u00E", r"\U00E9", "u00E9"]);
    terminal("ECHAR", &[r"\t", r"\\", "\\\"", r"\'"], &["\\", r"\a", r"\]"]);
    terminal(
        "String",
        &[r#""a\"\u0041""#, r"'\\'", "'''it's \n \\' '''", "\"\"\"\"\"\""],
        &[r#""\""#, "'\n'", r"'\x41'", r"'''\x'''"],
    );
    terminal("literal", &["1", "+.5", "-1.e+9", "true", "'a'@en-gb", "\"a\"^^x:y"], &["1.", "tru", "'a'@"]);
    // The grammar has no white space between terminals; the specification of Turtle adds it in words.
    terminal(
        "turtleDoc",
        &["", "@prefixa:<b>.", "<a>a[].", "<a><b>1,2;<c>\"d\"@en.", "<a><b>(1(2))."],
        &["<a>.", "<a><b>", "<a> <b> 1."],
    );
}

#[test]
fn a_backslash_is_itself_where_characters_have_numbers() {
    check("a ::= [^\\] #x41", &["bA", "]A"], &["\\A", "b"]);
    check("a ::= \"\\\" #x41 '\\'", &["\\A\\"], &["A"]);
    check("a ::= [+-\\] [\\-a] #x41", &["+\\A", "\\aA", "K^A"], &["]\\A", "*aA", "+-A"]);
    check("a ::= '\\p{' [\\.] \"\\s\" #x41", &["\\p{\\\\sA", "\\p{.\\sA"], &["p{.sA"]);
    // The number may be in a class. A number in a comment or in a text does not count.
    check("a ::= [\\|#x41]", &["\\", "|", "A"], &["x"]);
    check("a ::= [\\n] '#x41' \"#x42\" /* #x43 */ # #x44", &["\n#x41#x42"], &["n#x41#x42", "A"]);
    // In single quotes a backslash is always an ordinary character. `\u` without digits does not look like an escape.
    check("a ::= '\\u' '\\'", &["\\u\\"], &["u"]);
    let text = "a ::= [\\'] #x41";
    let fates = explain(text, GrammarFormat::Ebnf, &GrammarOptions::default(), &GrammarLimits::default());
    let found =
        fates.iter().find(|fate| fate.construct == "a backslash").unwrap_or_else(|| panic!("{fates:?}"));
    assert_eq!((found.fate, found.location.unwrap().column), (Fate::Enforced, 8));
}

#[test]
fn terminals_with_texts_between_them() {
    let rules = "a ::= 'x' B* | \"Sel\" 'x'";
    check(&format!("{rules} B ::= 'b' C C ::= 'c'"), &["xbc", "Selx"], &["x bc", "selx", "xb c"]);
    let marked = format!("{rules}\n@terminals\nB ::= 'b' C\nC ::= 'c' _ ::= ' '\n");
    check(&marked, &["xbcbc", "Selx"], &["x bc", "selx", "xb c"]);
    let passed = &["xbcbc", " x  bc bc ", "Selx", "Sel x"];
    check(&format!("{marked}@pass _"), passed, &["xb c", "sel x", "S elx"]);
    check(&format!("@pass ' '\n{rules} B ::= 'b' C C ::= 'c'"), passed, &["xb c", "sel x"]);
    // Names in upper case are terminals only where there is no mark.
    check(&format!("{rules} B ::= 'b' C C ::= 'c' @terminals _ ::= ' ' @pass _"), &["xb c"], &["Se lx"]);
    check(&format!("{marked}@pass _ @pass '#' [^#xA]* #xA"), &["x#b\n bc", "#\n#\nx"], &["x#bc", "xb\nc"]);
    // A comment ends where its line does, or the output.
    let commented = format!("{marked}@pass _ | #xA | '#' [^#xA]*");
    check(&commented, &["# a\nx#\n bc#x", " # #\nx #", "Sel#x\nx"], &["# a x", "#x", "Sel# x"]);
    check(&commented, &["x# bc"], &["Sel# x\n"]);
    // Texts of terminals have a case.
    check(&format!("{marked}@caseless"), &["Xbc", "selX", "SELx"], &["xBc", "se lx"]);
    check(&format!("{marked}@caseless - 'x'"), &["SELx", "xbc"], &["selX", "Xbc"]);
    check(&format!("@caseless - 'x' - \"Sel\"\n{rules} B ::= 'b'"), &["xB"], &["selx", "Xb"]);
    check(&format!("{rules} B ::= 'b' @pass ' ' @caseless"), &["X b", "SEL X"], &["x B"]);
    let fates = explain(
        &format!("{marked}@pass _\n@caseless - 'x'"),
        GrammarFormat::Ebnf,
        &GrammarOptions::default(),
        &GrammarLimits::default(),
    );
    for (construct, line) in [("`@terminals`", 2), ("terminal `B`", 3), ("`@pass`", 5), ("`@caseless`", 6)] {
        let found = fates.iter().find(|fate| fate.construct == construct);
        let found = found.unwrap_or_else(|| panic!("{construct}: {fates:?}"));
        assert_eq!((found.fate, found.location.unwrap().line), (Fate::Enforced, line));
    }
}

#[test]
fn directives_with_mistakes_are_refused() {
    for (text, place, message) in [
        ("a ::= 'x' @pas 'y'", "line 1, column 11: ", "there is no directive `@pas`; is `@pass` meant?"),
        ("a ::= 'x' @foo", "line 1, column 11: ", "only `@terminals`, `@pass` and `@caseless`"),
        ("a ::= 'x' @caseless 'x'", "line 1, column 21: ", "`-` before a text that has a case"),
        ("a ::= 'x' @caseless - a", "line 1, column 23: ", "a text in quotes, which has a case"),
        ("a ::= 'x' @caseless - 'y'", "line 1, column 23: ", "no rule has the text `y`"),
        ("a ::= ('x' @pass 'y')", "line 1, column 7: ", "`)`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(place) && error.contains(message), "{text}\n{error}");
    }
}

#[test]
fn what_somebody_may_have_meant_otherwise_is_refused() {
    for (text, column, message) in [
        ("a ::= [\\n] #x41", 8, "looks like an escape: write `#x5C`"),
        ("a ::= [\\\\] #x41", 8, "looks like an escape"),
        ("a ::= [\\x41] #x41", 8, "looks like an escape"),
        ("a ::= \"b\\u0041\" #x41", 9, "looks like an escape"),
        ("a ::= 'b\\n' #x41", 9, "looks like an escape"),
        ("a ::= \"\\\"\" #x41", 7, "looks like an escape of the quote after it"),
        ("a ::= '\\'' #x41", 7, "a backslash in single quotes is itself"),
        (
            "a ::= \"\\\" [#x41] \\\"\"",
            12,
            "it depends on whether backslashes before it are themselves or escapes",
        ),
        ("[1] a ::= [\\n]", 12, "a file with numbered productions"),
        ("[1] a ::= \"\\n\"", 11, "a file with numbered productions"),
        ("a ::= [^\\]", 7, "`\\]` is a bracket in it, and `\\\\` a backslash"),
    ] {
        let error = read(text).unwrap_err();
        let place = format!("line 1, column {column}: ");
        assert!(error.starts_with(&place) && error.contains(message), "{text}\n{error}");
    }
}

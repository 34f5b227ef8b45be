//! Normalisation forms against the tables of Unicode.

use super::*;
use crate::canonical::testing::Random;
use crate::dfa::minimize::minimized;

/// The form C of a text.
fn normalized(text: &str) -> String {
    text.nfc().map(|(character, _)| character).collect()
}

fn step(state: FormState, byte: u8) -> Option<FormState> {
    texts(UnicodeForm::Nfc).step(state, byte)
}

fn accepts(text: &str) -> bool {
    text.bytes().try_fold(texts(UnicodeForm::Nfc).start(), step).is_some()
}

fn check(text: &str) {
    assert_eq!(accepts(text), normalized(text) == text, "{text:?} = {}", text.escape_unicode());
}

/// All characters with some effect, grouped by it. The last two groups are the first character of each kind, and
/// characters that later versions of Unicode treat differently.
fn interesting() -> [Vec<char>; 8] {
    let characters = Characters::new(UnicodeForm::Nfc);
    let mut groups: [Vec<char>; 8] = Default::default();
    let mut seen = BTreeSet::new();
    let mut parts = BTreeSet::new();
    for character in '\0'..=char::MAX {
        let kind = characters.of[character as usize];
        let mut is_composed = false;
        decompose_canonical(character, |part| {
            if part != character {
                is_composed = true;
                parts.insert(part);
            }
        });
        match characters.kinds[usize::from(kind)] {
            Kind::Never => groups[0].push(character),
            Kind::Mark { member: 0, .. } => groups[1].push(character),
            Kind::Mark { .. } => groups[2].push(character),
            Kind::Starter { .. } if ('\u{ac00}'..='\u{d7a3}').contains(&character) => {
                groups[3].push(character);
            }
            Kind::Starter { .. } if is_composed => groups[4].push(character),
            Kind::Starter { .. } => {}
        }
        if seen.insert(kind) {
            groups[6].push(character);
        }
    }
    groups[5] = parts.into_iter().collect();
    groups[7] =
        "\u{8d3}\u{1df6}\u{1e4ee}\u{c3c}\u{113c2}\u{113c9}\u{16d67}\u{11935}\u{11930}\u{16121}\n \u{34f}"
            .chars()
            .collect();
    groups
}

fn pick(random: &mut Random, groups: &[Vec<char>; 8]) -> char {
    let group = &groups[random.below(groups.len())];
    group[random.below(group.len())]
}

fn check_random(count: usize, seed: u64) {
    let groups = interesting();
    let mut random = Random::new(seed);
    let mut accepted = 0;
    for _ in 0..count {
        let length = 2 + random.below(5);
        let mut text: String = (0..length).map(|_| pick(&mut random, &groups)).collect();
        if random.below(2) > 0 {
            // A text that is nearly in form C.
            text = normalized(&text);
            text.push(pick(&mut random, &groups));
        }
        check(&text);
        accepted += usize::from(accepts(&text));
    }
    assert!((count / 4..count * 3 / 4).contains(&accepted), "{accepted} of {count}");
}

#[test]
fn every_character() {
    let mut buffer = [0; 4];
    for character in '\0'..=char::MAX {
        check(character.encode_utf8(&mut buffer));
    }
}

/// Together with [`every_character`]: only UTF-8 is accepted, and no state is a dead end.
#[test]
fn only_utf8() {
    let dfa = texts(UnicodeForm::Nfc);
    let is_between = |state| step(state, b'\n').is_some();
    let mut open = vec![(dfa.start(), 0)];
    let mut characters = 0;
    while let Some((state, length)) = open.pop() {
        for byte in 0..=255 {
            match step(state, byte) {
                Some(next) if is_between(next) => characters += 1,
                Some(next) => {
                    assert!(length < 3);
                    open.push((next, length + 1));
                }
                None => {}
            }
        }
    }
    let mut buffer = [0; 4];
    let stable = ('\0'..=char::MAX).filter(|character| accepts(character.encode_utf8(&mut buffer)));
    assert_eq!(characters, stable.count());
    for state in dfa.states() {
        assert!((0..=255).any(|byte| step(state, byte).is_some()));
        assert_eq!(is_between(state), (0..0x80).any(|byte| step(state, byte).is_some()));
    }
}

/// All forms, on every character and on texts of characters that matter for form C.
#[test]
fn all_forms() {
    let groups = interesting();
    let mut random = Random::new(7);
    type Normalize = fn(&str) -> String;
    let forms: [(UnicodeForm, Normalize); 4] = [
        (UnicodeForm::Nfc, normalized),
        (UnicodeForm::Nfd, |text| text.nfd().map(|(character, _)| character).collect()),
        (UnicodeForm::Nfkc, |text| text.nfkc().map(|(character, _)| character).collect()),
        (UnicodeForm::Nfkd, |text| text.nfkd().map(|(character, _)| character).collect()),
    ];
    for (form, normalized) in forms {
        let dfa = texts(form);
        let mut accepted = 0;
        let mut check = |text: &str| {
            let end = text.bytes().try_fold(dfa.start(), |state, byte| dfa.step(state, byte));
            assert_eq!(end.is_some(), normalized(text) == text, "{form:?}: {}", text.escape_unicode());
            accepted += usize::from(end.is_some());
        };
        for character in '\0'..=char::MAX {
            check(character.encode_utf8(&mut [0; 4]));
        }
        for at in 0..50_000 {
            let length = 2 + random.below(5);
            let mut text: String = (0..length).map(|_| pick(&mut random, &groups)).collect();
            if at % 2 == 0 {
                text = normalized(&text);
                text.push(pick(&mut random, &groups));
            }
            check(&text);
        }
        assert!(accepted > 1_000_000 + 10_000, "{form:?}: {accepted}");
        // A steady text is accepted after every other text.
        let steady = steady(form);
        let is_steady = |text: &str| {
            text.bytes().try_fold(0u32, |place, byte| {
                Some(steady[place as usize][usize::from(byte)]).filter(|next| *next != DEAD)
            }) == Some(0)
        };
        for _ in 0..50_000 {
            let front = normalized(&pick(&mut random, &groups).to_string());
            let next = pick(&mut random, &groups).to_string();
            let text = [front, next.clone()].concat();
            assert!(!is_steady(&next) || normalized(&text) == text, "{form:?}: {}", text.escape_unicode());
        }
    }
}

#[test]
fn pairs_of_kinds() {
    let first = &interesting()[6];
    for left in first {
        for right in first {
            check(&String::from_iter([*left, *right]));
        }
    }
}

#[test]
fn random_texts() {
    check_random(200_000, 1);
}

#[test]
// 200 million pairs: a minute in release.
#[cfg(not(debug_assertions))]
fn all_pairs() {
    let all: BTreeSet<char> = interesting().into_iter().flatten().collect();
    let mut text = String::new();
    for left in &all {
        for right in &all {
            text.clear();
            text.extend([*left, *right]);
            check(&text);
        }
    }
}

#[test]
// 24 million texts: half a minute in release.
#[cfg(not(debug_assertions))]
fn triples_of_kinds() {
    let first = &interesting()[6];
    let mut text = String::new();
    for left in first {
        for middle in first {
            for right in first {
                text.clear();
                text.extend([*left, *middle, *right]);
                check(&text);
            }
        }
    }
}

#[test]
// 20 million texts: half a minute in release.
#[cfg(not(debug_assertions))]
fn many_random_texts() {
    check_random(20_000_000, 2);
}

#[test]
fn known_cases() {
    for text in [
        "",
        "plain",
        "e\u{316}\u{323}",
        "\u{e9}\u{316}",
        // The first mark below hides the dot from the letter.
        "\u{e9}\u{316}\u{323}",
        "n\u{330}\u{302}",
        "\u{301}\u{302}",
        "\u{1100}\u{302e}\u{1161}",
        "\u{ac01}\u{11a8}",
        "\u{ac00}\u{11a7}",
        "\u{9c7}\u{9bc}\u{9be}",
        "<\u{327}\u{34f}\u{338}",
        // Unicode 9 knows none of these characters.
        "a\u{1e4ee}\u{301}",
        "\u{16d67}\u{16d67}",
        "\u{11935}\u{11930}",
    ] {
        assert_eq!(normalized(text), text, "{}", text.escape_unicode());
        assert!(accepts(text), "{}", text.escape_unicode());
    }
    for text in [
        "e\u{301}",
        "\u{e9}\u{323}",
        "e\u{316}\u{301}",
        "e\u{5b7}\u{301}",
        "a\u{301}\u{316}",
        "\u{1100}\u{1161}",
        "\u{ac00}\u{11a8}",
        "\u{1100}\u{ac00}\u{11a8}",
        "\u{212b}",
        "\u{344}",
        "\u{958}",
        "\u{9c7}\u{9be}",
        "\u{dd9}\u{dcf}\u{dca}",
        "\u{ddc}\u{dca}",
        "<\u{327}\u{338}",
        "\u{304b}\u{93c}\u{3099}",
        "\u{11131}\u{11127}",
    ] {
        assert_ne!(normalized(text), text, "{}", text.escape_unicode());
        assert!(!accepts(text), "{}", text.escape_unicode());
    }
}

#[test]
fn real_texts() {
    for text in [
        "Tiếng Việt là ngôn ngữ của người Việt và là ngôn ngữ chính thức tại Việt Nam.",
        "Žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń. Íslenska er ættuð úr norrænu.",
        "Ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν, καὶ θεὸς ἦν ὁ λόγος.",
        "Съешь ещё этих мягких французских булок, да выпей же чаю. Її об'єднання; ў Беларусі.",
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        "すべての人間は、生まれながらにして自由であり、パーティーでございます。",
        "人人生而自由,在尊严和权利上一律平等。",
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता। पढ़ाई, लड़का, ज़रूर",
        "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। কোনো মৌলিক",
        "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; கொள், சௌந்தர்யம்",
        "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ගෝලය, කෞතුක",
        "ഒരു മനുഷ്യരും സ്വാതന്ത്ര്യത്തോടുകൂടി; കൊച്ചി, കോഴി",
        "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ׃",
        "يُولَدُ جَمِيعُ النَّاسِ أَحْرَارًا مُتَسَاوِينَ فِي الْكَرَامَةِ وَالْحُقُوقِ. آؤ، ئۇيغۇر",
        "མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌།",
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
        "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း ဦး",
        "👩‍👩‍👧 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝅘𝅥𝅮 ≠ ≰ Å Ω ﬁ ½ e̶x̶ Z̷̢͎a̸̛̠ḻ̵̛g̷͓̈́o̵",
    ] {
        check(text);
        let form = normalized(text);
        assert!(accepts(&form), "{form}");
        let apart: String = text.nfd().map(|(character, _)| character).collect();
        check(&apart);
        for (at, _) in text.char_indices() {
            check(&text[at..]);
            check(&apart.chars().skip(at % 7).take(5).collect::<String>());
        }
    }
}

#[test]
fn size() {
    let characters = Characters::new(UnicodeForm::Nfc);
    let sets: BTreeSet<Set> = characters
        .kinds
        .iter()
        .map(|kind| if let Kind::Starter { refuses, .. } = kind { *refuses } else { 0 })
        .filter(|set| *set != 0)
        .collect();
    assert_eq!(sets.len(), 126);
    let table = build(&characters);
    assert_eq!((table.len(), table.classes.len(), table.start.index()), (24_715, 136, 0));
    let line = usize::from(table.classes.get(b'\n'));
    assert_eq!(table.states().filter(|state| table.row(*state)[line] != DEAD).count(), 4_812);
    let start = table.row(table.start)[usize::from(table.classes.get(b'0'))];
    assert_eq!(start, 0);
    assert_eq!(minimized(table.clone()).unwrap().len(), table.len());
}

#[test]
fn steady_characters_are_left_alone_behind_whatever_stands_in_front() {
    let is_steady = |character: char| {
        let mut buffer = [0; 4];
        let bytes = character.encode_utf8(&mut buffer).bytes();
        bytes.fold(0, |place: u32, byte| match place {
            DEAD => DEAD,
            place => steady(UnicodeForm::Nfc)[place as usize][usize::from(byte)],
        })
    };
    for character in "a\u{7f} é中日가Ωя\u{1f600}".chars() {
        assert_eq!(is_steady(character), 0, "{character:?}");
    }
    // Marks, characters that compose but are not marks, and characters with another form.
    for character in "\u{301}\u{323}\u{1161}\u{11a8}\u{9be}\u{212b}\u{1f71}\u{3099}".chars() {
        assert_eq!(is_steady(character), DEAD, "{character:?}");
    }
    let mut all: Vec<char> = ('\0'..='\u{2fff}').chain('\u{ac00}'..='\u{ac80}').collect();
    all.extend('\u{1d100}'..='\u{1d200}');
    for character in all.into_iter().filter(|character| is_steady(*character) == 0) {
        for before in ["e", "ạ", "é\u{327}", "ᄀ", "가", "\u{9c7}", "か", "\u{1d157}"] {
            check(&format!("{before}{character}"));
            assert!(normalized(before) != before || accepts(&format!("{before}{character}")));
        }
    }
}

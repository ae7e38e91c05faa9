//! Draws private values that look real, and searches texts for them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use memchr::memmem;

use crate::secrets::Published;

/// Length of the pieces of a value that must not occur either, in bytes.
const PART: usize = 8;

/// A source of numbers that depends only on its seed.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn number(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 33) as usize % below
    }

    /// Draws the characters that a directive such as `l8` or `n16-31` describes.
    fn drawn(&mut self, directive: &str) -> String {
        const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
        const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const DIGITS: &str = "0123456789";
        let (class, rest) = directive.split_at(1);
        if class == "n" {
            let (low, high) = rest.split_once('-').expect("two numbers");
            let (low, high): (usize, usize) =
                (low.parse().expect("a number"), high.parse().expect("a number"));
            return (low + self.number(high - low + 1)).to_string();
        }
        let letters = match class {
            "l" => LOWER.to_owned(),
            "U" => UPPER.to_owned(),
            "A" => UPPER.to_owned() + DIGITS,
            "a" => LOWER.to_owned() + DIGITS,
            "M" => LOWER.to_owned() + UPPER,
            "m" => LOWER.to_owned() + UPPER + DIGITS,
            "h" => "0123456789abcdef".to_owned(),
            "H" => "0123456789ABCDEF".to_owned(),
            "d" => DIGITS.to_owned(),
            "b" => LOWER.to_owned() + UPPER + DIGITS + "+/",
            "u" => LOWER.to_owned() + UPPER + DIGITS + "-_",
            "p" => LOWER.to_owned() + UPPER + DIGITS + "!*.~^#%",
            _ => panic!("no class `{class}`"),
        };
        let letters: Vec<char> = letters.chars().collect();
        let count: usize = rest.parse().expect("a number");
        let mut drawn: String = (0..count).map(|_| letters[self.number(letters.len())]).collect();
        // A real token or password has at least one digit.
        if "mbup".contains(class) && count > 3 {
            let digit = char::from(b'0' + self.number(10) as u8);
            drawn.replace_range(2..3, &digit.to_string());
        }
        drawn
    }

    /// Returns the text with its values drawn, and these values.
    pub(super) fn text(&mut self, template: &str) -> (String, Vec<Secret>) {
        let (mut text, mut secrets) = (String::new(), Vec::new());
        let mut open: Option<Secret> = None;
        let mut rest = template;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '«' => open = Some(Secret::default()),
                '»' => secrets.push(open.take().expect("an open value")),
                '‹' => {
                    let (directive, after) = rest.split_once('›').expect("a closed directive");
                    let drawn = self.drawn(directive);
                    if let Some(secret) = &mut open {
                        secret.whole.push_str(&drawn);
                        secret.parts.push(drawn.clone());
                    }
                    text.push_str(&drawn);
                    rest = after;
                }
                c => {
                    open.iter_mut().for_each(|secret| secret.whole.push(c));
                    text.push(c);
                }
            }
        }
        assert!(open.is_none() && !secrets.is_empty(), "{template}");
        (text, secrets)
    }
}

/// A private value, and its random parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) whole: String,
    parts: Vec<String>,
}

impl Secret {
    /// Returns the pieces of the random parts, each as a number. Shorter pieces do not count, because the rest of a
    /// value cannot be guessed from them.
    fn pieces(&self) -> impl Iterator<Item = u64> {
        let pieces = self.parts.iter().flat_map(|part| part.as_bytes().windows(PART));
        pieces.map(|piece| piece.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Returns a text as it is, and as a reader decodes it: without the escapes of JSON, XML and web addresses, and without
/// base64.
fn readings(text: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![text.to_vec()];
    let text = String::from_utf8_lossy(text);
    let hex = |digits: &str, c: u8| u8::from_str_radix(digits, 16).unwrap_or(c);
    let mut percent = Vec::new();
    let mut bytes = text.as_bytes();
    while let [byte, rest @ ..] = bytes {
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.filter(|_| *byte == b'%').map_or(*byte, |digits| hex(digits, b'%'));
        bytes = if decoded == *byte { rest } else { &rest[2..] };
        percent.push(decoded);
    }
    all.push(percent);
    let mut json = text.replace("\\/", "/").replace("\\\"", "\"").replace("\\\\", "\\");
    for code in 33..127_u8 {
        let escapes = [format!("\\u00{code:02x}"), format!("\\x{code:02x}"), format!("&#{code};")];
        let there = ["\\u00", "\\x", "&#"].map(|begin| text.contains(begin));
        for (escape, _) in escapes.iter().zip(there).filter(|(_, there)| *there) {
            json = json.replace(escape, &char::from(code).to_string());
        }
    }
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    let json = named.iter().fold(json, |json, (name, plain)| json.replace(name, plain));
    // A reader of Markdown sees no backslashes before punctuation.
    all.push(json.replace('\\', "").into_bytes());
    all.push(json.into_bytes());
    let is_code = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    let words = text.split(|c| !is_code(c)).filter(|word| word.len() > PART);
    all.push(words.flat_map(|word| [base64(word), vec![b'\n']].concat()).collect());
    all
}

/// Decodes base64, also the variant for addresses.
fn base64(word: &str) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for c in word.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// Returns, for the position of each secret that was found, the files that contain the secret or a piece of it.
pub(super) fn found(
    secrets: &[&Secret],
    published: &Published,
) -> BTreeMap<usize, BTreeSet<String>> {
    let mut pieces = HashMap::new();
    // Most pieces of a text are not in this table, which is quicker than the map.
    let mut seen = vec![false; 1 << 20];
    let slot = |piece: u64| (piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize;
    for (at, piece) in
        secrets.iter().enumerate().flat_map(|(at, s)| s.pieces().map(move |p| (at, p)))
    {
        pieces.insert(piece, at);
        seen[slot(piece)] = true;
    }
    // A value that has no piece must be found as a whole.
    let wholes = secrets.iter().enumerate().filter(|(_, secret)| secret.pieces().next().is_none());
    let wholes: Vec<_> = wholes.map(|(at, s)| (at, memmem::Finder::new(&s.whole))).collect();
    let mut all: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in published {
        for reading in readings(text) {
            let mut piece = 0_u64;
            for byte in &reading {
                piece = piece << 8 | u64::from(*byte);
                if seen[slot(piece)]
                    && let Some(at) = pieces.get(&piece)
                {
                    all.entry(*at).or_default().insert(file.clone());
                }
            }
            for (at, _) in wholes.iter().filter(|(_, whole)| whole.find(&reading).is_some()) {
                all.entry(*at).or_default().insert(file.clone());
            }
        }
    }
    all
}

#[test]
fn finds_values_however_they_are_written() {
    let (text, secrets) = Draw::new(1).text("key «a/‹m20›» and «10.‹n16-31›.7.‹d2›»");
    assert_eq!(text, format!("key {} and {}", secrets[0].whole, secrets[1].whole));
    let random = &secrets[0].parts[0];
    let percent: String = secrets[0].whole.bytes().map(|b| format!("%{b:02X}")).collect();
    let json: String = secrets[0].whole.bytes().map(|b| format!("\\u{b:04x}")).collect();
    let encoded = |text: &[u8]| Published::from([("file".to_owned(), text.to_vec())]);
    for text in [&text, &format!("x{}", &random[6..14]), &percent, &json, &format!("a\\/{random}")]
    {
        let all = found(&secrets.iter().collect::<Vec<_>>(), &encoded(text.as_bytes()));
        assert!(all.contains_key(&0), "{text}");
    }
    let all = found(&[&secrets[0]], &encoded(format!("x{}y 10.1.2.3", &random[6..13]).as_bytes()));
    assert!(all.is_empty(), "{all:?}");
    assert_eq!(base64("aHVudGVyMg"), b"hunter2");
}

//! The result file: JSON, a line for its header, a line for each probe, and a last one with their number.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The first word of the header.
const FORMAT: &str = "rocrepro device probe";

/// The version of the format. Another one is refused.
pub const VERSION: u32 = 1;

/// Where the results come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    format: String,
    version: u32,
    /// The stack, as it was asked for, and its ROCm version as far as that is known.
    pub stack: String,
    /// The device's own name.
    pub device: String,
    /// Its architecture with its features, such as `gfx90a:sramecc+:xnack-`.
    pub gfx: String,
    /// Whether it was the emulated device and no GPU.
    pub emulated: bool,
    /// When, in UTC.
    pub date: String,
    /// The work-items that executed each instruction.
    pub items: usize,
}

impl Header {
    /// A header of this version.
    pub fn new(stack: String, device: String, gfx: String, emulated: bool, date: String) -> Header {
        let (format, version) = (FORMAT.to_owned(), VERSION);
        Header { format, version, stack, device, gfx, emulated, date, items: crate::ITEMS }
    }

    /// The architecture without its features.
    pub fn arch(&self) -> &str {
        self.gfx.split(':').next().unwrap_or_default()
    }

    /// What it is, in words.
    pub fn words(&self) -> String {
        let kind = if self.emulated { "the emulated device; not a GPU result" } else { "a GPU" };
        format!("{} `{}` ({kind}), {}, {}", self.gfx, self.device, self.stack, self.date)
    }
}

/// What came of one instruction or row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The instruction as the disassembler prints it, or the name of the row.
    pub probe: String,
    /// Hardware promises no answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub free: bool,
    /// It was not executed: the emulated device lacks it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lacking: bool,
    /// By register, a word for each work-item, in hexadecimal; registers that kept what they held are left out.
    #[serde(default)]
    pub results: BTreeMap<String, String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Probe {
    /// The words of a register; none where it is not as it must be.
    pub(crate) fn words(hex: &str) -> Option<Vec<u32>> {
        if !hex.len().is_multiple_of(8) || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        (0..hex.len() / 8)
            .map(|at| u32::from_str_radix(&hex[8 * at..8 * at + 8], 16).ok())
            .collect()
    }

    pub(crate) fn hex(words: &[u32]) -> String {
        words.iter().map(|word| format!("{word:08x}")).collect()
    }
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where the results come from.
    pub header: Header,
    /// The results, in the order in which they were found.
    pub probes: Vec<Probe>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    end: usize,
}

/// Why a text is no result file that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Refused {}

impl File {
    /// The file's text.
    ///
    /// # Errors
    /// JSON that cannot be written, which no value here is.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(&self.header)?;
        for probe in &self.probes {
            text.push('\n');
            text += &serde_json::to_string(probe)?;
        }
        text.push('\n');
        text += &serde_json::to_string(&End { end: self.probes.len() })?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// All that is wrong with it: what is not a result file, or not of this version, or not whole, is one mistake.
    pub fn parse(text: &str) -> Result<File, Vec<Refused>> {
        let refused = |line, what: String| Refused { line, what };
        let mut lines = text.lines().zip(1..);
        let first = lines.next().map_or("", |(line, _)| line);
        let header = header(first).map_err(|what| vec![refused(1, what)])?;
        let (mut probes, mut mistakes, mut end, mut last) = (Vec::new(), Vec::new(), None, 1);
        for (line, number) in lines {
            last = number;
            if end.is_some() {
                mistakes.push(refused(number, "something stands behind the end".to_owned()));
                break;
            }
            if let Ok(found) = serde_json::from_str::<End>(line) {
                end = Some(found.end);
                continue;
            }
            match probe(line, header.items) {
                Ok(probe) => probes.push(probe),
                Err(what) => mistakes.push(refused(number, what)),
            }
        }
        match end {
            None => {
                mistakes.push(refused(last, "the file is cut off: its end is missing".to_owned()))
            }
            Some(count) if count != probes.len() + mistakes.len() => {
                let what =
                    format!("the file is not whole: it has {} of {count} probes", probes.len());
                mistakes.push(refused(last, what));
            }
            Some(_) => {}
        }
        if mistakes.is_empty() { Ok(File { header, probes }) } else { Err(mistakes) }
    }
}

fn header(line: &str) -> Result<Header, String> {
    let not_ours = || {
        format!(
            "this is no result file of `rocrepro device compare`, which begins with {{\"format\":\"{FORMAT}\""
        )
    };
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| not_ours())?;
    if value.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
        return Err(not_ours());
    }
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "the format has version {version}; this rocrepro reads version {VERSION}"
            ));
        }
        None => return Err("the header has no version".to_owned()),
    }
    serde_json::from_value(value).map_err(|error| format!("the header: {error}"))
}

fn probe(line: &str, items: usize) -> Result<Probe, String> {
    let probe: Probe = serde_json::from_str(line).map_err(|error| error.to_string())?;
    for (register, hex) in &probe.results {
        let Some(words) = Probe::words(hex) else {
            return Err(format!(
                "`{}`: {register} is not in words of eight hexadecimal digits",
                probe.probe
            ));
        };
        let is_row = register == "words";
        if !is_row && words.len() != items {
            let count = words.len();
            return Err(format!(
                "`{}`: {register} has {count} words, must have {items}",
                probe.probe
            ));
        }
    }
    Ok(probe)
}

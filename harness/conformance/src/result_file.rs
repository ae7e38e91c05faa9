//! The file that contains the results of a run. It consists of JSON lines: one line for the header, one line for each
//! result, and a last line with the number of results.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// Value of the field `format` in the header.
const FORMAT: &str = "rocrepro device probe";

/// Version of the format. Files of other versions are rejected.
pub const FORMAT_VERSION: u32 = 1;

/// Origin of the results in a file: stack, device and date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultHeader {
    format: String,
    version: u32,
    /// Name of the stack that the user specified, with the ROCm version if it is known.
    pub stack: String,
    /// Name that the device reports.
    pub device: String,
    /// Architecture of the device with its target features, for example `gfx90a:sramecc+:xnack-`.
    pub gfx: String,
    /// True if the device that executed the instructions was emulated.
    pub emulated: bool,
    /// Date and time of the run, in UTC.
    pub date: String,
    /// Number of work-items that executed each instruction.
    pub items: usize,
}

impl ResultHeader {
    /// Returns a header with the current version of the format.
    pub fn new(
        stack: String,
        device: String,
        gfx: String,
        emulated: bool,
        date: String,
    ) -> ResultHeader {
        let (format, version) = (FORMAT.to_owned(), FORMAT_VERSION);
        ResultHeader { format, version, stack, device, gfx, emulated, date, items: crate::ITEMS }
    }

    /// Returns the name of the architecture without its target features.
    pub fn arch(&self) -> &str {
        self.gfx.split(':').next().unwrap_or_default()
    }

    /// Returns a description of the header for people, in one line.
    pub fn describe(&self) -> String {
        let kind = if self.emulated { "the emulated device; not a GPU result" } else { "a GPU" };
        format!("{} `{}` ({kind}), {}, {}", self.gfx, self.device, self.stack, self.date)
    }
}

/// Result of one instruction or of one row of `docs/inferred-hardware.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionResult {
    /// Text of the instruction as the disassembler prints it, or name of the row.
    #[serde(rename = "probe")]
    pub name: String,
    /// True if the result is unspecified, so that a device may return any value.
    #[serde(rename = "free", default, skip_serializing_if = "is_false")]
    pub unspecified: bool,
    /// True if the instruction was not executed because the emulated device does not support it.
    #[serde(rename = "lacking", default, skip_serializing_if = "is_false")]
    pub unsupported: bool,
    /// Contents of each register that was written: one word for each work-item, each in eight hexadecimal digits.
    #[serde(rename = "results", default)]
    pub registers: BTreeMap<String, String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl InstructionResult {
    /// Parses the words of a register. The result is `None` if the text does not consist of groups of eight hexadecimal
    /// digits.
    pub(crate) fn words(hex: &str) -> Option<Vec<u32>> {
        if !hex.len().is_multiple_of(8) || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        (0..hex.len() / 8)
            .map(|at| u32::from_str_radix(&hex[8 * at..8 * at + 8], 16).ok())
            .collect()
    }

    /// Formats the words of a register, each in eight hexadecimal digits.
    pub(crate) fn hex(words: &[u32]) -> String {
        words.iter().map(|word| format!("{word:08x}")).collect()
    }
}

/// Contents of a result file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFile {
    /// Origin of the results in the file.
    pub header: ResultHeader,
    /// Results, in the order in which they were measured.
    pub results: Vec<InstructionResult>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
/// Last line of a file. It shows that the file is complete.
struct End {
    end: usize,
}

/// An error in a result file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Number of the line that contains the error, counted from 1.
    pub line: usize,
    /// Description of the error, without the line number.
    pub what: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for FileError {}

impl ResultFile {
    /// Returns the file as text.
    ///
    /// # Errors
    /// Fails if a value cannot be written as JSON. This cannot happen with this type.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(&self.header)?;
        for probe in &self.results {
            text.push('\n');
            text += &serde_json::to_string(probe)?;
        }
        text.push('\n');
        text += &serde_json::to_string(&End { end: self.results.len() })?;
        text.push('\n');
        Ok(text)
    }

    /// Parses the text of a result file.
    ///
    /// # Errors
    /// Returns all errors in the text. If the text is not a result file or has another version, this is the only error.
    pub fn parse(text: &str) -> Result<ResultFile, Vec<FileError>> {
        let refused = |line, what: String| FileError { line, what };
        let mut lines = text.lines().zip(1..);
        let first = lines.next().map_or("", |(line, _)| line);
        let header = parse_header(first).map_err(|what| vec![refused(1, what)])?;
        let (mut probes, mut mistakes, mut end, mut last) = (Vec::new(), Vec::new(), None, 1);
        for (line, number) in lines {
            last = number;
            if end.is_some() {
                mistakes.push(refused(number, "text after the end line".to_owned()));
                break;
            }
            if let Ok(found) = serde_json::from_str::<End>(line) {
                end = Some(found.end);
                continue;
            }
            match parse_result(line, header.items) {
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
                    format!("the file is incomplete: it has {} of {count} results", probes.len());
                mistakes.push(refused(last, what));
            }
            Some(_) => {}
        }
        if mistakes.is_empty() { Ok(ResultFile { header, results: probes }) } else { Err(mistakes) }
    }
}

fn parse_header(line: &str) -> Result<ResultHeader, String> {
    let foreign = || {
        format!(
            "not a result file of `rocrepro device compare`, which begins with {{\"format\":\"{FORMAT}\""
        )
    };
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| foreign())?;
    if value.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
        return Err(foreign());
    }
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(FORMAT_VERSION) => {}
        Some(version) => {
            return Err(format!(
                "the format has version {version}; this rocrepro reads version {FORMAT_VERSION}"
            ));
        }
        None => return Err("the header has no version".to_owned()),
    }
    serde_json::from_value(value).map_err(|error| format!("the header: {error}"))
}

fn parse_result(line: &str, items: usize) -> Result<InstructionResult, String> {
    let probe: InstructionResult = serde_json::from_str(line).map_err(|error| error.to_string())?;
    for (register, hex) in &probe.registers {
        let Some(words) = InstructionResult::words(hex) else {
            return Err(format!(
                "`{}`: {register} does not have words of eight hexadecimal digits",
                probe.name
            ));
        };
        let is_row = register == "words";
        if !is_row && words.len() != items {
            let count = words.len();
            return Err(format!(
                "`{}`: {register} has {count} words instead of {items}",
                probe.name
            ));
        }
    }
    Ok(probe)
}

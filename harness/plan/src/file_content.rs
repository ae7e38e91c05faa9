//! Content of the files that a case names.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Bytes of a file. Copies of a plan share these bytes in memory. The serialised form is a text of hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContent(Arc<[u8]>);

/// Files that a plan needs in addition to its text, by name: code objects, and bytes of buffers.
pub type Files = BTreeMap<String, FileContent>;

impl FileContent {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for FileContent {
    fn from(bytes: Vec<u8>) -> Self {
        FileContent(bytes.into())
    }
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for FileContent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for FileContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
        let bytes: Option<Vec<u8>> = bytes.collect();
        let bytes = bytes.filter(|_| rest.is_empty());
        bytes.map(Self::from).ok_or_else(|| D::Error::custom("not pairs of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_digits() {
        let content = FileContent::from(vec![0, 0x7f, 0xff, 0x0a]);
        let text = serde_json::to_string(&content).unwrap();
        assert_eq!(text, "\"007fff0a\"");
        assert_eq!(serde_json::from_str::<FileContent>(&text).unwrap(), content);
        for wrong in ["\"0\"", "\"0g\"", "\"+1\"", "\"\u{e9}\u{e9}\""] {
            assert!(serde_json::from_str::<FileContent>(wrong).is_err(), "{wrong}");
        }
    }
}

//! The arguments and results of a recorded call.

use recorder::trace::{Address, ArgumentValue, CallReturn, Content, TraceCall};

/// A call that returned.
#[derive(Clone, Copy)]
pub(super) struct RecordedCall<'t> {
    pub(super) call: &'t TraceCall,
    pub(super) end: &'t CallReturn,
}

impl<'t> RecordedCall<'t> {
    pub(super) fn name(&self) -> &'t str {
        &self.call.function
    }

    pub(super) fn succeeded(&self) -> bool {
        self.end.status == 0
    }

    pub(super) fn argument(&self, name: &str) -> Option<&'t ArgumentValue> {
        let all = self.call.arguments.as_deref().unwrap_or_default();
        all.iter().find(|argument| argument.name == name).map(|argument| &argument.value)
    }

    /// Returns an argument that is a number.
    pub(super) fn number(&self, name: &str) -> Result<u64, String> {
        match self.argument(name) {
            Some(ArgumentValue::Number(number)) => {
                let signed = || number.as_i64().map(i64::cast_unsigned);
                number.as_u64().or_else(signed).ok_or_else(|| format!("`{name}` is {number}"))
            }
            _ => Err(format!("`{name}` was not recorded")),
        }
    }

    pub(super) fn number_of_32_bits(&self, name: &str) -> Result<u32, String> {
        self.number(name)?.try_into().map_err(|_| format!("`{name}` is too large"))
    }

    /// Returns an argument that is an address or a handle.
    pub(super) fn address(&self, name: &str) -> Result<u64, String> {
        match self.argument(name) {
            Some(
                ArgumentValue::Address(Address(at))
                | ArgumentValue::Memory { at: Address(at), .. }
                | ArgumentValue::Unknown(Address(at), _),
            ) => Ok(*at),
            _ => Err(format!("`{name}` was not recorded")),
        }
    }

    /// Returns the content of the memory that the call read; `None` if no content was recorded.
    pub(super) fn content(&self) -> Option<&'t Content> {
        let all = self.call.arguments.as_deref().unwrap_or_default();
        all.iter().find_map(|argument| match &argument.value {
            ArgumentValue::Memory { content, .. } => content.as_ref(),
            _ => None,
        })
    }

    /// Returns the address or handle that the call wrote to the output parameter `name`.
    pub(super) fn output_handle(&self, name: &str) -> Result<u64, String> {
        match self.end.out.get(name) {
            Some(ArgumentValue::Address(Address(at))) => Ok(*at),
            _ => Err(format!("the value of `{name}` was not recorded")),
        }
    }

    /// Returns the number that the call wrote to the output parameter `name`; `None` if no number was recorded.
    pub(super) fn output_number(&self, name: &str) -> Option<u64> {
        match self.end.out.get(name) {
            Some(ArgumentValue::Number(number)) => number.as_u64(),
            _ => None,
        }
    }
}

/// Parses hexadecimal digits as bytes; `None` if they are not valid.
pub(super) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

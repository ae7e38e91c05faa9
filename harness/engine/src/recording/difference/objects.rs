//! The objects of a recorded process: handles and memory, found by their addresses.

use std::collections::{BTreeMap, HashMap};

use recorder::trace::{Address, ArgumentValue, CallReturn, TraceCall};

/// Addresses below this value are numbers, for example the handles of the default streams.
const NUMBERS: u64 = 4096;

/// Addresses from this value on are numbers: -1 and similar values.
const NEGATIVE: u64 = 0xffff_ffff_0000_0000;

/// Functions whose argument becomes an object: the function, and the name of the argument.
const DEFINED: [(&str, &str); 3] = [
    ("__hipRegisterFunction", "hostFunction"),
    ("__hipRegisterVar", "var"),
    ("hipHostRegister", "hostPtr"),
];

/// Parts of the names of functions that end the life of the object in their first argument.
const ENDS: [&str; 4] = ["Destroy", "Free", "Unload", "Unregister"];

/// An object of a recording.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Name that equal objects of two recordings share: the thread, the function, the number of earlier calls of this
    /// function in this thread, and the parameter.
    pub(super) key: String,
    /// Description for people.
    pub(super) shown: String,
}

/// A value in two forms: one in which equal values of two recordings are equal, and one for people.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normal {
    pub(super) key: String,
    pub(super) shown: String,
}

impl Normal {
    pub(super) fn plain(text: impl Into<String>) -> Normal {
        let text = text.into();
        Normal { key: text.clone(), shown: text }
    }
}

/// The objects that exist at a moment.
#[derive(Default)]
pub(super) struct Objects {
    handles: HashMap<u64, Object>,
    /// Memory by its first address, with its size in bytes.
    memory: BTreeMap<u64, (u64, Object)>,
}

impl Objects {
    /// Finds the object at an address, with the offset of the address in it; `None` if no object is there.
    fn at(&self, address: u64) -> Option<(&Object, u64)> {
        if let Some(handle) = self.handles.get(&address) {
            return Some((handle, 0));
        }
        let (start, (bytes, object)) = self.memory.range(..=address).next_back()?;
        let offset = address - start;
        (offset < *bytes).then_some((object, offset))
    }

    /// Describes an address by the object to which it belongs. A value that cannot be an address is described as a
    /// number. `None` for other addresses, which differ between runs.
    pub(super) fn known(&self, address: u64) -> Option<Normal> {
        if let Some((object, offset)) = self.at(address) {
            let plus = if offset == 0 { String::new() } else { format!(" + {offset}") };
            let [key, shown] = [&object.key, &object.shown].map(|text| format!("{text}{plus}"));
            return Some(Normal { key, shown });
        }
        match address {
            0 => Some(Normal::plain("null")),
            _ if !is_object(address) => Some(Normal::plain(format!("{address:#x}"))),
            _ => None,
        }
    }

    /// Describes an address as [`Objects::known`] does. All other addresses have one common description, so they are
    /// equal.
    pub(super) fn address(&self, address: u64) -> Normal {
        self.known(address).unwrap_or_else(|| Normal::plain("address of the program"))
    }

    /// Replaces the addresses in bytes, given as hexadecimal digits, by descriptions of their objects. A word of 8
    /// bytes that is not the address of an object remains as it is, unless `is_address` is true for it.
    pub(super) fn words(&self, hex: &str, is_address: impl Fn(u64) -> bool) -> Normal {
        let mut whole = Normal::plain("");
        let mut rest = hex;
        while !rest.is_empty() {
            let (word, more) = rest.split_at_checked(16).unwrap_or((rest, ""));
            rest = more;
            let number = u64::from_str_radix(word, 16).ok().filter(|_| word.len() == 16);
            let number = number.map(u64::swap_bytes);
            let found = number.and_then(|number| match self.at(number) {
                Some(_) => self.known(number),
                None => is_address(number).then(|| self.address(number)),
            });
            let found = found.unwrap_or_else(|| Normal::plain(word));
            for (to, text) in [(&mut whole.key, &found.key), (&mut whole.shown, &found.shown)] {
                if !to.is_empty() {
                    to.push(' ');
                }
                to.push_str(text);
            }
        }
        whole
    }

    /// Adds the objects that a call created, and removes the one that it destroyed. `key` names the call in the same
    /// way in both recordings. Returns the names of the results that are new objects.
    pub(super) fn follow<'t>(
        &mut self,
        call: &TraceCall,
        end: &'t CallReturn,
        key: &str,
    ) -> Vec<&'t str> {
        let mut created = Vec::new();
        let function = call.function.as_str();
        let is_of_compiler = function.starts_with(super::super::COMPILER_PREFIX);
        if end.status != 0 && !is_of_compiler {
            return created;
        }
        let mut first = None;
        for argument in call.arguments.iter().flatten() {
            let address = address_of(&argument.value);
            first = first.or(address);
            if let Some(address) = address
                && is_object(address)
                && DEFINED.contains(&(function, argument.name.as_str()))
            {
                self.define(call, end, address, key, &argument.name);
            }
        }
        if let Some(address) = first.filter(|_| ENDS.iter().any(|part| function.contains(part))) {
            self.handles.remove(&address);
            self.memory.remove(&address);
        }
        for (name, value) in &end.out {
            if let ArgumentValue::Address(Address(address)) = value {
                // A query returns an object that may already be known.
                let is_query = function.contains("Get") && self.at(*address).is_some();
                if !is_query && is_object(*address) {
                    self.define(call, end, *address, key, name);
                    created.push(name.as_str());
                }
            }
        }
        created
    }

    fn define(&mut self, call: &TraceCall, end: &CallReturn, at: u64, key: &str, name: &str) {
        let object = Object {
            key: format!("{key} {name}"),
            shown: format!("`{name}` of call {}", call.number),
        };
        let last = at.saturating_add(size(call, end).unwrap_or(1).max(1));
        // Memory that the program freed without a recorded call may have had these addresses.
        let covers = |start: u64, bytes: u64| start < last && at < start.saturating_add(bytes);
        let before = self
            .memory
            .range(..last)
            .rev()
            .take_while(|(start, (bytes, _))| covers(**start, *bytes));
        let before: Vec<u64> = before.map(|(start, _)| *start).collect();
        before.iter().for_each(|start| drop(self.memory.remove(start)));
        self.handles.remove(&at);
        match size(call, end) {
            Some(bytes) => drop(self.memory.insert(at, (bytes.max(1), object))),
            None => drop(self.handles.insert(at, object)),
        }
    }
}

/// Returns true if the value can be an address or a handle.
fn is_object(value: u64) -> bool {
    (NUMBERS..NEGATIVE).contains(&value)
}

fn address_of(value: &ArgumentValue) -> Option<u64> {
    match value {
        ArgumentValue::Address(Address(at))
        | ArgumentValue::Memory { at: Address(at), .. }
        | ArgumentValue::Unknown(Address(at), _) => Some(*at),
        ArgumentValue::Number(_)
        | ArgumentValue::Text(_)
        | ArgumentValue::Texts(_)
        | ArgumentValue::Bytes(_) => None,
    }
}

/// Returns the size in bytes of the memory that a call allocated; `None` if the call did not allocate memory.
fn size(call: &TraceCall, end: &CallReturn) -> Option<u64> {
    let function = call.function.as_str();
    if !["Alloc", "Malloc", "GetGlobal", "HostRegister"].iter().any(|part| function.contains(part))
    {
        return None;
    }
    let gave = |name: &str| match end.out.get(name) {
        Some(ArgumentValue::Number(number)) => number.as_u64(),
        _ => None,
    };
    let number = |name: &str| {
        let mut all = call.arguments.iter().flatten();
        match &all.find(|argument| argument.name == name)?.value {
            ArgumentValue::Number(number) => number.as_u64(),
            _ => None,
        }
    };
    if let (Some(pitch), Some(rows)) = (gave("pitch"), number("height")) {
        return Some(pitch.saturating_mul(rows));
    }
    let given = ["size", "sizeBytes", "bytesize"].iter().find_map(|name| number(name));
    given.or_else(|| gave("bytes"))
}

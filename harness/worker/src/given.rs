//! Memory for the values that `hip` steps pass or receive through pointers.

use std::collections::HashMap;

use plan::MAX_VALUE_BYTES;

/// Memory for one value. The address stays valid until the process ends, because work that is queued in a stream may
/// read the value later.
pub(crate) type ValueMemory = Box<[u64; MAX_VALUE_BYTES / 8]>;

#[derive(Default)]
pub(crate) struct ValueStore {
    /// Memory of each value. The key is the name of the value, or the numbers of the step and the argument. The memory
    /// contains zeros until a call has returned the value, as in a C program that initialises its variables.
    rooms: HashMap<String, ValueMemory>,
}

impl ValueStore {
    /// Stores bytes in the memory of the value with this key, and fills the rest of the memory with zeros. Returns the
    /// address of the memory.
    pub(crate) fn store_bytes(&mut self, key: &str, bytes: &[u8]) -> usize {
        let room = self.room(key);
        let mut all = bytes.to_vec();
        all.resize(MAX_VALUE_BYTES, 0);
        for (word, bytes) in room.iter_mut().zip(all.chunks_exact(8)) {
            *word = word_of(bytes);
        }
        room.as_ptr() as usize
    }

    pub(crate) fn room(&mut self, key: &str) -> &mut ValueMemory {
        self.rooms.entry(key.to_owned()).or_insert_with(|| Box::new([0; MAX_VALUE_BYTES / 8]))
    }

    pub(crate) fn value(&mut self, name: &str) -> Vec<u8> {
        self.room(name).iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// Returns the number in the first 8 bytes (little-endian). Missing bytes count as zero.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

//! Memory for values that calls of any function take or return through pointers.

use std::collections::HashMap;

use plan::MAX_VALUE_BYTES;

/// Memory for one such value. Its address stays valid until the process ends, because work of a stream may read it
/// later.
pub(crate) type Room = Box<[u64; MAX_VALUE_BYTES / 8]>;

/// Values that calls have returned.
#[derive(Default)]
pub(crate) struct Given {
    /// Rooms by the name of the value, or by step and argument number. A value that was never returned is zero, as in a
    /// C program that initialises its variables.
    rooms: HashMap<String, Room>,
}

impl Given {
    /// Stores these bytes in a room, filled up with zeros, and returns its address.
    pub(crate) fn holding(&mut self, key: &str, bytes: &[u8]) -> usize {
        let room = self.room(key);
        let mut all = bytes.to_vec();
        all.resize(MAX_VALUE_BYTES, 0);
        for (word, bytes) in room.iter_mut().zip(all.chunks_exact(8)) {
            *word = word_of(bytes);
        }
        room.as_ptr() as usize
    }

    pub(crate) fn room(&mut self, key: &str) -> &mut Room {
        self.rooms.entry(key.to_owned()).or_insert_with(|| Box::new([0; MAX_VALUE_BYTES / 8]))
    }

    /// Returns the current value of this name.
    pub(crate) fn value(&mut self, name: &str) -> Vec<u8> {
        self.room(name).iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// Returns the number at the beginning of the bytes; missing bytes are zero.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

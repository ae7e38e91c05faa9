//! What calls of any function are given behind pointers, and give there.

use std::collections::HashMap;

use plan::MAX_VALUE_BYTES;

/// Room for what a call is given behind a pointer, or gives there. It stays where it is until the process ends, as work of a stream may
/// look at it later.
pub(crate) type Room = Box<[u64; MAX_VALUE_BYTES / 8]>;

/// What calls have given.
#[derive(Default)]
pub(crate) struct Given {
    /// By the name of what is given, or by the step and the place among its arguments. What was never given is zeros, as in a C program
    /// that initialises its variables.
    rooms: HashMap<String, Room>,
}

impl Given {
    /// Room that holds these bytes, and zeros behind them.
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

    /// What is given under this name now.
    pub(crate) fn value(&mut self, name: &str) -> Vec<u8> {
        self.room(name).iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The number that these bytes begin with; what is missing is zero.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

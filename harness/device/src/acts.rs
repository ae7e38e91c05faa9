use serde::{Deserialize, Serialize};

use crate::Fault;

/// Symbol `const char *rocrepro_device_acts(void)`, which only the emulated device exports. The function returns the
/// JSON of a list of [`Acts`], one per injected fault, with the current counts. The returned string is never freed.
pub const ACTS_SYMBOL: &str = "rocrepro_device_acts";

/// Maximum number of acts that are recorded, per line of the case and in total. In a loop there may be more.
const OF_A_LINE: usize = 64;
const OF_ALL: usize = 4096;

/// Number of times that an injected fault acted in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acts {
    /// The fault.
    pub fault: Fault,
    /// Number of acts.
    pub times: u64,
    /// First acts, up to the limits.
    pub first: Vec<Act>,
}

/// One act of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// Number of the opportunity, counted from 1, as in the parameter `only`.
    pub opportunity: u64,
    /// Current line of the case, or 0 outside of its lines. For asynchronous work this may be a later line than that of
    /// the call.
    pub line: u32,
}

impl Acts {
    /// Returns a value with no acts.
    pub const fn none(fault: Fault) -> Acts {
        Acts { fault, times: 0, first: Vec::new() }
    }

    /// Records an act at an opportunity that is counted from 0.
    pub fn note(&mut self, opportunity: u64, line: u32) {
        self.times += 1;
        let of_the_line = || self.first.iter().filter(|act| act.line == line).count();
        if self.first.len() < OF_ALL && of_the_line() < OF_A_LINE {
            self.first.push(Act { opportunity: opportunity + 1, line });
        }
    }
}

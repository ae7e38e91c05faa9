use serde::{Deserialize, Serialize};

use crate::Fault;

/// The symbol `const char *rocrepro_device_acts(void)` that only the emulated device exports. It returns the JSON of a list of
/// [`Acts`], one for each planted fault, as they are when it is called; the text stays for ever.
pub const ACTS_SYMBOL: &str = "rocrepro_device_acts";

/// Of how many acts the opportunities are kept, of each line of the case and of all; more have happened where a loop makes
/// them.
const OF_A_LINE: usize = 64;
const OF_ALL: usize = 4096;

/// How often a planted fault misbehaved in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acts {
    /// Which fault.
    pub fault: Fault,
    /// How often.
    pub times: u64,
    /// The first of these acts.
    pub first: Vec<Act>,
}

/// One time that a planted fault misbehaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The number of the opportunity, counted from 1, as `only` names it.
    pub opportunity: u64,
    /// Line of the case that the program was at; 0 outside of its lines. What is asynchronous may act later than at its own
    /// line.
    pub line: u32,
}

impl Acts {
    /// None so far.
    pub const fn none(fault: Fault) -> Acts {
        Acts { fault, times: 0, first: Vec::new() }
    }

    /// Notes one, at an opportunity counted from 0.
    pub fn note(&mut self, opportunity: u64, line: u32) {
        self.times += 1;
        let of_the_line = || self.first.iter().filter(|act| act.line == line).count();
        if self.first.len() < OF_ALL && of_the_line() < OF_A_LINE {
            self.first.push(Act { opportunity: opportunity + 1, line });
        }
    }
}

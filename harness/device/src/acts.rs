use serde::{Deserialize, Serialize};

use crate::Fault;

/// Symbol `const char *rocrepro_device_acts(void)`, which only the emulated device exports. The function returns the
/// JSON of a list of [`FaultActivations`], one per injected fault, with the current counts. The returned string is
/// never freed.
pub const ACTS_SYMBOL: &str = "rocrepro_device_acts";

/// Maximum numbers of [`FaultActivation`]s that are recorded: for one line of the case, and for the whole process. A
/// fault in a loop can take effect more often.
const MAX_RECORDED_PER_LINE: usize = 64;
const MAX_RECORDED: usize = 4096;

/// Number of times that an injected fault took effect in one process, with details of the first times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultActivations {
    /// The injected fault.
    pub fault: Fault,
    /// Number of times that the fault took effect.
    pub times: u64,
    /// Details of the first times: at most 64 for one line of the case, and 4096 in total.
    pub first: Vec<FaultActivation>,
}

/// One occasion on which an injected fault took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultActivation {
    /// Number of the opportunity at which the fault took effect, counted from 1 as in the fault's parameter `only`.
    pub opportunity: u64,
    /// Line of the case that the worker was executing; 0 before the first line. For asynchronous work, this line may be
    /// after the line of the call.
    pub line: u32,
}

impl FaultActivations {
    /// Returns the value for a fault that has not taken effect yet: zero times, without details.
    pub const fn new(fault: Fault) -> FaultActivations {
        FaultActivations { fault, times: 0, first: Vec::new() }
    }

    /// Records that the fault took effect at `opportunity`, counted from 0, while the worker executed `line` of the
    /// case.
    pub fn note(&mut self, opportunity: u64, line: u32) {
        self.times += 1;
        let of_the_line = || self.first.iter().filter(|act| act.line == line).count();
        if self.first.len() < MAX_RECORDED && of_the_line() < MAX_RECORDED_PER_LINE {
            self.first.push(FaultActivation { opportunity: opportunity + 1, line });
        }
    }
}

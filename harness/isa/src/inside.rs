//! Internal items that the tests of this crate and the fuzz targets use, so that the interpreter is not compiled a
//! second time for them. The module is not part of the crate's interface.

pub mod checks {
    pub use crate::checks::{CheckError, CheckState, Checks};

    pub mod access {
        pub use crate::checks::access::pieces;
    }
    pub mod between {
        pub use crate::checks::between::{MemoryRaceDetector, Race, RaceReason};

        pub mod clock {
            pub use crate::checks::between::clock::{Clock, Entry};
        }
    }
    pub mod flow {
        pub use crate::checks::flow::{Flow, Register, Rule, address, flow};
    }
    pub mod polls {
        pub use crate::checks::polls::ReadUse;
    }
    pub mod races {
        pub use crate::checks::races::{
            Access, AccessPosition, Clock, ClockEntry, CompletedCounts, CurrentAccess, Races,
        };

        pub mod bytes {
            pub use crate::checks::races::bytes::{Byte, Touch, WaveView};
        }
    }
    pub mod scope {
        pub use crate::checks::scope::{NEAR, Scope, Strength, caches};
    }
}
pub mod float16 {
    pub use crate::float16::{Bf16, F16};
}
pub mod launch {
    pub use crate::launch::initial_mode;
}
pub mod lost_bits {
    pub use crate::lost_bits::{completed, refusal};
}
pub mod machine {
    pub use crate::machine::Machine;
}
pub mod misread {
    pub use crate::misread::{instead, kills, with_constant, with_lanes};
}
pub mod ops {
    pub use crate::ops::{TABLE, memory::Location, moved};
}
pub mod program {
    pub use crate::program::{Detours, line, parse};
}
pub mod registers {
    pub use crate::registers::{ROWS, RegisterFile};
}
pub mod residents {
    pub use crate::residents::{PAUSE, Progress, Quiet, processor_time};
}
pub mod small_float {
    pub use crate::small_float::SmallFloat;
}
pub mod sync {
    pub use crate::sync::{Action, PendingWait};
}
pub mod text {
    pub use crate::text::{Base, Constant, SHARED_APERTURE, Site, Text, register};
}
pub mod unnamed {
    pub use crate::unnamed::{Encoding, Named, encoding, name_by, without_sources};
}
pub mod wave {
    pub use crate::wave::{State, Stop, Wave};
}
pub mod workgroup {
    pub use crate::workgroup::{Clock, Group};
}

//! What an instruction says of other workgroups: whether they see its accesses as they are made, and what it does to the
//! caches between them.
//!
//! Source: LLVM's AMDGPU usage guide, the memory models of GFX6 to GFX9, GFX90A, GFX942 (which GFX950 has as well),
//! GFX10 and GFX11, and GFX12: the code that loads, stores and fences of each scope become.

use device::{
    Arch,
    Generation::{Cdna1, Cdna2, Cdna3, Cdna4, Gcn5, Rdna2, Rdna3, Rdna3_5, Rdna4},
};

use crate::text::{Base, Text};

/// What the bits of a load or a store say of those who touch the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Nothing: it may meet a cache of its own.
    Plain,
    /// It may be atomic or not: before GFX12, and but for GFX942 and GFX950, a store goes to the memory of the device
    /// whatever it is.
    Unsaid,
    /// It is made where the workgroup sees it, as atomic accesses of that scope are: to others it is a plain one.
    Within,
    /// It is made where other workgroups see it, as atomic and volatile accesses are.
    Synchronising,
}

impl Strength {
    /// What it says to a wave of the same workgroup, or of another one.
    pub fn to(self, is_own: bool) -> Strength {
        match (self, is_own) {
            (Strength::Within, true) => Strength::Synchronising,
            (Strength::Within, false) => Strength::Plain,
            _ => self,
        }
    }
}

/// What an instruction does that concerns other workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What it says if it loads.
    pub load: Strength,
    /// What it says if it stores.
    pub store: Strength,
    /// A store stays in a cache that others do not share, until that is written back.
    pub stays: bool,
    /// It compares and swaps, which begins with a plain load where compilers make other atomics of it.
    pub(crate) swaps: bool,
    /// The caches whose lines it drops, a bit for each.
    pub drops: u8,
    /// It writes back what stays in caches.
    pub writes_back: bool,
}

/// The cache that the waves of a workgroup may have apart on RDNA.
pub const NEAR: u8 = 0b01;
/// The one behind it, which other workgroups may have apart.
const FAR: u8 = 0b10;

/// The caches that a load may find old lines in, a bit for each: on RDNA two of them may be dropped one by one.
pub fn caches(arch: Arch) -> u8 {
    match arch.generation() {
        Rdna2 | Rdna3 | Rdna3_5 | Rdna4 => NEAR | FAR,
        Gcn5 | Cdna1 | Cdna2 | Cdna3 | Cdna4 => NEAR,
    }
}

impl Scope {
    /// Of an instruction that touches no memory.
    pub(crate) const NOTHING: Scope = Scope {
        load: Strength::Plain,
        store: Strength::Plain,
        stays: false,
        swaps: false,
        drops: 0,
        writes_back: false,
    };

    /// What the text of an instruction says.
    pub fn of(text: &Text) -> Scope {
        use Strength::{Plain, Synchronising, Unsaid, Within};
        let (name, generation) = (text.mnemonic.as_str(), text.site.arch.generation());
        // Where there are no operands, the first modifier stands in their place.
        let says_sc1 = text.has("sc1")
            || text.operands.iter().any(|operand| operand.base == Base::Word("sc1".to_owned()));
        let wide = text.value("scope").is_some_and(|scope| scope != "SCOPE_CU");
        let device = text.value("scope").is_some_and(|s| s == "SCOPE_DEV" || s == "SCOPE_SYS");
        let (marked, beyond, says) = match generation {
            Cdna3 | Cdna4 => (text.has("sc0") || says_sc1, says_sc1, true),
            Rdna4 => (wide, device, true),
            Rdna2 => (text.has("glc"), text.has("dlc"), false),
            Gcn5 | Cdna1 | Cdna2 | Rdna3 | Rdna3_5 => (text.has("glc"), true, false),
        };
        let strength = match (marked, beyond) {
            (false, _) => Plain,
            (true, false) => Within,
            (true, true) => Synchronising,
        };
        let drops = match (name, generation) {
            ("buffer_gl0_inv", _) | ("buffer_wbinvl1" | "buffer_wbinvl1_vol", _) => NEAR,
            ("buffer_gl1_inv", _) => FAR,
            ("buffer_inv", _) if says_sc1 => NEAR,
            ("global_inv" | "global_wbinv", _) if device => NEAR | FAR,
            ("global_inv" | "global_wbinv", _) if wide => NEAR,
            _ => 0,
        };
        Scope {
            load: strength,
            store: if says { strength } else { Unsaid },
            stays: generation.is_gfx940() && name.contains("_store_") && !text.has("sc1"),
            swaps: name.contains("_cmpswap"),
            drops,
            writes_back: name == "buffer_wbl2" && says_sc1,
        }
    }

    /// Whether it is for caches alone.
    pub(crate) fn is_of_caches(&self) -> bool {
        self.drops != 0 || self.writes_back
    }
}

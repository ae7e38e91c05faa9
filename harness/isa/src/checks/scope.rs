//! Synchronisation scope of memory instructions: whether other workgroups see the result of an access at once, and how
//! an instruction affects caches.
//!
//! Source: LLVM's AMDGPU usage guide, the memory models of GFX6 to GFX9, GFX90A, GFX942 (which also applies to GFX950),
//! GFX10 and GFX11, and GFX12: code sequences for loads, stores and fences of each scope.

use device::{Arch, ScopeBits};

use crate::text::{Base, Text};

/// Synchronisation strength of a load or a store, as the bits of the instruction encode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The access does not synchronise. It may use a private cache.
    Plain,
    /// The strength is unknown. Before GFX12, except on GFX942 and GFX950, atomic and plain stores have the same
    /// encoding and both reach the memory of the device.
    Unknown,
    /// The access is visible to the workgroup, like atomics with workgroup scope. For other workgroups it is a plain
    /// access.
    Workgroup,
    /// The access is visible to other workgroups, like atomic and volatile accesses.
    Synchronising,
}

impl Strength {
    /// Returns the strength as seen by a wave of the same workgroup (`is_own`) or of another one.
    pub fn to(self, is_own: bool) -> Strength {
        match (self, is_own) {
            (Strength::Workgroup, true) => Strength::Synchronising,
            (Strength::Workgroup, false) => Strength::Plain,
            _ => self,
        }
    }
}

/// Scope of an instruction, and its effect on caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Strength of the instruction as a load.
    pub load: Strength,
    /// Strength of the instruction as a store.
    pub store: Strength,
    /// True if a store stays in a private cache until an instruction writes the cache back.
    pub stays_cached: bool,
    /// True for a compare-and-swap. If the architecture lacks an atomic, compilers emit a loop that starts with a plain
    /// load and ends with a compare-and-swap.
    pub(crate) swaps: bool,
    /// Caches that the instruction invalidates, as a bit mask.
    pub invalidated_caches: u8,
    /// True if the instruction writes back the contents of caches.
    pub writes_back: bool,
}

/// Bit of the nearest cache. On RDNA, the waves of a workgroup may use two separate caches of this level.
pub const NEAR: u8 = 0b01;
/// Bit of the next cache level. Different workgroups may use separate caches of this level.
const FAR: u8 = 0b10;

/// Returns the caches in which a load may find stale lines, as a bit mask. On RDNA, separate instructions invalidate
/// two levels of caches.
pub fn caches(arch: Arch) -> u8 {
    if arch.facts().has_two_caches { NEAR | FAR } else { NEAR }
}

impl Scope {
    pub(crate) const NOTHING: Scope = Scope {
        load: Strength::Plain,
        store: Strength::Plain,
        stays_cached: false,
        swaps: false,
        invalidated_caches: 0,
        writes_back: false,
    };

    /// Returns the scope of an instruction from its text.
    pub fn parse(text: &Text) -> Scope {
        use Strength::{Plain, Synchronising, Unknown, Workgroup};
        let (name, bits) = (text.mnemonic.as_str(), text.site.arch.facts().scope_bits);
        // If an instruction has no operands, the parser takes its first modifier for an operand.
        let says_sc1 = text.has("sc1")
            || text.operands.iter().any(|operand| operand.base == Base::Word("sc1".to_owned()));
        let wide = text.value("scope").is_some_and(|scope| scope != "SCOPE_CU");
        let device = text.value("scope").is_some_and(|s| s == "SCOPE_DEV" || s == "SCOPE_SYS");
        let glc = text.has("glc");
        // The four values are: whether the access synchronises within the workgroup, whether it also synchronises with
        // other workgroups, whether stores have these bits, and whether stores may stay in a private cache.
        let (marked, beyond, says, keeps) = match bits {
            ScopeBits::Sc => (text.has("sc0") || says_sc1, says_sc1, true, !text.has("sc1")),
            ScopeBits::Scope => (wide, device, true, false),
            ScopeBits::GlcDlc => (glc, text.has("dlc"), false, false),
            ScopeBits::Glc => (glc, true, false, false),
        };
        let strength = match (marked, beyond) {
            (false, _) => Plain,
            (true, false) => Workgroup,
            (true, true) => Synchronising,
        };
        let drops = match name {
            "buffer_gl0_inv" | "buffer_wbinvl1" | "buffer_wbinvl1_vol" => NEAR,
            "buffer_gl1_inv" => FAR,
            "buffer_inv" if says_sc1 => NEAR,
            "global_inv" | "global_wbinv" if device => NEAR | FAR,
            "global_inv" | "global_wbinv" if wide => NEAR,
            _ => 0,
        };
        Scope {
            load: strength,
            store: if says { strength } else { Unknown },
            stays_cached: keeps && name.contains("_store_"),
            swaps: name.contains("_cmpswap"),
            invalidated_caches: drops,
            writes_back: name == "buffer_wbl2" && says_sc1,
        }
    }

    pub(crate) fn is_of_caches(&self) -> bool {
        self.invalidated_caches != 0 || self.writes_back
    }
}

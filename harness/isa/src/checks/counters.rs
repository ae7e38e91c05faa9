//! Hardware counters of outstanding results: instructions that increment them, and instructions that wait for them.
//!
//! Sources: the ISA guides of Vega, CDNA 3 and RDNA 2 to 4 ("Data dependency resolution", `S_WAITCNT` and `S_WAIT_*`),
//! and LLVM's `SIInsertWaitcnts.cpp` and `AMDGPUBaseInfo.cpp` (fields and widths). Where a guide does not specify the
//! order of results, this module assumes the same order as the compiler.
//!
//! EXP_CNT is omitted: since GFX7 no instruction of a compute kernel needs it (LLVM, `vmemWriteNeedsExpWaitcnt`).

use std::sync::Arc;

use device::{Arch, WaitCounters};

use super::access::{Kind, Piece};
use crate::{
    ops::{has_no_effect, image, memory::Transfer, sync},
    text::{Base, Text, register},
};

/// Kinds of results that hardware counts. Before GFX12 a scalar result increments the counter of the LDS, and on GFX9 a
/// store increments the counter of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Loads,
    Stores,
    Local,
    Scalars,
}

pub(crate) const COUNTERS: usize = 4;

fn of_stores(counters: WaitCounters) -> Counter {
    match counters {
        WaitCounters::Gfx9 => Counter::Loads,
        WaitCounters::Gfx10 | WaitCounters::Gfx11 | WaitCounters::Gfx12 | WaitCounters::Gfx1250 => {
            Counter::Stores
        }
    }
}

fn of_scalars(counters: WaitCounters) -> Counter {
    match counters {
        WaitCounters::Gfx9 | WaitCounters::Gfx10 | WaitCounters::Gfx11 => Counter::Local,
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => Counter::Scalars,
    }
}

/// Returns true if the architecture counts cache instructions (LLVM, `getVmemWaitEventType`). These architectures count
/// image samples with a separate counter, which is not tracked.
fn counts_caches_and_samples(counters: WaitCounters) -> bool {
    match counters {
        WaitCounters::Gfx9 | WaitCounters::Gfx10 | WaitCounters::Gfx11 => false,
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => true,
    }
}

/// Returns the order in which the LDS results of FLAT instructions arrive. Since GFX10, they arrive in order with the
/// results of other LDS instructions (LLVM, `hasFlatLgkmVMemCountInOrder`).
fn order_of_flat(counters: WaitCounters) -> Order {
    match counters {
        WaitCounters::Gfx9 => Order::Any,
        WaitCounters::Gfx10 | WaitCounters::Gfx11 | WaitCounters::Gfx12 | WaitCounters::Gfx1250 => {
            Order::InOrder
        }
    }
}

impl Counter {
    /// Returns the name of the counter in the architecture's assembler, for example `vmcnt`.
    pub(crate) fn name(self, arch: Arch) -> &'static str {
        let [loads, stores, local] = match arch.facts().counters {
            WaitCounters::Gfx9 | WaitCounters::Gfx10 | WaitCounters::Gfx11 => {
                ["vmcnt", "vscnt", "lgkmcnt"]
            }
            WaitCounters::Gfx12 | WaitCounters::Gfx1250 => ["loadcnt", "storecnt", "dscnt"],
        };
        match self {
            Counter::Loads => loads,
            Counter::Stores => stores,
            Counter::Local => local,
            Counter::Scalars => "kmcnt",
        }
    }

    /// Returns the maximum value of the counter. Hardware delays an instruction that would exceed it.
    fn capacity(self, arch: Arch) -> usize {
        let local = match arch.facts().counters {
            WaitCounters::Gfx9 => 15,
            WaitCounters::Gfx10
            | WaitCounters::Gfx11
            | WaitCounters::Gfx12
            | WaitCounters::Gfx1250 => 63,
        };
        match self {
            Counter::Local => local,
            Counter::Scalars => 31,
            Counter::Loads | Counter::Stores => 63,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Results arrive in the order in which their instructions were executed.
    InOrder,
    /// Results arrive in any order. Only a counter value of zero shows that a result has arrived.
    Any,
}

/// Lanes for which an access increments a counter. A FLAT instruction may access memory in some lanes and the LDS in
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    All,
    Memory,
    Lds,
}

/// Increment of a counter by an instruction. Hardware decrements the counter when the result has arrived.
#[derive(Clone, Debug)]
pub(crate) struct CounterIncrement {
    pub(crate) counter: Counter,
    pub(crate) name: &'static str,
    pub(crate) capacity: usize,
    pub(crate) order: Order,
    pub(crate) domain: Domain,
    /// True if the result is written to the LDS, not to registers.
    pub(crate) moves: bool,
    /// Registers that receive the result. Empty for a store.
    pub(crate) result: Arc<Set>,
}

/// Number of register halves that are tracked. Each row of the vector registers has two, the low half first. The two
/// halves of each scalar register follow.
pub(crate) const HALVES: usize = 2 * (crate::registers::ROWS + register::COUNT);
pub(crate) const WORDS: usize = HALVES.div_ceil(64);

/// A set of register halves. It is stored as the non-zero words of a bit set, each with its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<(u8, u64)>);

impl Set {
    fn insert(&mut self, half: usize) {
        let (word, bit) = ((half / 64) as u8, 1 << (half % 64));
        match self.0.iter_mut().find(|(known, _)| *known == word) {
            Some((_, bits)) => *bits |= bit,
            None => self.0.push((word, bit)),
        }
    }

    fn extend(&mut self, other: &Set) {
        for half in other.halves() {
            self.insert(half);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(always)]
    pub(crate) fn intersects(&self, all: &[u64; WORDS]) -> bool {
        self.0.iter().any(|(word, bits)| all[usize::from(*word)] & bits != 0)
    }

    pub(crate) fn add_to(&self, all: &mut [u64; WORDS]) {
        self.0.iter().for_each(|(word, bits)| all[usize::from(*word)] |= bits);
    }

    pub(crate) fn contains(&self, half: usize) -> bool {
        let (word, bit) = ((half / 64) as u8, 1 << (half % 64));
        self.0.iter().any(|(known, bits)| *known == word && bits & bit != 0)
    }

    pub(crate) fn halves(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|(word, bits)| {
            crate::wave::active(*bits).map(|bit| usize::from(*word) * 64 + bit)
        })
    }

    /// Adds the registers of an operand to the set. `which` selects the low halves, the high halves, or both.
    fn add(&mut self, base: &Base, which: &[usize]) {
        let (first, count) = match *base {
            Base::Vector { first, count } => (usize::from(first), count),
            Base::Scalar { first, count } => (usize::from(first) + crate::registers::ROWS, count),
            _ => return,
        };
        for register in first..first + usize::from(count) {
            which.iter().for_each(|half| self.insert(2 * register + half));
        }
    }
}

/// Effect of an instruction on outstanding results, and the registers that it uses.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    /// Registers that the instruction accesses (`touched`), and those of them that it reads (`read`).
    pub(crate) touched: Set,
    pub(crate) read: Set,
    /// True if the instruction also accesses registers in inactive lanes.
    pub(crate) all_lanes: bool,
    pub(crate) raises: Vec<CounterIncrement>,
    /// Counters for which the instruction waits, each with the value for which it waits.
    pub(crate) waits: Vec<(Counter, usize)>,
}

const BOTH: [usize; 2] = [0, 1];

/// Prefixes of instructions that read registers in inactive lanes.
const ALL_LANES: [&str; 9] = [
    "v_readlane",
    "v_readfirstlane",
    "v_mfma_",
    "v_smfmac_",
    "v_wmma_",
    "v_swmmac_",
    "global_load_tr",
    "ds_read_b64_tr_",
    "ds_read_b96_tr_",
];

impl Effect {
    /// Returns the effect of an instruction, or the joint effect of a dual-issue pair.
    pub(crate) fn from_instructions(texts: &[Text], pieces: &[Piece]) -> Effect {
        let mut effect = Effect::default();
        for text in texts {
            let starts = |prefix: &&str| text.mnemonic.starts_with(prefix);
            effect.all_lanes |= ALL_LANES.iter().any(starts);
            // A wait for the maximum value has no effect.
            let waits = waits(text).into_iter();
            effect.waits.extend(waits.filter(|(of, left)| *left < of.capacity(text.site.arch)));
            let (result, stored) = (result(text, pieces), stored_half(text));
            let result = Arc::new(result);
            effect.raises.extend(raises(text, pieces, &result));
            for (index, operand) in text.operands.iter().enumerate() {
                let named = operand.half.then_some(usize::from(operand.high));
                let stored = stored.filter(|(data, _)| *data == index).map(|(_, half)| half);
                let which = named.or(stored).map_or(&BOTH[..], |half| &BOTH[half..=half]);
                let writes = index == 0 && writes_first(text);
                // `result` is more exact than the operand, because a load may write only one half of a register.
                if writes && !result.is_empty() {
                    effect.touched.extend(&result);
                    continue;
                }
                effect.touched.add(&operand.base, which);
                if !writes {
                    effect.read.add(&operand.base, which);
                }
            }
            // The address of an image instruction may be a list of registers, which is not an ordinary operand.
            if text.mnemonic.starts_with("image_") {
                for row in image::rows(text, 1).unwrap_or_default() {
                    let base = Base::Vector { first: row as u16, count: 1 };
                    effect.touched.add(&base, &BOTH);
                    effect.read.add(&base, &BOTH);
                }
            }
            if reads_vcc(text) {
                let vcc = Base::Scalar { first: register::VCC, count: 2 };
                effect.touched.add(&vcc, &BOTH);
                effect.read.add(&vcc, &BOTH);
            }
        }
        effect
    }

    /// Returns true if the instruction neither accesses registers nor waits for or increments a counter.
    pub(crate) fn is_nothing(&self) -> bool {
        self.touched.is_empty() && !self.acts()
    }

    /// Returns true if the instruction increments a counter or waits for one.
    pub(crate) fn acts(&self) -> bool {
        !self.raises.is_empty() || !self.waits.is_empty()
    }
}

/// Returns true if the instruction writes its first operand, even if it also reads this operand.
fn writes_first(text: &Text) -> bool {
    let name = text.mnemonic.as_str();
    let reads = [
        "s_cmp",
        "s_bitcmp",
        "s_setreg",
        "s_setpc",
        "s_set_pc",
        "s_set_gpr",
        "v_cmpx",
        "s_store",
        "s_atc",
    ];
    if reads.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    match name.split_once('_') {
        Some(("v", _)) => true,
        Some(("s", rest)) => {
            text.operands.len() > 1 || rest.starts_with("getpc") || rest.starts_with("get_pc")
        }
        Some(("global" | "flat" | "scratch", rest)) => {
            rest.starts_with("load") && !rest.starts_with("load_lds_")
                || rest.starts_with("atomic") && super::access::returns(text)
        }
        Some(("buffer", rest)) => rest.starts_with("load") && !text.has("lds"),
        Some(("ds", rest)) => gives_back(rest),
        Some(("image", rest)) => {
            let gives = ["load", "sample", "gather4"].iter().any(|start| rest.starts_with(start));
            gives || super::access::returns(text)
        }
        _ => false,
    }
}

fn gives_back(name: &str) -> bool {
    ["read", "load", "bpermute", "permute", "swizzle", "append", "consume"]
        .iter()
        .any(|start| name.starts_with(start))
        || name.contains("_rtn")
}

/// Returns the operand that a store reads only in half: the number of the operand, and 0 for its low half or 1 for its
/// high half. `None` for stores of whole registers. The distinction is necessary because Tensile's kernels store the
/// lower half of a register while a load into the upper half is outstanding.
fn stored_half(text: &Text) -> Option<(usize, usize)> {
    let (kind, rest) = text.mnemonic.split_once('_')?;
    let name = rest.strip_prefix("store_").or(rest.strip_prefix("write_"))?;
    let data = match kind {
        "global" | "flat" | "scratch" | "ds" => 1,
        "buffer" => 0,
        _ => return None,
    };
    match Transfer::parse(name)? {
        Transfer::Words(_) => None,
        Transfer::Bytes { .. } => Some((data, 0)),
        Transfer::Half { high, .. } => Some((data, usize::from(high))),
    }
}

fn reads_vcc(text: &Text) -> bool {
    text.mnemonic.starts_with("s_cbranch_vcc")
        || text.mnemonic.starts_with("v_div_fmas")
        || text.mnemonic == "v_cndmask_b32" && text.operands.len() == 3
}

fn result(text: &Text, pieces: &[Piece]) -> Set {
    let mut set = Set::default();
    let name = text.mnemonic.as_str();
    let Some((kind, rest)) = name.split_once('_') else { return set };
    let first = match kind {
        "global" | "flat" | "scratch" | "ds" | "image" if writes_first(text) => {
            text.operands.first()
        }
        "buffer" if !text.has("lds") => {
            let returns = rest.starts_with("load") || super::access::returns(text);
            text.operands.first().filter(|_| returns)
        }
        "s" if is_scalar_memory(name) && !name.starts_with("s_store") => {
            let returns = !name.starts_with("s_atomic") || super::access::returns(text);
            text.operands.first().filter(|_| returns)
        }
        _ => None,
    };
    let Some(first) = first else { return set };
    let mut base = first.base.clone();
    // The operand of buffer and image atomics contains the comparison value after the registers that receive the old
    // value.
    if let (Base::Vector { count, .. }, Some(piece)) = (&mut base, pieces.first())
        && matches!(kind, "buffer" | "image")
        && piece.kind == Kind::Atomic
    {
        *count = piece.bytes.div_ceil(4) as u16;
    }
    // A load into half a register keeps the other half.
    let which = match Transfer::parse_load(load_name(rest), text.site.arch) {
        Some(Transfer::Half { keep: true, high, .. }) => {
            &BOTH[usize::from(high)..=usize::from(high)]
        }
        _ => &BOTH,
    };
    set.add(&base, which);
    set
}

fn load_name(rest: &str) -> &str {
    rest.strip_prefix("load_").or(rest.strip_prefix("read_")).unwrap_or(rest)
}

/// Returns true if a scalar instruction gets its result from memory, the clock or a message, so that the wave must wait
/// for it.
fn is_scalar_memory(name: &str) -> bool {
    let starts = [
        "s_load_",
        "s_buffer_load_",
        "s_store_",
        "s_atomic_",
        "s_memtime",
        "s_memrealtime",
        "s_sendmsg_rtn",
        "s_get_waveid",
    ];
    starts.iter().any(|start| name.starts_with(start))
}

fn raises(text: &Text, pieces: &[Piece], result: &Arc<Set>) -> Vec<CounterIncrement> {
    let arch = text.site.arch;
    let counters = arch.facts().counters;
    // A load from memory to the LDS has both a load and a store, and is not an atomic.
    let does = |kind| pieces.iter().any(|piece| piece.kind == kind);
    let moves = does(Kind::Load) && does(Kind::Store);
    let raise = |counter: Counter, order, domain| CounterIncrement {
        counter,
        moves,
        name: counter.name(arch),
        capacity: counter.capacity(arch),
        order,
        domain,
        result: result.clone(),
    };
    let name = text.mnemonic.as_str();
    let vector = |domain| {
        // An atomic that returns no value is counted like a store.
        let loads = !result.is_empty() || does(Kind::Load);
        raise(if loads { Counter::Loads } else { of_stores(counters) }, Order::InOrder, domain)
    };
    // Cache instructions have no effect in the interpreter and do not access memory.
    let is_access = !has_no_effect(name);
    let is_sample = ["image_sample", "image_gather4", "image_msaa_load"]
        .iter()
        .any(|start| name.starts_with(start));
    match name.split_once('_') {
        Some(("global" | "scratch" | "buffer", _)) if is_access => vec![vector(Domain::All)],
        Some(("global", "inv")) if counts_caches_and_samples(counters) => {
            vec![raise(Counter::Loads, Order::InOrder, Domain::All)]
        }
        Some(("global", "wb" | "wbinv")) if counts_caches_and_samples(counters) => {
            vec![raise(Counter::Stores, Order::InOrder, Domain::All)]
        }
        Some(("image", _)) if !is_sample || !counts_caches_and_samples(counters) => {
            vec![vector(Domain::All)]
        }
        Some(("flat", _)) if is_access => {
            let order = order_of_flat(counters);
            vec![vector(Domain::Memory), raise(Counter::Local, order, Domain::Lds)]
        }
        // This result and LDS results may arrive in any order (LLVM's SIInsertWaitcnts, `GDS_ACCESS`).
        Some(("ds", rest)) if sync::is_sync(rest) => {
            vec![raise(Counter::Local, Order::Any, Domain::All)]
        }
        Some(("ds", rest)) if rest != "nop" => {
            vec![raise(Counter::Local, Order::InOrder, Domain::All)]
        }
        Some(("s", _)) if is_scalar_memory(name) => {
            vec![raise(of_scalars(counters), Order::Any, Domain::All)]
        }
        _ => Vec::new(),
    }
}

/// Returns the counters for which an instruction waits, each with the value for which it waits.
fn waits(text: &Text) -> Vec<(Counter, usize)> {
    use Counter::{Loads, Local, Scalars, Stores};
    let bits = usize::from(text.site.immediate);
    let field = |low: u32, len: u32| bits >> low & ((1 << len) - 1);
    match text.mnemonic.as_str() {
        "s_waitcnt" => match text.site.arch.facts().counters {
            WaitCounters::Gfx9 => {
                vec![(Loads, field(0, 4) | field(14, 2) << 4), (Local, field(8, 4))]
            }
            WaitCounters::Gfx10 => {
                vec![(Loads, field(0, 4) | field(14, 2) << 4), (Local, field(8, 6))]
            }
            WaitCounters::Gfx11 => vec![(Loads, field(10, 6)), (Local, field(4, 6))],
            WaitCounters::Gfx12 | WaitCounters::Gfx1250 => Vec::new(),
        },
        "s_waitcnt_vmcnt" | "s_wait_loadcnt" => vec![(Loads, bits)],
        "s_waitcnt_vscnt" | "s_wait_storecnt" => vec![(Stores, bits)],
        "s_waitcnt_lgkmcnt" | "s_wait_dscnt" => vec![(Local, bits)],
        "s_wait_kmcnt" => vec![(Scalars, bits)],
        "s_wait_loadcnt_dscnt" => vec![(Loads, field(8, 6)), (Local, field(0, 6))],
        "s_wait_storecnt_dscnt" => vec![(Stores, field(8, 6)), (Local, field(0, 6))],
        "s_wait_idle" => vec![(Loads, 0), (Stores, 0), (Local, 0), (Scalars, 0)],
        _ => Vec::new(),
    }
}

pub(crate) fn register_name(half: usize) -> String {
    let rows = crate::registers::ROWS;
    let accumulation = usize::from(register::ACCUMULATION);
    match half / 2 {
        row if row < accumulation => format!("v{row}"),
        row if row < rows => format!("a{}", row - accumulation),
        scalar => match (scalar - rows) as u16 {
            register::VCC => "vcc_lo".to_owned(),
            scalar if scalar == register::VCC + 1 => "vcc_hi".to_owned(),
            register::M0 => "m0".to_owned(),
            scalar if (register::TTMP..register::M0).contains(&scalar) => {
                format!("ttmp{}", scalar - register::TTMP)
            }
            scalar => format!("s{scalar}"),
        },
    }
}

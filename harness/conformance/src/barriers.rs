//! Finds barriers that a wave can reach while memory operations are outstanding although the barrier must wait for
//! them.
//!
//! `__syncthreads()` is a release fence of workgroup scope, a barrier, and an acquire fence of that scope. If the
//! workgroup may use both compute units of a pair (WGP mode), the release fence waits for all counters, and the acquire
//! fence invalidates the cache of the compute unit (`buffer_gl0_inv`, or `global_inv scope:SCOPE_SE`); see "Memory
//! Model" in LLVM's [AMDGPU usage guide](https://llvm.org/docs/AMDGPUUsage.html). A barrier without fences need not
//! wait for any operation, for example `__builtin_amdgcn_s_barrier()` or a barrier in assembly code.
//!
//! LLVM deletes waits that it considers unnecessary, but it does not delete the invalidation. Therefore, an
//! invalidation directly after a barrier shows that the source code has an acquire fence there, in practice the one of
//! `__syncthreads()`. If an operation is outstanding at the invalidation, the code has not waited for it. There is an
//! exception: a fence that is limited to global memory has the same invalidation and need not wait for the LDS. Other
//! modes and GFX9 have no such invalidation.
//!
//! The analysis follows all paths of the control-flow graph, including those on which conditions contradict each other.
//! Therefore, it may report a kernel although no wave takes the path.

use std::collections::{BTreeMap, BTreeSet};

use device::{Arch, WaitCounters};

use crate::{
    DecodedInstruction,
    barrier_flow::{self, Block, COUNTERS, Step},
    decode_cache::DecodeCache,
    opcode_counter::Decode,
};

// Numbers of counters. Counter 0 counts stores.
const LOADS: usize = 1;
const LOCAL: usize = 2;

/// Kind of a memory operation that other waves of the workgroup can observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryOperation {
    /// Store to global memory, or atomic operation without a result.
    GlobalWrite,
    /// Load from global memory, or atomic operation with a result.
    GlobalRead,
    /// Store to the LDS, or atomic operation.
    LdsWrite,
    /// Load from the LDS.
    LdsRead,
}

impl MemoryOperation {
    /// Returns the name of the kind, for example `global write`.
    pub const fn name(self) -> &'static str {
        match self {
            MemoryOperation::GlobalWrite => "global write",
            MemoryOperation::GlobalRead => "global read",
            MemoryOperation::LdsWrite => "LDS write",
            MemoryOperation::LdsRead => "LDS read",
        }
    }
}

/// A memory operation that is outstanding at a barrier on at least one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outstanding {
    /// Offset of the barrier from the start of the kernel, in bytes.
    pub barrier: u32,
    /// Offset of the operation from the start of the kernel, in bytes.
    pub operation: u32,
    /// Kind of the operation.
    pub kind: MemoryOperation,
}

/// Result for one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelBarriers {
    /// Number of instructions that are reachable from the entry of the kernel.
    pub instructions: usize,
    /// Number of barriers with fences.
    pub fenced: usize,
    /// Number of barriers without fences.
    pub bare: usize,
    /// Operations that are outstanding at a barrier with fences, but only on paths through the back edge of a loop.
    /// LLVM deleted the wait for such an operation before it considered the back edge.
    pub lost: Vec<Outstanding>,
    /// Operations that are outstanding at a barrier with fences, but possibly without an error of the compiler. The
    /// usual reason is inline assembly: the compiler does not know the operations in it.
    pub unexplained: Vec<Outstanding>,
    /// Writes to the LDS that are outstanding at a barrier without fences, but only on paths through the back edge of a
    /// loop.
    pub suspects: Vec<Outstanding>,
    /// Reasons why paths could not be followed, for example `call`. Empty if all paths were followed. Also empty if the
    /// kernel's mode makes fences invisible: the analysis then reports nothing, so unknown paths do not matter.
    pub unknown: BTreeSet<&'static str>,
}

/// Effect of an instruction that matters for the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionEffect {
    Nothing,
    /// An access that increments counters. If `kind` is `Some`, other waves can observe the access.
    Access {
        counters: [bool; COUNTERS],
        kind: Option<MemoryOperation>,
    },
    /// A load to scalar registers. It increments a counter too.
    Scalar,
    /// Waits until at most this many operations of each counter are outstanding; `u8::MAX` does not wait.
    Wait([u8; COUNTERS]),
    Barrier,
    /// Invalidates a cache for the scope of the workgroup.
    InvalidateWorkgroup,
    /// Invalidates caches for a larger scope.
    InvalidateDevice,
}

/// Place where a wave continues after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Jump,
    Branch,
    End,
    Call,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    act: InstructionEffect,
    flow: Flow,
    /// Distance of a branch in dwords, from the end of the instruction.
    distance: i16,
}

/// Instructions with their sizes in bytes, by offset.
type Instructions = BTreeMap<usize, (Class, usize)>;

/// Examines kernels of one architecture.
pub struct BarrierReader<'a> {
    arch: Arch,
    decode: Box<Decode<'a>>,
    cache: DecodeCache<Class>,
}

impl<'a> BarrierReader<'a> {
    /// Returns a reader that decodes instructions with `decode`.
    pub fn new(
        arch: Arch,
        decode: impl FnMut(u64, &[u8]) -> Result<Option<DecodedInstruction>, String> + 'a,
    ) -> BarrierReader<'a> {
        BarrierReader { arch, decode: Box::new(decode), cache: DecodeCache::default() }
    }

    /// Returns true if the code of a kernel contains the encoding of a barrier.
    pub fn has_barrier(&self, code: &[u8]) -> bool {
        contains(code, words(self.arch).0)
    }

    /// Returns true if [`BarrierReader::read`] may find an outstanding operation in this code. The code must contain a
    /// barrier and, on architectures with WGP mode, an invalidation.
    pub fn may_find(&self, code: &[u8]) -> bool {
        let (_, invalidation) = words(self.arch);
        self.has_barrier(code) && invalidation.is_none_or(|word| contains(code, word))
    }

    /// Examines a kernel. `code` starts with the kernel's first instruction. `shares_units` is true for a kernel in WGP
    /// mode.
    ///
    /// # Errors
    /// Fails if the stack has no disassembler for the architecture.
    pub fn read(&mut self, code: &[u8], shares_units: bool) -> Result<KernelBarriers, String> {
        let mut result = KernelBarriers::default();
        let (instructions, leaders) = self.reachable(code, &mut result.unknown)?;
        if !shares_units || words(self.arch).1.is_none() {
            result.unknown.clear();
        }
        result.instructions = instructions.len();
        let starts: Vec<usize> = leaders.into_iter().collect();
        let mut blocks = Vec::new();
        let mut kinds = BTreeMap::new();
        let mut fenced = BTreeSet::new();
        // Operations that the compiler may not know.
        let mut unseen = BTreeSet::new();
        for (number, start) in starts.iter().enumerate() {
            let end = starts.get(number + 1).copied().unwrap_or(code.len());
            let inside: Vec<_> = instructions.range(*start..end).collect();
            let mut block = Block::default();
            // The last barrier, as long as an invalidation that belongs to it may follow.
            let mut open = None;
            for (number, (at, (class, size))) in inside.iter().enumerate() {
                let id = **at as u32;
                let following = inside.get(number + 1).map(|(_, (class, _))| class.act);
                match class.act {
                    InstructionEffect::Nothing
                    | InstructionEffect::Scalar
                    | InstructionEffect::Wait(_) => {}
                    InstructionEffect::InvalidateWorkgroup if shares_units => {
                        if let Some(barrier) = open.take() {
                            block.steps.push(Step::Point(barrier));
                            fenced.insert(barrier);
                        }
                    }
                    InstructionEffect::Access { .. }
                    | InstructionEffect::InvalidateWorkgroup
                    | InstructionEffect::InvalidateDevice => {
                        open = None;
                    }
                    InstructionEffect::Barrier => {
                        open = Some(id);
                        block.steps.push(Step::Point(id | BARE));
                        result.bare += 1;
                    }
                }
                self.add_steps(&mut block.steps, id, class.act);
                if let InstructionEffect::Access { kind: Some(kind), .. } = class.act {
                    kinds.insert(id, kind);
                    // A store with this wait is inline assembly of rocPRIM. The wait was correct before GFX10.
                    let waits_for_loads =
                        matches!(following, Some(InstructionEffect::Wait([u8::MAX, 0, _])));
                    if kind == MemoryOperation::GlobalWrite && waits_for_loads {
                        unseen.insert(id);
                    }
                }
                if class.flow == Flow::Call {
                    block.steps.push(Step::Forget);
                    open = None;
                }
                let next = *at + size;
                let targets = match class.flow {
                    Flow::Next | Flow::Call => vec![next],
                    Flow::Jump => vec![target(next, class.distance)],
                    Flow::Branch => vec![next, target(next, class.distance)],
                    Flow::End | Flow::Unknown => vec![],
                };
                if class.flow != Flow::Next && class.flow != Flow::Call || next == end {
                    let index = |at: &usize| starts.binary_search(at).ok();
                    block.next = targets.iter().filter_map(index).collect();
                }
            }
            blocks.push(block);
        }
        result.fenced = fenced.len();
        result.bare -= fenced.len();
        let back = barrier_flow::back_edges(&blocks);
        let all = barrier_flow::outstanding(&blocks, |_, _| true);
        let straight = barrier_flow::outstanding(&blocks, |at, next| !back.contains(&(at, next)));
        let is_fence = |(point, _): &(&u32, &BTreeSet<u32>)| *point & BARE == 0;
        // An operation that is outstanding even on a path without back edges is one that the compiler does not know.
        unseen.extend(straight.iter().filter(is_fence).flat_map(|(_, operations)| operations));
        for (point, operations) in &all {
            let barrier = point & !BARE;
            for operation in operations {
                let Some(&kind) = kinds.get(operation) else { continue };
                let found = Outstanding { barrier, operation: *operation, kind };
                if point & BARE == 0 {
                    let is_unseen = unseen.contains(operation);
                    (if is_unseen { &mut result.unexplained } else { &mut result.lost })
                        .push(found);
                } else if !fenced.contains(&barrier)
                    && kind == MemoryOperation::LdsWrite
                    && !straight.get(point).is_some_and(|known| known.contains(operation))
                {
                    result.suspects.push(found);
                }
            }
        }
        Ok(result)
    }

    /// Returns the instructions that paths from the entry reach, each with its size in bytes, and the offsets of the
    /// first instructions of blocks.
    fn reachable(
        &mut self,
        code: &[u8],
        unknown: &mut BTreeSet<&'static str>,
    ) -> Result<(Instructions, BTreeSet<usize>), String> {
        let mut instructions = BTreeMap::new();
        let mut leaders = BTreeSet::from([0]);
        let mut todo = vec![0];
        while let Some(mut at) = todo.pop() {
            while !instructions.contains_key(&at) {
                if at >= code.len() {
                    unknown.insert("path leaves the function");
                    break;
                }
                let Some((class, size)) = self.class(&code[at..], at as u64)? else {
                    unknown.insert("bytes that are not an instruction");
                    break;
                };
                instructions.insert(at, (class, size));
                let next = at + size;
                let away = target(next, class.distance);
                match class.flow {
                    Flow::Next => {}
                    Flow::Call => _ = unknown.insert("call"),
                    Flow::Jump | Flow::Branch => {
                        leaders.extend([next, away]);
                        todo.push(away);
                    }
                    Flow::End => _ = leaders.insert(next),
                    Flow::Unknown => {
                        leaders.insert(next);
                        unknown.insert("indirect branch");
                    }
                }
                if matches!(class.flow, Flow::Jump | Flow::End | Flow::Unknown) {
                    break;
                }
                at = next;
            }
        }
        // Only in damaged code, a target can be inside an instruction or outside the function.
        leaders.retain(|at| instructions.contains_key(at));
        Ok((instructions, leaders))
    }

    fn class(&mut self, window: &[u8], at: u64) -> Result<Option<(Class, usize)>, String> {
        let BarrierReader { arch, decode, cache } = self;
        cache.get(window, || {
            let Some(DecodedInstruction { text, size, .. }) = decode(at, window)? else {
                return Ok(None);
            };
            let immediate = match window {
                [low, high, ..] => u16::from_le_bytes([*low, *high]),
                _ => 0,
            };
            let class = Class {
                act: act(*arch, &text, immediate),
                flow: flow(&text),
                distance: immediate as i16,
            };
            Ok(Some((class, size)))
        })
    }

    /// Adds the steps that describe the effect of an instruction on counters.
    fn add_steps(&self, steps: &mut Vec<Step>, id: u32, act: InstructionEffect) {
        let mut issue = |counter, operation| steps.push(Step::Issue { counter, operation });
        match act {
            InstructionEffect::Access { counters, kind } => {
                for counter in (0..COUNTERS).filter(|counter| counters[*counter]) {
                    issue(counter, kind.map(|_| id));
                }
            }
            InstructionEffect::Scalar => issue(LOCAL, None),
            InstructionEffect::InvalidateWorkgroup | InstructionEffect::InvalidateDevice => {
                if counts_caches(self.arch) {
                    issue(LOADS, None);
                }
            }
            InstructionEffect::Wait(left) => {
                let waits = left.into_iter().enumerate().filter(|(_, left)| *left < u8::MAX);
                steps.extend(waits.map(|(counter, left)| Step::Wait { counter, left }));
            }
            InstructionEffect::Nothing | InstructionEffect::Barrier => {}
        }
    }
}

/// Flag in the number of a point. A point with this flag is at a barrier. A point without it is at the invalidation
/// that follows a barrier.
const BARE: u32 = 1 << 31;

/// Returns the target of a branch. If the target is before the start of the code, the result is a number after its end.
fn target(next: usize, distance: i16) -> usize {
    next.wrapping_add_signed(4 * isize::from(distance))
}

/// Returns the first dwords of a barrier and of an invalidation with workgroup scope. The latter is `None` if the
/// architecture has no WGP mode.
fn words(arch: Arch) -> (u32, Option<u32>) {
    match arch.facts().counters {
        WaitCounters::Gfx9 => (0xbf8a_0000, None),
        WaitCounters::Gfx10 => (0xbf8a_0000, Some(0xe1c4_0000)),
        WaitCounters::Gfx11 => (0xbfbd_0000, Some(0xe0ac_0000)),
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => (0xbe80_4ec1, Some(0xee0a_c07c)),
    }
}

fn contains(code: &[u8], word: u32) -> bool {
    code.chunks_exact(4).any(|bytes| bytes == word.to_le_bytes())
}

/// Returns true if cache instructions, for example invalidations, increment a counter.
fn counts_caches(arch: Arch) -> bool {
    match arch.facts().counters {
        WaitCounters::Gfx9 | WaitCounters::Gfx10 | WaitCounters::Gfx11 => false,
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => true,
    }
}

fn flow(text: &str) -> Flow {
    let name = text.split_whitespace().next().unwrap_or_default();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name == "s_branch" {
        Flow::Jump
    } else if starts(&["s_cbranch_cdbg"]) {
        // These instructions branch only if a debugger is attached.
        Flow::Next
    } else if starts(&["s_cbranch_scc", "s_cbranch_vcc", "s_cbranch_exec"]) {
        Flow::Branch
    } else if starts(&["s_endpgm"]) {
        Flow::End
    } else if starts(&["s_swappc", "s_swap_pc", "s_call"]) {
        Flow::Call
    } else if starts(&["s_setpc", "s_set_pc", "s_cbranch", "s_rfe", "s_subvector_loop"]) {
        Flow::Unknown
    } else {
        Flow::Next
    }
}

fn act(arch: Arch, text: &str, immediate: u16) -> InstructionEffect {
    let counters = arch.facts().counters;
    let name = text.split_whitespace().next().unwrap_or_default();
    let Some((family, rest)) = name.split_once('_') else { return InstructionEffect::Nothing };
    match family {
        "s" => scalar(counters, name, text, immediate),
        "ds" => lds(rest, text),
        "global" | "flat" | "scratch" | "buffer" | "tbuffer" | "image" => {
            vector_memory(counters, family, rest, text)
        }
        _ => InstructionEffect::Nothing,
    }
}

fn scalar(counters: WaitCounters, name: &str, text: &str, immediate: u16) -> InstructionEffect {
    const NONE: u8 = u8::MAX;
    let field = |low: u32, len: u32| (immediate >> low & ((1 << len) - 1)) as u8;
    // The largest value of a field means that the instruction does not wait for this counter.
    let most = |left: u8, largest: u8| if left >= largest { NONE } else { left };
    let all = immediate.min(u16::from(NONE)) as u8;
    match name {
        "s_barrier" | "s_barrier_signal" | "s_barrier_signal_isfirst" => InstructionEffect::Barrier,
        "s_waitcnt" => match counters {
            WaitCounters::Gfx9 => {
                let loads = field(0, 4) | field(14, 2) << 4;
                InstructionEffect::Wait([NONE, most(loads, 63), most(field(8, 4), 15)])
            }
            WaitCounters::Gfx10 => {
                let loads = field(0, 4) | field(14, 2) << 4;
                InstructionEffect::Wait([NONE, most(loads, 63), most(field(8, 6), 63)])
            }
            WaitCounters::Gfx11 => {
                InstructionEffect::Wait([NONE, most(field(10, 6), 63), most(field(4, 6), 63)])
            }
            WaitCounters::Gfx12 | WaitCounters::Gfx1250 => InstructionEffect::Nothing,
        },
        // The instruction adds the value of its register operand to the number, unless the operand is `null`. If there
        // is such a register, the analysis assumes that the instruction waits for all operations.
        "s_waitcnt_vscnt" => {
            InstructionEffect::Wait([if text.contains("null") { all } else { 0 }, NONE, NONE])
        }
        "s_waitcnt_vmcnt" => {
            InstructionEffect::Wait([NONE, if text.contains("null") { all } else { 0 }, NONE])
        }
        "s_waitcnt_lgkmcnt" => {
            InstructionEffect::Wait([NONE, NONE, if text.contains("null") { all } else { 0 }])
        }
        "s_wait_storecnt" => InstructionEffect::Wait([all, NONE, NONE]),
        "s_wait_loadcnt" => InstructionEffect::Wait([NONE, all, NONE]),
        "s_wait_dscnt" => InstructionEffect::Wait([NONE, NONE, all]),
        "s_wait_loadcnt_dscnt" => {
            InstructionEffect::Wait([NONE, most(field(8, 6), 63), most(field(0, 6), 63)])
        }
        "s_wait_storecnt_dscnt" => {
            InstructionEffect::Wait([most(field(8, 6), 63), NONE, most(field(0, 6), 63)])
        }
        "s_wait_idle" => InstructionEffect::Wait([0; COUNTERS]),
        _ => {
            let counted = [
                "s_load_",
                "s_buffer_load_",
                "s_scratch_",
                "s_store_",
                "s_buffer_store_",
                "s_atomic_",
                "s_buffer_atomic_",
                "s_memtime",
                "s_memrealtime",
                "s_sendmsg",
            ];
            let is_counted = counted.iter().any(|prefix| name.starts_with(prefix));
            if is_counted && !counts_scalars_apart(counters) {
                InstructionEffect::Scalar
            } else {
                InstructionEffect::Nothing
            }
        }
    }
}

/// Returns true if loads to scalar registers have their own counter.
fn counts_scalars_apart(counters: WaitCounters) -> bool {
    match counters {
        WaitCounters::Gfx9 | WaitCounters::Gfx10 | WaitCounters::Gfx11 => false,
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => true,
    }
}

fn counts_stores_as_loads(counters: WaitCounters) -> bool {
    match counters {
        WaitCounters::Gfx9 => true,
        WaitCounters::Gfx10 | WaitCounters::Gfx11 | WaitCounters::Gfx12 | WaitCounters::Gfx1250 => {
            false
        }
    }
}

/// Returns the effect of a `ds_` instruction. `rest` is its name without `ds_`, and `text` its whole text.
fn lds(rest: &str, text: &str) -> InstructionEffect {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| rest.starts_with(prefix));
    if starts(&["nop", "param_load", "direct_load"]) {
        return InstructionEffect::Nothing;
    }
    // Permutations do not access the LDS. GDS is not limited to the waves of a workgroup.
    let kind = if starts(&["bpermute", "permute", "swizzle", "gws", "append", "consume", "bvh"])
        || text.split_whitespace().any(|word| word == "gds")
    {
        None
    } else if starts(&["read", "load"]) {
        Some(MemoryOperation::LdsRead)
    } else {
        Some(MemoryOperation::LdsWrite)
    };
    InstructionEffect::Access { counters: [false, false, true], kind }
}

/// Returns the effect of a vector memory instruction. `family` is the first part of its name, for example `global`, and
/// `rest` is the part after the family.
fn vector_memory(
    counters: WaitCounters,
    family: &str,
    rest: &str,
    text: &str,
) -> InstructionEffect {
    let is_old = counts_stores_as_loads(counters);
    if rest == "gl0_inv" || rest == "inv" && text.contains("scope:SCOPE_SE") {
        return InstructionEffect::InvalidateWorkgroup;
    }
    if ["gl1_inv", "inv", "wbinvl1", "wbinvl1_vol", "invl2"].contains(&rest) {
        return InstructionEffect::InvalidateDevice;
    }
    if rest.starts_with("wb") {
        return InstructionEffect::Access { counters: [!is_old, is_old, false], kind: None };
    }
    if rest.starts_with("prefetch") {
        return InstructionEffect::Nothing;
    }
    let has = |modifier: &str| text.split_whitespace().any(|word| word == modifier);
    let returns = has("glc") || has("sc0") || text.contains("_RETURN");
    let reads = if rest.starts_with("atomic") { returns } else { !rest.starts_with("store") };
    // Only some families certainly access shared memory. A FLAT instruction may access the LDS, and scratch memory is
    // private. Before GFX11, instructions of the family `buffer` also access scratch memory.
    let is_shared = match family {
        "global" => true,
        "buffer" => match counters {
            WaitCounters::Gfx9 | WaitCounters::Gfx10 => false,
            WaitCounters::Gfx11 | WaitCounters::Gfx12 | WaitCounters::Gfx1250 => true,
        },
        _ => false,
    };
    let kind = if reads { MemoryOperation::GlobalRead } else { MemoryOperation::GlobalWrite };
    let loads = reads || is_old;
    let counters = [!loads, loads, family == "flat"];
    InstructionEffect::Access { counters, kind: is_shared.then_some(kind) }
}

#[cfg(test)]
#[path = "barriers/tests.rs"]
mod tests;

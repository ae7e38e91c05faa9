//! Finds reasons why a run of a kernel does not need one of its waits, barriers or fences. The analysis uses the
//! executed instructions, a model of the counters in the ISA guides ("Data dependency resolution"), and the waits in
//! the text of the instructions.

use std::collections::{BTreeSet, HashMap};

use device::{Arch, ScopeBits, WaitCounters};
use isa::AccessKind;

use crate::trace::{Step, Touched};

/// Steps of a run, in the order in which the instructions were executed.
pub(crate) struct Run<'a> {
    pub(crate) arch: Arch,
    pub(crate) steps: &'a [Step],
    pub(crate) texts: &'a HashMap<u64, String>,
    pub(crate) start: u64,
}

/// Returns the counters that a memory instruction increments.
fn raises(arch: Arch, text: &str) -> Vec<&'static str> {
    let mnemonic = text.split_whitespace().next().unwrap_or_default();
    let (kind, rest) = mnemonic.split_once('_').unwrap_or((mnemonic, ""));
    let (gfx9, gfx12) = match arch.facts().counters {
        WaitCounters::Gfx9 => (true, false),
        WaitCounters::Gfx10 | WaitCounters::Gfx11 => (false, false),
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => (false, true),
    };
    let moves = ["load", "store", "atomic"].iter().any(|what| rest.starts_with(what));
    let gives = rest.starts_with("load")
        || rest.starts_with("atomic")
            && ["glc", "sc0", "TH_ATOMIC_RETURN"].iter().any(|mark| text.contains(mark));
    let vector = match (gives, gfx9, gfx12) {
        (_, true, _) => "vmcnt",
        (true, _, false) => "vmcnt",
        (false, _, false) => "vscnt",
        (true, _, true) => "loadcnt",
        (false, _, true) => "storecnt",
    };
    let local = if gfx12 { "dscnt" } else { "lgkmcnt" };
    match kind {
        "global" | "buffer" | "scratch" if moves => vec![vector],
        "flat" if moves => vec![vector, local],
        "ds" if rest != "nop" => vec![local],
        "s" if ["load_", "buffer_load_", "memtime", "memrealtime", "sendmsg_rtn"]
            .iter()
            .any(|start| rest.starts_with(start)) =>
        {
            vec![if gfx12 { "kmcnt" } else { "lgkmcnt" }]
        }
        _ => Vec::new(),
    }
}

/// Parses a wait. Returns the counters for which it waits, each with the maximum number of results that may stay
/// outstanding.
fn waits(text: &str) -> Vec<(&'static str, usize)> {
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let value = || {
        let last = rest.split([',', ' ']).next_back().unwrap_or_default();
        match last.strip_prefix("0x") {
            Some(hex) => usize::from_str_radix(hex, 16).unwrap_or(usize::MAX),
            None => last.parse().unwrap_or(usize::MAX),
        }
    };
    match mnemonic {
        "s_waitcnt" => ["vmcnt", "lgkmcnt"]
            .into_iter()
            .filter_map(|name| {
                let (_, behind) = rest.split_once(name)?;
                Some((name, behind.strip_prefix('(')?.split(')').next()?.parse().ok()?))
            })
            .collect(),
        "s_waitcnt_vscnt" => vec![("vscnt", value())],
        "s_waitcnt_vmcnt" => vec![("vmcnt", value())],
        "s_waitcnt_lgkmcnt" => vec![("lgkmcnt", value())],
        "s_wait_loadcnt" => vec![("loadcnt", value())],
        "s_wait_storecnt" => vec![("storecnt", value())],
        "s_wait_dscnt" => vec![("dscnt", value())],
        "s_wait_kmcnt" => vec![("kmcnt", value())],
        "s_wait_loadcnt_dscnt" => vec![("loadcnt", value() >> 8), ("dscnt", value() & 63)],
        "s_wait_storecnt_dscnt" => vec![("storecnt", value() >> 8), ("dscnt", value() & 63)],
        _ => Vec::new(),
    }
}

/// Returns true if the result of this instruction may arrive before or after other results of the same counter, in any
/// order. Only a counter value of zero then shows that the result has arrived. This applies to scalar results, and to
/// flat accesses, which may be to memory or to the LDS.
fn in_any_order(text: &str) -> bool {
    text.starts_with("s_") || text.starts_with("flat_")
}

type Register = (char, u16);

/// An access to memory or the LDS: the number of the wave, the number of barriers that the wave had passed, and the
/// accessed bytes.
type Between = (u32, usize, Touched);

fn registers(text: &str) -> BTreeSet<Register> {
    let mut all = BTreeSet::new();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_[:]".contains(c)));
    for word in words {
        if let Some(rest) = word.strip_prefix("vcc") {
            let halves = match rest {
                "_lo" => 0..1,
                "_hi" => 1..2,
                _ => 0..2,
            };
            all.extend(halves.map(|half| ('c', half)));
            continue;
        }
        let mut letters = word.chars();
        let Some(kind) = letters.next().filter(|kind| "vsa".contains(*kind)) else { continue };
        let rest = letters.as_str();
        let pair = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let range = match pair.and_then(|pair| pair.split_once(':')) {
            Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
            None => rest.parse().ok().map(|one: u16| (one, one)),
        };
        if let Some((first, last)) = range {
            all.extend((first..=last).map(|number: u16| (kind, number)));
        }
    }
    all
}

/// Returns the registers that receive the result of a memory instruction; none for a store.
fn result(text: &str) -> BTreeSet<Register> {
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let gives =
        ["load", "read", "bpermute", "permute", "swizzle", "_rtn", "memtime", "memrealtime"];
    let returns = mnemonic.contains("atomic")
        && ["glc", "sc0", "TH_ATOMIC_RETURN"].iter().any(|mark| rest.contains(mark));
    if returns || gives.iter().any(|part| mnemonic.contains(part)) {
        registers(rest.split(", ").next().unwrap_or_default())
    } else {
        BTreeSet::new()
    }
}

pub(super) fn is_barrier(text: &str) -> bool {
    matches!(text.split_whitespace().next(), Some("s_barrier" | "s_barrier_wait"))
}

/// Returns true for instructions that invalidate caches or write them back in order to synchronise workgroups.
pub(crate) fn is_fence(text: &str) -> bool {
    let name = text.split_whitespace().next().unwrap_or_default();
    name.starts_with("buffer_wb")
        || name.starts_with("buffer_inv")
        || name.ends_with("_inv")
        || name == "global_wb"
        || name == "global_wbinv"
}

impl Run<'_> {
    fn text(&self, step: &Step) -> &str {
        self.texts.get(&step.pc).map_or("", String::as_str)
    }

    fn named(&self, step: &Step) -> String {
        format!("`{}` at +{:#x}", self.text(step), step.pc.wrapping_sub(self.start))
    }

    /// Returns the reason why this run does not need the instruction at address `removed`; `None` if the analysis finds
    /// no reason.
    pub(crate) fn reason(&self, removed: u64) -> Option<String> {
        let text = self.texts.get(&removed)?;
        let reasons = if is_barrier(text) {
            self.of_barrier(removed)?
        } else if is_fence(text) {
            self.of_fence(removed)?
        } else {
            self.of_wait(removed, &waits(text))?
        };
        let all: Vec<String> = reasons.into_iter().collect();
        Some(if all.is_empty() {
            "no result is outstanding at the wait".to_owned()
        } else {
            all.join("; ")
        })
    }

    /// Returns the indices of the executed steps, in one list for each wave.
    fn waves(&self) -> Vec<Vec<usize>> {
        let mut all: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            all.entry((step.launch, step.workgroup, step.wave)).or_default().push(at);
        }
        all.into_values().collect()
    }

    fn of_wait(&self, removed: u64, waited: &[(&str, usize)]) -> Option<BTreeSet<String>> {
        let mut reasons = BTreeSet::new();
        for wave in self.waves() {
            // The outstanding results of each counter, as positions in the list of the wave's steps.
            let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
            for (at, index) in wave.iter().enumerate() {
                let step = &self.steps[*index];
                let text = self.text(step);
                if step.pc == removed {
                    for (counter, left) in waited {
                        let queue = open.get(counter).map(Vec::as_slice).unwrap_or_default();
                        for place in self.done(&wave, queue, *left) {
                            reasons.insert(self.is_traced(&wave, place, at, counter, removed)?);
                        }
                    }
                    continue;
                }
                for (counter, left) in waits(text) {
                    let queue = open.entry(counter).or_default();
                    let done = self.done(&wave, queue, left);
                    queue.retain(|place| !done.contains(place));
                }
                for counter in raises(self.arch, text) {
                    open.entry(counter).or_default().push(at);
                }
            }
        }
        Some(reasons)
    }

    /// Returns the entries of `queue` that have arrived after a wait that leaves at most `left` results outstanding.
    /// `queue` contains the outstanding results of one counter, as positions in `wave`.
    fn done(&self, wave: &[usize], queue: &[usize], left: usize) -> Vec<usize> {
        let any = |place: &usize| in_any_order(self.text(&self.steps[wave[*place]]));
        if left == 0 {
            return queue.to_vec();
        }
        let in_turn: Vec<usize> = queue.iter().filter(|place| !any(place)).copied().collect();
        in_turn[..in_turn.len().saturating_sub(left)].to_vec()
    }

    /// Returns the reason why one result did not have to arrive at the removed wait; `None` if the wave uses the result
    /// before a later wait for it. `asked` and `at` are the positions in `wave` of the instruction that requests the
    /// result and of the removed wait.
    fn is_traced(
        &self,
        wave: &[usize],
        asked: usize,
        at: usize,
        counter: &str,
        removed: u64,
    ) -> Option<String> {
        let producer = &self.steps[wave[asked]];
        let text = self.text(producer);
        let result = result(text);
        let goes_elsewhere = text.starts_with("flat_")
            && ["lgkmcnt", "dscnt"].contains(&counter)
            && producer.touched.iter().all(|touched| !touched.local);
        if goes_elsewhere {
            return Some(format!("{} accesses only memory, not the LDS", self.named(producer)));
        }
        let mut behind = wave[asked + 1..=at]
            .iter()
            .filter(|step| raises(self.arch, self.text(&self.steps[**step])).contains(&counter))
            .count();
        let mut others_may_know = false;
        for index in &wave[at + 1..] {
            let step = &self.steps[*index];
            let text = self.text(step);
            if step.pc != removed {
                let is_done = |(other, left): &(&str, usize)| {
                    *other == counter
                        && (*left == 0 || !in_any_order(self.text(producer)) && *left <= behind)
                };
                if waits(text).iter().any(is_done) {
                    if others_may_know && result.is_empty() {
                        return self.others_touch(wave[asked], *index);
                    }
                    let (wait, producer) = (self.named(step), self.named(producer));
                    return Some(format!("{wait} also waits for the result of {producer}"));
                }
            }
            let used = registers(text);
            let runs =
                |(kind, _): &Register| !"va".contains(*kind) || step.lanes & producer.lanes != 0;
            if result.iter().any(|register| used.contains(register) && runs(register)) {
                return None;
            }
            others_may_know |= lets_know(text);
            behind += usize::from(raises(self.arch, text).contains(&counter));
        }
        match (result.is_empty(), others_may_know) {
            (false, _) => Some(format!("the result of {} is not used", self.named(producer))),
            (true, false) => Some(format!(
                "after {}, the wave executes no barrier, store or atomic from which another wave could acquire",
                self.named(producer)
            )),
            (true, true) => self.others_touch(wave[asked], self.steps.len()),
        }
    }

    /// Returns the reason why other waves do not need the wait for the write of step `wrote`: they access the written
    /// bytes only after step `waited`, where the wave waits again, or all accesses may be atomic. `None` if the
    /// analysis finds no such reason.
    fn others_touch(&self, wrote: usize, waited: usize) -> Option<String> {
        let writer = &self.steps[wrote];
        let meets = |step: &&Step| {
            // Before RDNA, all caches are common to the waves of a workgroup. Therefore, these waves also see writes
            // that have not reached memory.
            let shared = !self.arch.facts().has_two_caches && step.is_of_workgroup(writer);
            let near = |touched: &&Touched| {
                if touched.local { step.is_of_workgroup(writer) } else { !shared }
            };
            let mut touched = step.touched.iter().filter(near);
            touched.any(|one| writer.touched.iter().any(|other| one.meets(other)))
        };
        let others = |steps: &[Step]| -> Vec<Step> {
            let of_launch = |step: &&Step| step.launch == writer.launch && !step.is_of(writer);
            steps.iter().filter(of_launch).filter(meets).cloned().collect()
        };
        let name = self.named(writer);
        if others(&self.steps[wrote + 1..]).is_empty() {
            return Some(format!("no other wave accesses the bytes that {name} writes"));
        }
        if others(&self.steps[wrote + 1..waited.max(wrote + 1)]).is_empty() {
            let wait = self.named(&self.steps[waited]);
            return Some(format!(
                "other waves access the bytes that {name} writes only after {wait}"
            ));
        }
        // If all these accesses have the bits of atomics, they need no synchronisation.
        let all = others(self.steps);
        let is_marked = |step: &Step| {
            step.touched.iter().all(|touched| !touched.local)
                && (is_marked(self.text(step)) || !self.text(step).contains("_load_"))
        };
        let says = match self.arch.facts().scope_bits {
            ScopeBits::Sc | ScopeBits::Scope => true,
            ScopeBits::Glc | ScopeBits::GlcDlc => false,
        };
        let may_be_atomic = |text: &str| !says || is_marked_store(text);
        (all.iter().all(is_marked) && may_be_atomic(self.text(writer)))
            .then(|| format!("{name} and all conflicting accesses of other waves may be atomic"))
    }

    /// Returns the reasons why the barrier is not needed; `None` if an access before it conflicts with an access of
    /// another wave after it.
    fn of_barrier(&self, removed: u64) -> Option<BTreeSet<String>> {
        // The number of barriers that each wave has passed, and the removed barriers of each workgroup.
        let mut passed: HashMap<_, usize> = HashMap::new();
        let mut gone: HashMap<_, BTreeSet<usize>> = HashMap::new();
        let mut touches: HashMap<_, Vec<Between>> = HashMap::new();
        for step in self.steps {
            let group = (step.launch, step.workgroup);
            let number = passed.entry((group, step.wave)).or_default();
            if is_barrier(self.text(step)) {
                if step.pc == removed {
                    gone.entry(group).or_default().insert(*number);
                }
                *number += 1;
            }
            let own = step.touched.iter().map(|touched| (step.wave, *number, *touched));
            touches.entry(group).or_default().extend(own);
        }
        for (group, gone) in &gone {
            // If a barrier is removed, the intervals before and after it become one, with the same number.
            let merged = |interval: usize| (0..interval).filter(|n| !gone.contains(n)).count();
            let mut by_byte: HashMap<(bool, u64), Vec<Between>> = HashMap::new();
            let beside = |interval: &usize| {
                gone.contains(interval)
                    || interval.checked_sub(1).is_some_and(|n| gone.contains(&n))
            };
            for touch in touches.get(group)?.iter().filter(|(_, interval, _)| beside(interval)) {
                for byte in touch.2.start / 4..touch.2.end.div_ceil(4) {
                    by_byte.entry((touch.2.local, byte)).or_default().push(*touch);
                }
            }
            for touches in by_byte.values() {
                for (index, (wave, interval, touched)) in touches.iter().enumerate() {
                    let needs = |(other, number, against): &(u32, usize, Touched)| {
                        wave != other
                            && interval != number
                            && merged(*interval) == merged(*number)
                            && touched.meets(against)
                    };
                    if touches[index + 1..].iter().any(needs) {
                        return None;
                    }
                }
            }
        }
        let why =
            "accesses before the barrier do not conflict with accesses of other waves after it";
        Some(BTreeSet::from([why.to_owned()]))
    }

    /// Returns the reasons why a fence is not needed; `None` if another workgroup accesses the same bytes in a way that
    /// needs the fence.
    fn of_fence(&self, removed: u64) -> Option<BTreeSet<String>> {
        let fence = self.texts.get(&removed)?;
        let writes_back = fence.starts_with("buffer_wbl2") || fence.starts_with("global_wb ");
        // Returns true if another workgroup accesses the bytes of `touched` in these steps, and one of the two accesses
        // is a write.
        let foreign = |steps: &[Step], step: &Step, touched: &Touched| {
            steps.iter().any(|other| {
                other.launch == step.launch
                    && other.workgroup != step.workgroup
                    && other.touched.iter().any(|against| !against.local && touched.meets(against))
            })
        };
        if writes_back {
            // For a write-back, the loop checks each write of the wave until the wave executes another write-back.
            for (at, step) in self.steps.iter().enumerate() {
                let own =
                    self.steps[at..].iter().enumerate().filter(|(_, other)| other.is_of(step));
                let mut fences = own.filter(|(_, other)| writes_back_too(self.text(other)));
                let is_plain =
                    self.text(step).contains("_store_") && !self.text(step).contains("sc1");
                let Some((_, first)) = fences.clone().next().filter(|_| is_plain) else { continue };
                let kept = fences.find(|(_, other)| other.pc != removed);
                let end = kept.map_or(self.steps.len(), |(behind, _)| at + behind);
                if self.arch.facts().has_gfx940_instructions
                    && first.pc == removed
                    && step.touched.iter().any(|t| foreign(&self.steps[at..end], step, t))
                {
                    return None;
                }
            }
            let why = if self.arch.facts().has_gfx940_instructions {
                "until the next write-back, no other workgroup accesses the bytes written before this one"
            } else {
                "all workgroups share the cache that the fence writes back"
            };
            return Some(BTreeSet::from([why.to_owned()]));
        }
        for (at, step) in self.steps.iter().enumerate() {
            if is_marked(self.text(step)) {
                continue;
            }
            let reads = step.touched.iter().filter(|t| !t.local && t.kind == AccessKind::Load);
            for read in reads {
                // For an invalidation, the loop checks each read. It considers the steps since the last earlier
                // invalidation that has the same effect and has not been removed. The waves of a workgroup share their
                // caches.
                let before = self.steps[..at].iter().enumerate().rev();
                let own = before.filter(|(_, other)| other.is_of_workgroup(step));
                let mut same = own.filter(|(_, other)| does_as_much(self.text(other), fence));
                let Some((_, last)) = same.clone().next() else { continue };
                let kept = same.find(|(_, other)| other.pc != removed).map_or(0, |(at, _)| at);
                // The removed invalidation matters for this read only if it is the last one before the read.
                if last.pc == removed && foreign(&self.steps[kept..at], step, read) {
                    return None;
                }
            }
        }
        let why = "loads that are not atomic read the bytes that other workgroups write only after \
                   another invalidation, if at all";
        Some(BTreeSet::from([why.to_owned()]))
    }
}

/// Returns true if the fence `text` has at least the effects of the fence `fence`.
fn does_as_much(text: &str, fence: &str) -> bool {
    let name = |text: &str| text.split_whitespace().next().map(str::to_owned);
    let is_wide = ["SCOPE_DEV", "SCOPE_SYS", "sc1"].iter().any(|scope| text.contains(scope));
    text == fence || is_wide && name(text) == name(fence)
}

/// Returns true if the instruction is an atomic, or has the cache bits of atomic and volatile loads.
pub(super) fn is_marked(text: &str) -> bool {
    ["glc", "sc0", "sc1", "scope:", "_atomic_"].iter().any(|mark| text.contains(mark))
}

pub(super) fn is_marked_store(text: &str) -> bool {
    ["sc0", "sc1", "scope:", "_atomic_"].iter().any(|mark| text.contains(mark))
}

/// Returns true if other waves can synchronise with this instruction: a barrier, a store or an atomic.
fn lets_know(text: &str) -> bool {
    let name = text.split_whitespace().next().unwrap_or_default();
    let reads = name.contains("load") || name.contains("read");
    let memory = ["global_", "flat_", "buffer_", "ds_"].iter().any(|start| name.starts_with(start));
    is_barrier(text) || memory && !reads && !is_fence(name)
}

fn writes_back_too(text: &str) -> bool {
    text.starts_with("buffer_wbl2")
}

//! Mutation test of the sanitizer on compiled code. Each mutation removes a wait, a barrier or a fence from a kernel,
//! or changes a load to a store of the same width to the same address.
//!
//! If the sanitizer does not report a mutation, there must be a reason, which an independent analysis of the executed
//! instructions finds ([`reasons`]). If the workgroups of a kernel do not wait for each other, the mutated kernel also
//! runs with results that arrive as late as possible. The sanitizer has missed a mutation if the analysis finds no
//! reason, or if that run computes wrong results.

mod reasons;
mod stores;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use device::Arch;
use isa::{Finding, ListedInstruction};

use crate::{
    checks,
    code_object::CodeObject,
    device_memory::{CheckMode, Device},
    hiprtc, races,
    trace::Step,
};
use reasons::{Run, is_fence};
use stores::Changed;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Reported,
    /// The run that tests the kernel does not execute the mutated instruction.
    NotRun,
    /// The sanitizer need not report the mutation in this run, for a reason that the analysis found.
    Exempt,
    /// The sanitizer missed the mutation. The analysis found no reason, or the kernel computes wrong results when
    /// loaded values arrive late.
    Missed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Wait,
    Barrier,
    Fence,
    /// A load, which the mutation changes to a store.
    Load,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Wait, Kind::Barrier, Kind::Fence, Kind::Load];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Wait => "waits",
            Kind::Barrier => "barriers",
            Kind::Fence => "fences",
            Kind::Load => "loads",
        })
    }
}

/// Number of mutations of each kind, by the result of the test.
#[derive(Default)]
pub(crate) struct Table {
    counts: BTreeMap<(Kind, Fate), usize>,
    one_in: usize,
    /// Number of loads in the kernels, including loads that are not mutated.
    loads: usize,
    /// Errors that the sanitizer reported for unmodified code, and mutations that it missed.
    pub(crate) problems: Vec<String>,
    /// Mutations that the sanitizer need not report, with the reasons.
    exempt: Vec<String>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in Kind::ALL {
            let count = |fate| self.counts.get(&(kind, fate)).copied().unwrap_or(0);
            let all: usize =
                self.counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, n)| n).sum();
            writeln!(
                f,
                "{all} {kind} {}: {} reported, {} exempt, {} not executed, {} missed",
                if kind == Kind::Load { "changed to stores" } else { "removed" },
                count(Fate::Reported),
                count(Fate::Exempt),
                count(Fate::NotRun),
                count(Fate::Missed),
            )?;
        }
        self.exempt.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Table {
    /// Returns true if the sanitizer has reported mutations of each kind.
    pub(crate) fn proves(&self) -> bool {
        let reported = |kind| self.counts.get(&(kind, Fate::Reported)).is_some_and(|n| *n > 0);
        Kind::ALL.into_iter().all(reported)
    }
}

/// Kernels that are not tested. They have intentional errors or execute millions of instructions.
const LEFT_OUT: [&str; 8] =
    ["saxpy fault", "gives_up", "spin", "meets", "looks_back", "meets alone", "lcg", "dynamic"];

type Check<'a> = &'a dyn Fn(&Device) -> Result<(), String>;

/// Tests all kernels, compiled with these optimisation levels. One of every `loads` loads is changed to a store.
pub(crate) fn check(arch: Arch, levels: &[&str], loads: usize) -> Table {
    let mut table = Table { one_in: loads.max(1), ..Table::default() };
    for level in levels {
        let compile = |source| hiprtc::compile(source, arch.name(), &[level]);
        let sources = [include_str!("kernels.hip"), include_str!("races.hip")];
        let [alone, together] = sources.map(compile);
        let (alone, together) = match (alone, together) {
            (Ok(alone), Ok(together)) => (alone, together),
            (Err(error), _) | (_, Err(error)) => {
                table
                    .problems
                    .push(format!("{level}: hipRTC does not compile the kernels: {error}"));
                continue;
            }
        };
        let device = Device::new(arch, CodeObject::load(&alone));
        let image = device.code.image();
        for (kernel, check) in checks::CHECKS {
            if !LEFT_OUT.contains(kernel) {
                let (device, image) = (&device, &image[..]);
                FuzzDriver { device, image, kernel, check, level, late: true }.run(&mut table);
            }
        }
        let device = Device::new(arch, CodeObject::load(&together));
        // A mutated kernel may not terminate, because a wave may wait for a value that no wave writes.
        device.patience.set(Duration::from_secs(1));
        let image = device.code.image();
        // Kernels whose waves synchronise through the LDS are tested in `races` and left out here, because the analysis
        // does not model the order of LDS accesses.
        for kernel in races::right().filter(|kernel| !kernel.starts_with("waves_")) {
            let check = |device: &Device| {
                races::run(device, kernel, 0).and_then(|()| races::run(device, kernel, 1))
            };
            let (device, image) = (&device, &image[..]);
            FuzzDriver { device, image, kernel, check: &check, level, late: false }.run(&mut table);
        }
    }
    table
}

struct FuzzDriver<'a> {
    device: &'a Device,
    /// Contents of the loaded code object before the first launch, including the variables of the module.
    image: &'a [u8],
    kernel: &'a str,
    check: Check<'a>,
    level: &'a str,
    /// True if the kernel also runs in the mode [`CheckMode::Late`]. This requires that its workgroups do not wait for
    /// each other.
    late: bool,
}

struct Taken {
    address: u64,
    size: usize,
    kind: Kind,
    text: String,
    /// Description of the neighbouring instructions of the mutated one, for messages.
    place: String,
}

impl FuzzDriver<'_> {
    fn run(&self, table: &mut Table) {
        let name = format!("{} {} {}", self.device.arch, self.level, self.kernel);
        let clean = self.findings(CheckMode::Traced);
        let trace = self.device.trace.take();
        if !clean.is_empty() {
            let all = clean
                .into_iter()
                .map(|finding| format!("{name}: false report for unmodified code: {finding}"));
            return table.problems.extend(all);
        }
        if self.late
            && let Err(reason) = self.passes(CheckMode::Late)
        {
            return table
                .problems
                .push(format!("{name}: wrong results when loaded values arrive late: {reason}"));
        }
        let (start, places) = self.places();
        let texts: HashMap<u64, String> =
            places.iter().map(|place| (start + place.offset as u64, place.text.clone())).collect();
        for one in taken(start, &places) {
            if one.kind == Kind::Load {
                table.loads += 1;
                if !table.loads.is_multiple_of(table.one_in) {
                    continue;
                }
            }
            let (fate, reason) = self.fate(&one, &trace, &texts, start);
            *table.counts.entry((one.kind, fate)).or_default() += 1;
            let Taken { address, text, place, .. } = one;
            let line = format!("{name}: `{text}` at +{:#x}, {place}: {reason}", address - start);
            match fate {
                Fate::Missed => table.problems.push(line),
                Fate::Exempt => table.exempt.push(line),
                Fate::Reported | Fate::NotRun => {}
            }
        }
    }

    fn findings(&self, look: CheckMode) -> Vec<String> {
        self.device.findings.take();
        let result = self.passes(look);
        told(self.device.findings.take(), result)
    }

    fn passes(&self, look: CheckMode) -> Result<(), String> {
        self.device.look.set(look);
        let result = (self.check)(self.device);
        self.device.look.set(CheckMode::Plain);
        self.device.code.restore(self.image);
        result
    }

    /// Returns the address of the first instruction of the kernel, and all its instructions.
    fn places(&self) -> (u64, Vec<ListedInstruction>) {
        let Some(code) = self.device.code.code(self.kernel) else { return (0, Vec::new()) };
        let bytes = std::ptr::with_exposed_provenance::<u8>(code.start as usize);
        // SAFETY: the code is in the loaded code object of the device, and no kernel runs.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, (code.end - code.start) as usize) };
        let places = isa::listing(self.device.arch, bytes).expect("the stack has a disassembler");
        (code.start, places)
    }

    fn fate(
        &self,
        one: &Taken,
        trace: &[Step],
        texts: &HashMap<u64, String>,
        start: u64,
    ) -> (Fate, String) {
        if one.kind == Kind::Load {
            return self.fate_of_store(one, trace, texts);
        }
        self.take_out(one);
        if !self.findings(CheckMode::Watched).is_empty() {
            return (Fate::Reported, String::new());
        }
        if trace.iter().all(|step| step.pc != one.address) {
            return (Fate::NotRun, String::new());
        }
        if self.late {
            self.take_out(one);
            if let Err(reason) = self.passes(CheckMode::Late) {
                return (
                    Fate::Missed,
                    format!("wrong results when loaded values arrive late: {reason}"),
                );
            }
        }
        let run = Run { arch: self.device.arch, steps: trace, texts, start };
        match run.reason(one.address) {
            Some(reason) => (Fate::Exempt, reason),
            None => (
                Fate::Missed,
                "the analysis found no reason why the instruction is not needed".to_owned(),
            ),
        }
    }

    /// Returns the result of a mutation that changes a load to a store. The mutated kernel computes wrong results in
    /// any case, so they are not checked.
    fn fate_of_store(
        &self,
        one: &Taken,
        trace: &[Step],
        texts: &HashMap<u64, String>,
    ) -> (Fate, String) {
        if trace.iter().all(|step| step.pc != one.address) {
            return (Fate::NotRun, String::new());
        }
        let (arch, old) = (self.device.arch, self.words(one));
        let Some(new) = stores::store_of(arch, &one.text, &old) else {
            return (
                Fate::Missed,
                "the test has no store that corresponds to this load".to_owned(),
            );
        };
        let bytes: Vec<u8> = new.iter().flat_map(|word| word.to_le_bytes()).collect();
        let listed = isa::listing(arch, &bytes).expect("the stack has a disassembler");
        let text = match &listed[..] {
            [one] if one.size == bytes.len() && is_store(&one.text) => one.text.clone(),
            other => {
                return (
                    Fate::Missed,
                    format!("the changed load is disassembled as {other:?} and not as one store"),
                );
            }
        };
        // A wave may wait forever, because it does not receive the value that the load would have read. Therefore the
        // run gets a step limit.
        let mut by_wave: HashMap<_, u64> = HashMap::new();
        trace
            .iter()
            .for_each(|s| *by_wave.entry((s.launch, s.workgroup, s.wave)).or_default() += 1);
        let most = by_wave.values().max().copied().unwrap_or(0);
        let limits = (self.device.step_limit.get(), self.device.patience.get());
        self.device.step_limit.set(4 * most + 1000);
        self.device.patience.set(Duration::from_millis(500));
        self.write(one.address, &new);
        self.device.findings.take();
        self.device.trapped.take();
        // Wrong results do not mean that the sanitizer reported the mutation, so they are ignored here.
        let _ = self.passes(CheckMode::Traced);
        let reported = !self.device.findings.take().is_empty() || self.device.trapped.take();
        let steps = self.device.trace.take();
        self.device.step_limit.set(limits.0);
        self.device.patience.set(limits.1);
        if reported {
            return (Fate::Reported, String::new());
        }
        let mut texts = texts.clone();
        texts.insert(one.address, text);
        let changed = Changed { arch, steps: &steps, texts: &texts };
        match changed.reason(one.address) {
            Ok(reason) => (Fate::Exempt, reason),
            Err(reason) => (Fate::Missed, format!("after the change to a store: {reason}")),
        }
    }

    fn words(&self, one: &Taken) -> Vec<u32> {
        let at = |word| std::ptr::with_exposed_provenance::<u32>(one.address as usize + 4 * word);
        // SAFETY: the dwords are in the loaded code object of the device, and no kernel runs.
        (0..one.size / 4).map(|word| unsafe { at(word).read() }).collect()
    }

    /// Overwrites the code at an address. The change remains until the code object is restored.
    fn write(&self, address: u64, words: &[u32]) {
        for (place, word) in words.iter().enumerate() {
            let at = std::ptr::with_exposed_provenance_mut::<u32>(address as usize + 4 * place);
            // SAFETY: the dword is in the loaded code object of the device, and no kernel runs.
            unsafe { at.write(*word) };
        }
    }

    /// Replaces an instruction with `s_nop` until the code object is restored.
    fn take_out(&self, one: &Taken) {
        self.write(one.address, &vec![S_NOP; one.size / 4]);
    }
}

fn is_store(text: &str) -> bool {
    let mnemonic = text.split_whitespace().next().unwrap_or_default();
    mnemonic.contains("_store_") || mnemonic.starts_with("ds_write")
}

/// Returns the instructions of the code that a mutation can change: waits, barriers, fences and loads.
fn taken(start: u64, places: &[ListedInstruction]) -> Vec<Taken> {
    let kind = |text: &str| {
        let name = text.split_whitespace().next().unwrap_or_default();
        let waits = ["s_waitcnt", "s_wait_"].iter().any(|start| name.starts_with(start));
        let other = ["s_waitcnt_depctr", "s_wait_alu", "s_wait_event", "s_waitcnt_expcnt"];
        match name {
            "s_barrier" | "s_barrier_wait" => Some(Kind::Barrier),
            _ if waits && !other.contains(&name) => Some(Kind::Wait),
            _ if is_fence(name) => Some(Kind::Fence),
            _ if stores::is_load(text) => Some(Kind::Load),
            _ => None,
        }
    };
    let text = |index: usize| places.get(index).map_or("nothing", |place| &place.text);
    let one = |(index, place): (usize, &ListedInstruction)| {
        Some(Taken {
            address: start + place.offset as u64,
            size: place.size,
            kind: kind(&place.text)?,
            text: place.text.clone(),
            place: format!("between `{}` and `{}`", text(index.wrapping_sub(1)), text(index + 1)),
        })
    };
    places.iter().enumerate().filter_map(one).collect()
}

fn told(found: Vec<Finding>, result: Result<(), String>) -> Vec<String> {
    let wrong = result.err().filter(|_| found.is_empty());
    found.iter().map(ToString::to_string).chain(wrong).collect()
}

const S_NOP: u32 = 0xbf80_0000;

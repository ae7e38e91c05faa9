//! What the sanitizer says of real code with one wait or barrier less: of each kernel each is taken out once.
//!
//! A second hand judges what is not reported: the same code with results that come as late as may be. Where the numbers are
//! wrong then, the sanitizer missed something.

use std::{collections::BTreeMap, fmt};

use device::Arch;
use isa::{Finding, Place};

use crate::{
    checks::{self, Check},
    code_object::CodeObject,
    device_memory::{Device, Look},
    hiprtc,
};

/// What becomes of code without one of its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Reported,
    /// The check of the kernel does not come by.
    NotRun,
    /// Another wait does the same: with both taken out, there is a report that neither gives alone.
    Covered,
    /// It waits for stores alone, which no register shows.
    Stores,
    /// Nothing that it waits for is used: the numbers are right however late results come.
    Unused,
    /// The numbers are wrong where results come late, and nothing was reported.
    Missed,
}

/// How many of each, by kind.
#[derive(Default)]
pub(crate) struct Table {
    counts: BTreeMap<(&'static str, Fate), usize>,
    /// What is reported of code that is as the compiler made it, what was missed, and what is exempted, one by one.
    pub(crate) problems: Vec<String>,
    exempted: Vec<String>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in ["wait", "barrier"] {
            let count = |fate| self.counts.get(&(kind, fate)).copied().unwrap_or(0);
            let all: usize =
                self.counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, n)| n).sum();
            writeln!(
                f,
                "{all} {kind}s taken out: {} reported, {} covered by another, {} for stores alone, {} for nothing that is \
                 used, {} not run, {} missed",
                count(Fate::Reported),
                count(Fate::Covered),
                count(Fate::Stores),
                count(Fate::Unused),
                count(Fate::NotRun),
                count(Fate::Missed),
            )?;
        }
        self.exempted.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Table {
    /// Whether anything was taken out and reported.
    pub(crate) fn proves(&self) -> bool {
        self.counts.get(&("wait", Fate::Reported)).is_some_and(|count| *count > 0)
    }
}

/// Checks of mistakes, which the sanitizer reports, and some of millions of instructions.
const LEFT_OUT: [&str; 8] =
    ["saxpy fault", "gives_up", "spin", "meets", "looks_back", "meets alone", "lcg", "dynamic"];

/// All kernels, compiled at these levels.
pub(crate) fn check(arch: Arch, levels: &[&str]) -> Table {
    let mut table = Table::default();
    for level in levels {
        match hiprtc::compile(include_str!("kernels.hip"), arch.name(), &[level]) {
            Ok(code) => {
                let device = Device::new(arch, CodeObject::load(&code));
                let image = device.code.image();
                for (kernel, check) in checks::CHECKS {
                    if !LEFT_OUT.contains(kernel) {
                        let bench =
                            Bench { device: &device, image: &image, kernel, check: *check, level };
                        bench.run(&mut table);
                    }
                }
            }
            Err(error) => table.problems.push(format!("{level}: does not compile: {error}")),
        }
    }
    table
}

struct Bench<'a> {
    device: &'a Device,
    /// As it was loaded, with the variables of the module.
    image: &'a [u8],
    kernel: &'a str,
    check: Check,
    level: &'a str,
}

/// An instruction that is taken out.
struct Taken {
    address: u64,
    text: String,
    /// What stands before and behind it.
    place: String,
}

impl Bench<'_> {
    fn run(&self, table: &mut Table) {
        let name = format!("{} {} {}", self.device.arch, self.level, self.kernel);
        let clean = self.findings();
        if !clean.is_empty() {
            let all = clean.into_iter().map(|finding| format!("{name}: false alarm: {finding}"));
            return table.problems.extend(all);
        }
        if let Err(reason) = self.passes(Look::Late) {
            return table.problems.push(format!("{name}: wrong where results come late: {reason}"));
        }
        let taken = self.taken();
        for (index, one) in taken.iter().enumerate() {
            let kind = if one.text.starts_with("s_barrier") { "barrier" } else { "wait" };
            let fate = self.fate(&taken, index);
            *table.counts.entry((kind, fate)).or_default() += 1;
            let start = self.device.code.code(self.kernel).map_or(0, |code| code.start);
            let Taken { address, text, place } = one;
            let line = format!("{name}: {fate:?}: `{text}` at +{:#x}, {place}", address - start);
            match fate {
                Fate::Missed => table.problems.push(line),
                Fate::Unused => table.exempted.push(line),
                _ => {}
            }
        }
    }

    /// What the sanitizer says of the code as it is.
    fn findings(&self) -> Vec<String> {
        self.device.findings.take();
        let result = self.passes(Look::Watched);
        told(self.device.findings.take(), result)
    }

    fn passes(&self, look: Look) -> Result<(), String> {
        self.device.look.set(look);
        let result = (self.check)(self.device);
        self.device.look.set(Look::Plain);
        self.device.code.restore(self.image);
        result
    }

    /// The waits and barriers of the kernel.
    fn taken(&self) -> Vec<Taken> {
        let Some(code) = self.device.code.code(self.kernel) else { return Vec::new() };
        let bytes = std::ptr::with_exposed_provenance::<u8>(code.start as usize);
        // SAFETY: the code lies in the image that the device holds, and no kernel runs.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, (code.end - code.start) as usize) };
        let places = isa::listing(self.device.arch, bytes).expect("the stack has a disassembler");
        let is_taken = |(_, place): &(usize, &Place)| {
            let waits = ["s_waitcnt", "s_wait_"].iter().any(|start| place.text.starts_with(start));
            let other = ["s_waitcnt_depctr", "s_wait_alu", "s_wait_event", "s_waitcnt_expcnt"];
            let other = other.iter().any(|start| place.text.starts_with(start));
            let barrier = ["s_barrier", "s_barrier_wait"]
                .iter()
                .any(|name| place.text.split_whitespace().next() == Some(*name));
            waits && !other || barrier
        };
        let text = |index: usize| places.get(index).map_or("nothing", |place| &place.text);
        let taken = places.iter().enumerate().filter(is_taken).map(|(index, place)| Taken {
            address: code.start + place.offset as u64,
            text: place.text.clone(),
            place: format!("between `{}` and `{}`", text(index.wrapping_sub(1)), text(index + 1)),
        });
        taken.collect()
    }

    fn fate(&self, taken: &[Taken], index: usize) -> Fate {
        let one = &taken[index];
        let alone = self.without(&[one]);
        if !alone.is_empty() {
            return Fate::Reported;
        }
        if !self.comes_by(one) {
            return Fate::NotRun;
        }
        if self.with(&[one], S_NOP, Look::Late).is_err() {
            return Fate::Missed;
        }
        let beside = |other: &&Taken| other.address != one.address;
        let near = index.saturating_sub(3)..taken.len().min(index + 6);
        let covered = taken[near].iter().filter(beside).any(|other| {
            let both = self.without(&[one, other]);
            let other = self.without(&[other]);
            both.iter().any(|finding| !other.contains(finding))
        });
        let stores = ["vscnt", "storecnt"].iter().any(|counter| one.text.contains(counter));
        match (covered, stores) {
            (true, _) => Fate::Covered,
            (false, true) => Fate::Stores,
            (false, false) => Fate::Unused,
        }
    }

    /// What is found without these.
    fn without(&self, taken: &[&Taken]) -> Vec<String> {
        self.device.findings.take();
        let result = self.with(taken, S_NOP, Look::Watched);
        told(self.device.findings.take(), result)
    }

    /// Runs the check with another instruction in place of these.
    fn with(&self, taken: &[&Taken], by: u32, look: Look) -> Result<(), String> {
        for one in taken {
            let at = std::ptr::with_exposed_provenance_mut::<u32>(one.address as usize);
            // SAFETY: a dword of the image that the device holds, of which no kernel runs.
            unsafe { at.write(by) };
        }
        // What stood there comes back with the rest of the image.
        self.passes(look)
    }

    /// Whether the check executes it.
    fn comes_by(&self, one: &Taken) -> bool {
        let trap = match self.device.arch {
            Arch::Gfx906 | Arch::Gfx90a | Arch::Gfx942 | Arch::Gfx1030 => 0xbf92_0002,
            Arch::Gfx1100 | Arch::Gfx1151 | Arch::Gfx1201 => 0xbf90_0002,
        };
        self.with(&[one], trap, Look::Plain).is_err()
    }
}

fn told(found: Vec<Finding>, result: Result<(), String>) -> Vec<String> {
    let wrong = result.err().filter(|_| found.is_empty());
    found.iter().map(ToString::to_string).chain(wrong).collect()
}

const S_NOP: u32 = 0xbf80_0000;

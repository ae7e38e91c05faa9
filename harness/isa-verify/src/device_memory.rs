//! Buffers and kernel launches without an HSA runtime.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::{ControlFlow, Range},
    sync::Mutex,
    time::Duration,
};

use device::Arch;
use isa::{
    AccessKind, AddressSpace, DEFAULT_STEP_LIMIT, Executed, Executing, Finding, Launch, Trap,
    TurnLength, Unordered,
};

use crate::{
    code_object::CodeObject,
    trace::{Step, Touched},
};

/// Address ranges that a kernel may access: the buffers and the code.
#[derive(Default)]
pub(crate) struct TestMemory {
    ranges: Vec<Range<u64>>,
    watched: bool,
    findings: Mutex<Vec<Finding>>,
    /// Number of the launch, and the recorded steps of its waves. A step is one executed instruction. `None` if no
    /// trace is recorded.
    trace: Option<(usize, Mutex<Vec<Step>>)>,
}

impl TestMemory {
    /// Returns the dword of memory at address `4 * word`, preceded by `word`; `None` if this dword is not mapped.
    fn held(&self, word: u64) -> Option<(u64, u32)> {
        self.range(4 * word).filter(|all| all.end >= 4 * word + 4)?;
        let at = std::ptr::with_exposed_provenance::<u32>(4 * word as usize);
        // SAFETY: the dword is aligned and in a mapped range, and the launch has only this thread.
        Some((word, unsafe { at.read() }))
    }
}

// SAFETY: the creator of a `TestMemory` keeps the buffers until the end of the launch, and nothing else accesses them
// until then.
unsafe impl AddressSpace for TestMemory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.ranges.iter().find(|range| range.contains(&address)).cloned()
    }

    fn is_watched(&self) -> bool {
        self.watched
    }

    fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    fn trace_instruction(&self, executing: &Executing<'_>) {
        if let Some((launch, trace)) = &self.trace {
            trace.lock().expect("not poisoned").push(Step::new(*launch, executing));
        }
    }

    fn touch(&self, kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
        if let Some((_, trace)) = &self.trace
            && let Some(step) = trace.lock().expect("not poisoned").last_mut()
        {
            let Range { start, end } = range;
            step.touched.push(Touched { local: false, kind, start, end, value: None });
            step.held.extend((start / 4..end.div_ceil(4)).filter_map(|word| self.held(word)));
        }
        Ok(())
    }

    fn found(&self, finding: &Finding) -> ControlFlow<()> {
        self.findings.lock().expect("not poisoned").push(finding.clone());
        ControlFlow::Continue(())
    }
}

/// Observation mode of a device's launches: plain, with the sanitizer, with the sanitizer and a trace, or with late
/// results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CheckMode {
    #[default]
    Plain,
    Watched,
    /// Launches run with the sanitizer, and the device records each executed instruction.
    Traced,
    /// Launches deliver the result of each load as late as hardware may deliver it.
    Late,
}

#[derive(Clone, Copy)]
pub(crate) enum Argument {
    Word(u32),
    Double(u64),
}

impl From<u32> for Argument {
    fn from(value: u32) -> Self {
        Argument::Word(value)
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Self {
        Argument::Word(value.to_bits())
    }
}

impl From<f64> for Argument {
    fn from(value: f64) -> Self {
        Argument::Double(value.to_bits())
    }
}

impl<T> From<&mut Vec<T>> for Argument {
    fn from(buffer: &mut Vec<T>) -> Self {
        Argument::Double(buffer.as_mut_ptr().expose_provenance() as u64)
    }
}

/// A loaded code object, and the settings and findings of its launches.
pub(crate) struct Device {
    pub(crate) arch: Arch,
    pub(crate) code: CodeObject,
    pub(crate) executed: RefCell<Executed>,
    pub(crate) step_limit: Cell<u64>,
    pub(crate) patience: Cell<Duration>,
    pub(crate) look: Cell<CheckMode>,
    /// Recorded steps (executed instructions) of all launches; empty if no trace is recorded.
    pub(crate) trace: RefCell<Vec<Step>>,
    pub(crate) launches: Cell<usize>,
    /// True if at least one launch ended with a trap.
    pub(crate) trapped: Cell<bool>,
    /// Findings of the sanitizer in all launches.
    pub(crate) findings: RefCell<Vec<Finding>>,
}

pub(crate) fn mapped<T>(buffer: &[T]) -> Range<u64> {
    let start = buffer.as_ptr().addr() as u64;
    start..start + size_of_val(buffer) as u64
}

impl Device {
    pub(crate) fn new(arch: Arch, code: CodeObject) -> Device {
        Device {
            arch,
            code,
            executed: RefCell::default(),
            step_limit: Cell::new(DEFAULT_STEP_LIMIT),
            patience: Cell::new(Duration::from_secs(60)),
            look: Cell::default(),
            trace: RefCell::default(),
            launches: Cell::default(),
            trapped: Cell::default(),
            findings: RefCell::default(),
        }
    }

    /// Launches a kernel with `groups` workgroups. The arguments have the layout of C and are followed by the hidden
    /// arguments that the version of the code object requires (AMDGPU usage guide, "Code Object Metadata").
    pub(crate) fn launch(
        &self,
        name: &str,
        groups: [u32; 3],
        workgroup: [u32; 3],
        dynamic_lds: u32,
        arguments: &[Argument],
        ranges: &[Range<u64>],
    ) -> Result<(), Trap> {
        let descriptor = self
            .code
            .kernel(name)
            .unwrap_or_else(|| panic!("the code object has no kernel `{name}`"));
        let mut kernarg = Vec::new();
        for argument in arguments {
            match argument {
                Argument::Word(value) => kernarg.extend(value.to_le_bytes()),
                Argument::Double(value) => {
                    kernarg.resize(kernarg.len().next_multiple_of(8), 0);
                    kernarg.extend(value.to_le_bytes());
                }
            }
        }
        let hidden = kernarg.len().next_multiple_of(8);
        kernarg.resize(hidden + 256, 0);
        if self.code.version >= 5 {
            for axis in 0..3 {
                kernarg[hidden + axis * 4..][..4].copy_from_slice(&groups[axis].to_le_bytes());
                let size = (workgroup[axis] as u16).to_le_bytes();
                kernarg[hidden + 12 + axis * 2..][..2].copy_from_slice(&size);
            }
            kernarg[hidden + 64] = 3;
        }
        let grid = [0, 1, 2].map(|axis| groups[axis] * workgroup[axis]);
        let mut packet = [0u8; 64];
        for axis in 0..3 {
            packet[4 + axis * 2..][..2].copy_from_slice(&(workgroup[axis] as u16).to_le_bytes());
            packet[12 + axis * 4..][..4].copy_from_slice(&grid[axis].to_le_bytes());
        }
        // SAFETY: the 64 bytes of the descriptor are in the loaded code object.
        let [lds, scratch] =
            unsafe { std::ptr::with_exposed_provenance::<[u32; 2]>(descriptor as usize).read() };
        let queue = [0u8; 256];
        self.launches.set(self.launches.get() + 1);
        let look = self.look.get();
        let mut space = TestMemory {
            watched: [CheckMode::Watched, CheckMode::Traced].contains(&look),
            trace: (look == CheckMode::Traced).then(|| (self.launches.get(), Mutex::default())),
            ..TestMemory::default()
        };
        space.ranges.extend_from_slice(ranges);
        space.ranges.extend([self.code.range(), mapped(&kernarg), mapped(&packet), mapped(&queue)]);
        let sync = isa::WaveSync::default();
        let launch = Launch {
            sync: Some(&sync),
            kernel_name: name,
            descriptor,
            packet: mapped(&packet).start,
            queue: mapped(&queue).start,
            kernarg: mapped(&kernarg).start,
            grid,
            workgroup,
            group_segment_bytes: lds + dynamic_lds,
            // The descriptor omits the scratch memory that recursive functions need.
            private_segment_bytes: scratch.max(16 << 10),
            arch: self.arch,
            step_limit: self.step_limit.get(),
            threads: 1,
            turns: TurnLength::default(),
            room: 16,
            patience: self.patience.get(),
            late_results: self.look.get() == CheckMode::Late,
        };
        let executed = isa::launch(&launch, &space);
        if let Some((launch, trace)) = &space.trace {
            let steps = std::mem::take(&mut *trace.lock().expect("not poisoned"));
            let words: BTreeSet<u64> =
                steps.iter().flat_map(|step| &step.held).map(|(word, _)| *word).collect();
            let last = Step::end(*launch, words.into_iter().filter_map(|word| space.held(word)));
            self.trace.borrow_mut().extend(steps.into_iter().chain([last]));
        }
        self.findings.borrow_mut().extend(space.findings.into_inner().expect("not poisoned"));
        self.trapped.set(self.trapped.get() || executed.is_err());
        let executed = executed?;
        self.executed.borrow_mut().instructions += executed.instructions;
        self.executed.borrow_mut().waves += executed.waves;
        Ok(())
    }
}

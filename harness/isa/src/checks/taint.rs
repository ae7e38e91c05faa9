//! Records which registers and LDS bytes contain uninitialised data.

use std::{collections::HashMap, sync::Arc};

use super::flow::{Flow, Register, Rule};
use crate::{registers::ROWS, text::register, wave::Wave};

/// State of a scalar register or of a byte in the LDS. 0 means initialised. Any other value contains the number of an
/// [`Origin`] plus one, and a flag that is set if the data was computed from uninitialised data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark(u32);

const COMPUTED: u32 = 1 << 31;

impl Mark {
    pub(crate) fn new(origin: u32, computed: bool) -> Mark {
        Mark((origin + 1) | if computed { COMPUTED } else { 0 })
    }

    pub(crate) fn is_clean(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn computed(self) -> bool {
        self.0 & COMPUTED != 0
    }

    pub(crate) fn origin(self) -> Option<u32> {
        (self.0 & !COMPUTED).checked_sub(1)
    }

    pub(crate) fn after_computing(self) -> Mark {
        if self.is_clean() { self } else { Mark(self.0 | COMPUTED) }
    }
}

/// State of a vector register: the lanes with uninitialised data, the lanes whose data was computed from uninitialised
/// data, and the origin of that data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) never_written: u64,
    pub(crate) computed: u64,
    pub(crate) origin: u32,
}

impl Lanes {
    fn from_mark(mark: Mark) -> Lanes {
        match mark.origin() {
            None => Lanes::default(),
            Some(origin) => {
                let computed = if mark.computed() { u64::MAX } else { 0 };
                Lanes { never_written: u64::MAX, computed, origin }
            }
        }
    }

    pub(crate) fn only(self, mask: u64) -> Lanes {
        Lanes {
            never_written: self.never_written & mask,
            computed: self.computed & mask,
            origin: self.origin,
        }
    }

    pub(crate) fn or(self, other: Lanes) -> Lanes {
        let origin = if self.never_written == 0 { other.origin } else { self.origin };
        Lanes {
            never_written: self.never_written | other.never_written,
            computed: self.computed | other.computed,
            origin,
        }
    }

    fn after_computing(self) -> Lanes {
        Lanes { computed: self.never_written, ..self }
    }
}

/// Instruction that has read uninitialised memory.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(crate) pc: u64,
    pub text: Arc<str>,
    /// Address from which the first affected lane read.
    pub address: u64,
}

/// All instructions of the launch that have read uninitialised memory.
#[derive(Default)]
pub(crate) struct Origins {
    list: Vec<Origin>,
    by_pc: HashMap<u64, u32>,
}

impl Origins {
    pub(crate) fn number(&mut self, pc: u64, text: &Arc<str>, address: u64) -> u32 {
        *self.by_pc.entry(pc).or_insert_with(|| {
            self.list.push(Origin { pc, text: text.clone(), address });
            self.list.len() as u32 - 1
        })
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Origin> {
        self.list.get(number as usize)
    }
}

pub(crate) struct Registers {
    rows: Vec<Lanes>,
    scalars: [Mark; register::COUNT],
    /// Number of registers that contain uninitialised data.
    marked: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum Change {
    Row(usize, Lanes),
    Scalar(u16, Mark),
    /// All registers are marked as initialised.
    Forget,
}

impl Default for Registers {
    fn default() -> Registers {
        let rows = vec![Lanes::default(); ROWS];
        Registers { rows, scalars: [Mark::default(); register::COUNT], marked: 0 }
    }
}

impl Registers {
    pub(crate) fn are_clean(&self) -> bool {
        self.marked == 0
    }

    pub(crate) fn clean(&mut self) {
        if self.marked != 0 {
            *self = Registers::default();
        }
    }

    pub(crate) fn row(&self, row: usize) -> Lanes {
        self.rows[row]
    }

    pub(crate) fn scalar(&self, scalar: u16) -> Mark {
        self.scalars[usize::from(scalar)]
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Row(row, lanes) => {
                let old = std::mem::replace(&mut self.rows[row], lanes);
                self.marked += usize::from(lanes.never_written != 0);
                self.marked -= usize::from(old.never_written != 0);
            }
            Change::Scalar(scalar, mark) => {
                let old = std::mem::replace(&mut self.scalars[usize::from(scalar)], mark);
                self.marked += usize::from(!mark.is_clean());
                self.marked -= usize::from(!old.is_clean());
            }
            Change::Forget => self.clean(),
        }
    }

    /// Returns the state of a register. A scalar register has the same state in all lanes.
    pub(crate) fn lanes(&self, register: Register) -> Lanes {
        match register {
            Register::Row(row) => self.rows[row],
            Register::Scalar(scalar) => Lanes::from_mark(self.scalar(scalar)),
        }
    }

    fn any(&self, operand: &[Register]) -> Lanes {
        operand.iter().fold(Lanes::default(), |all, register| all.or(self.lanes(*register)))
    }

    /// Returns the state of the first operand that is uninitialised as a whole: all its registers are uninitialised in
    /// all active lanes. Returns `None` if the instruction has no such operand, or if no lane is active.
    pub(crate) fn everywhere(&self, sources: &[Vec<Register>], exec: u64) -> Option<Lanes> {
        let whole = |operand: &&Vec<Register>| {
            !operand.is_empty()
                && operand.iter().all(|r| self.lanes(*r).never_written & exec == exec)
        };
        sources.iter().find(whole).filter(|_| exec != 0).map(|operand| self.any(operand))
    }

    /// Computes which data will be uninitialised in the registers that an instruction writes. Called before the
    /// instruction runs.
    pub(crate) fn changes(&self, flow: &Flow, wave: &Wave, changes: &mut Vec<Change>) {
        let exec = wave.exec();
        let sources = &flow.sources;
        let all = || sources.iter().fold(Lanes::default(), |all, s| all.or(self.any(s)));
        let source = |operand: usize, index: usize| {
            let registers = sources.get(operand).map_or(&[][..], Vec::as_slice);
            registers.get(index).map_or_else(Lanes::default, |register| self.lanes(*register))
        };
        for (index, target) in flow.targets.iter().enumerate() {
            let result = match flow.rule {
                Rule::Forget | Rule::Control => Lanes::default(),
                Rule::Copy => source(0, index),
                Rule::Swap => {
                    self.lanes(flow.targets[(index + flow.targets.len() / 2) % flow.targets.len()])
                }
                Rule::Compute => all().after_computing(),
                Rule::Bits => {
                    let exec = |r: &Register| *r != Register::Scalar(register::EXEC);
                    let parts = sources.iter().filter(|s| s.iter().all(exec));
                    let common =
                        parts.map(|s| self.any(s).never_written).reduce(|a, b| a & b).unwrap_or(0);
                    all().only(common)
                }
                Rule::Select { mask } => {
                    let chosen = wave.mask(mask);
                    let by = Lanes::from_mark(self.scalar(mask)).after_computing();
                    source(1, index).only(chosen).or(source(0, index).only(!chosen)).or(by)
                }
                Rule::SelectScalar => source(usize::from(!wave.scc()), index),
                Rule::Across { computes } => match self.everywhere(sources, exec) {
                    None => Lanes::default(),
                    Some(found) => {
                        let all = Lanes { never_written: u64::MAX, ..found };
                        if computes { all.after_computing() } else { all }
                    }
                },
            };
            changes.push(match *target {
                Register::Row(row) => {
                    Change::Row(row, self.rows[row].only(!exec).or(result.only(exec)))
                }
                Register::Scalar(scalar) if result.never_written == 0 => {
                    Change::Scalar(scalar, Mark::default())
                }
                Register::Scalar(scalar) => {
                    let mark = Mark::new(result.origin, result.computed != 0);
                    Change::Scalar(scalar, mark)
                }
            });
        }
        if flow.rule == Rule::Forget {
            changes.push(Change::Forget);
        }
        // A scalar instruction that is not a comparison writes at most a carry to SCC. That carry is treated as
        // initialised.
        let scc = Register::Scalar(register::SCC);
        if !self.scalar(register::SCC).is_clean()
            && matches!(flow.targets.first(), Some(Register::Scalar(_)))
            && flow.rule != Rule::SelectScalar
            && !flow.targets.contains(&scc)
        {
            changes.push(Change::Scalar(register::SCC, Mark::default()));
        }
    }
}

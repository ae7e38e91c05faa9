//! Executes the operations of the independent implementation, and compares their partial order.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Box3d, BufferAddress, Call};

use super::{Action, Machine, Results};
use crate::memory::{At, Block, Illegal, Memory, in_box};

/// For each operation, the bytes that it has read, and the bytes that it has written.
pub(crate) type AccessedBytes = Vec<(BTreeSet<At>, BTreeSet<At>)>;

impl Machine<'_> {
    /// Executes the operations in the given order. Returns the bytes that each check has read, the bytes that each
    /// operation has accessed, and the memory after all operations. Returns the lines of illegal operations as an
    /// error.
    pub(crate) fn run(
        &self,
        order: &[usize],
    ) -> Result<(Results, AccessedBytes, Memory), Vec<(u32, String)>> {
        let mut memory = Memory::new();
        let mut results = Vec::new();
        let mut illegal = self.illegal.clone();
        let mut touched = vec![(BTreeSet::new(), BTreeSet::new()); self.operations.len()];
        let mut staged: BTreeMap<usize, Vec<Option<u8>>> = BTreeMap::new();
        for &at in order {
            let operation = &self.operations[at];
            memory.read.clear();
            memory.stored.clear();
            let none = |name: &str| (name.to_owned(), 0);
            let of = |name: &str| operation.blocks.get(name).cloned().unwrap_or_else(|| none(name));
            let done = match &operation.does {
                Action::Nothing => Ok(()),
                Action::Allocate(block, bytes) => {
                    memory.allocate(block.clone(), *bytes);
                    Ok(())
                }
                Action::Call(call, occurrence) => {
                    let on_host = match call {
                        Call::HostFunc { buffer, .. } => self.kind(buffer).on_host(),
                        _ => true,
                    };
                    match on_host {
                        true => memory.apply(call, *occurrence, &of),
                        false => Err(Illegal("not host memory")),
                    }
                }
                Action::Stage(call) => stage(&mut memory, call, &of).map(|bytes| {
                    staged.insert(at, bytes);
                }),
                Action::Staged(by, call) => match staged.get(by) {
                    Some(bytes) => unstage(&mut memory, call, bytes, &of),
                    None => Ok(()),
                },
                Action::Read(buffers) => buffers
                    .iter()
                    .try_for_each(|name| self.read_on_host(&mut memory, &of(name)).map(|_| ())),
                Action::Check(step, occurrence, buffer) => {
                    self.read_on_host(&mut memory, &of(buffer)).and_then(|bytes| match bytes {
                        None => Err(Illegal("what it holds is not known")),
                        Some(bytes) => {
                            results.push((*step, *occurrence, bytes));
                            Ok(())
                        }
                    })
                }
                Action::Guards(step, occurrence, bytes) => {
                    results.push((*step, *occurrence, vec![0x5C; *bytes as usize]));
                    Ok(())
                }
            };
            if let Err(Illegal(why)) = done {
                illegal.push((operation.line, why.to_owned()));
            }
            touched[at] = (std::mem::take(&mut memory.read), std::mem::take(&mut memory.stored));
        }
        if illegal.is_empty() { Ok((results, touched, memory)) } else { Err(illegal) }
    }

    fn read_on_host(&self, memory: &mut Memory, block: &Block) -> Result<Option<Vec<u8>>, Illegal> {
        if !self.kind(&block.0).on_host() {
            return Err(Illegal("not host memory"));
        }
        if !memory.written.contains(block) {
            return Err(Illegal("read before it is written"));
        }
        for at in 0..memory.len(block) {
            memory.load(block, at)?;
        }
        Ok(memory.all(block))
    }

    pub(crate) fn closure(&self) -> Vec<BTreeSet<usize>> {
        let mut all: Vec<BTreeSet<usize>> = Vec::new();
        for operation in &self.operations {
            let mut before = BTreeSet::new();
            for &one in &operation.after {
                before.insert(one);
                before.extend(&all[one]);
            }
            all.push(before);
        }
        all
    }

    /// Returns an order of all operations that respects the edges. `pick` selects among the operations whose
    /// predecessors have all been placed.
    pub(crate) fn order(&self, mut pick: impl FnMut(usize) -> usize) -> Vec<usize> {
        let mut order = Vec::new();
        let mut done = vec![false; self.operations.len()];
        while order.len() < done.len() {
            let ready: Vec<usize> = (0..done.len())
                .filter(|&at| !done[at] && self.operations[at].after.iter().all(|&b| done[b]))
                .collect();
            let next = ready[pick(ready.len())];
            done[next] = true;
            order.push(next);
        }
        order
    }

    /// Returns the lines of each pair of unordered operations that conflict: by the accesses in `touched` if given,
    /// else by the accesses that the operations declare.
    pub(crate) fn unordered(&self, touched: Option<&AccessedBytes>) -> BTreeSet<(u32, u32)> {
        let before = self.closure();
        let mut found = BTreeSet::new();
        for second in 0..self.operations.len() {
            for first in (0..second).filter(|first| !before[second].contains(first)) {
                let collide = match touched {
                    Some(touched) => {
                        let ((r1, w1), (r2, w2)) = (&touched[first], &touched[second]);
                        !w1.is_disjoint(w2) || !w1.is_disjoint(r2) || !r1.is_disjoint(w2)
                    }
                    None => {
                        let (one, two) = (&self.operations[first], &self.operations[second]);
                        one.declared.iter().any(|(a, from_a, to_a, write_a)| {
                            two.declared.iter().any(|(b, from_b, to_b, write_b)| {
                                let both = from_a.max(from_b) < to_a.min(to_b);
                                a == b && both && (*write_a || *write_b)
                            })
                        })
                    }
                };
                if collide {
                    found.insert((self.operations[first].line, self.operations[second].line));
                }
            }
        }
        found
    }
}

fn rows(call: &Call) -> Vec<(BufferAddress, BufferAddress)> {
    let at = |place: &BufferAddress, more: u64| BufferAddress {
        buffer: place.buffer.clone(),
        offset: place.offset + more,
    };
    match call {
        Call::Copy { to, from, bytes, .. } => {
            (0..*bytes).map(|n| (at(to, n), at(from, n))).collect()
        }
        Call::Copy2d { to, to_pitch, from, from_pitch, width, height, .. } => (0..*height)
            .flat_map(|row| (0..*width).map(move |column| (row, column)))
            .map(|(row, column)| {
                (at(to, row * to_pitch + column), at(from, row * from_pitch + column))
            })
            .collect(),
        Call::Copy3d { to, from, width, height, depth, .. } => {
            let size = [*width, *height, *depth];
            let place = |of: &Box3d, offset| BufferAddress { buffer: of.buffer.clone(), offset };
            let both = in_box(to, size)
                .into_iter()
                .flatten()
                .zip(in_box(from, size).into_iter().flatten());
            both.map(|(at, from_at)| (place(to, at), place(from, from_at))).collect()
        }
        other => unreachable!("{other:?} is not a copy"),
    }
}

fn stage(
    memory: &mut Memory,
    call: &Call,
    of: &dyn Fn(&str) -> Block,
) -> Result<Vec<Option<u8>>, Illegal> {
    if let Call::Copy2d { to_pitch, from_pitch, width, height, .. } = call
        && *width > 0
        && *height > 0
        && (to_pitch < width || from_pitch < width)
    {
        return Err(Illegal("a pitch below the width"));
    }
    let from = match call {
        Call::Copy { from, .. } | Call::Copy2d { from, .. } => &from.buffer,
        Call::Copy3d { to, from, width, height, depth, .. } => {
            let size = [*width, *height, *depth];
            if size.contains(&0) {
                return Ok(Vec::new());
            }
            in_box(to, size)?;
            in_box(from, size)?;
            &from.buffer
        }
        other => unreachable!("{other:?} is not a copy"),
    };
    if !memory.written.contains(&of(from)) {
        return Err(Illegal("read before it is written"));
    }
    let pairs = rows(call);
    let read: BTreeSet<(&str, u64)> =
        pairs.iter().map(|(_, from)| (from.buffer.as_str(), from.offset)).collect();
    if pairs.iter().any(|(to, _)| read.contains(&(to.buffer.as_str(), to.offset))) {
        return Err(Illegal("source and target of the copy overlap"));
    }
    pairs.iter().map(|(_, from)| memory.load(&of(&from.buffer), from.offset)).collect()
}

fn unstage(
    memory: &mut Memory,
    call: &Call,
    bytes: &[Option<u8>],
    of: &dyn Fn(&str) -> Block,
) -> Result<(), Illegal> {
    for ((to, _), byte) in rows(call).iter().zip(bytes) {
        memory.store(&of(&to.buffer), to.offset, *byte)?;
    }
    Ok(())
}

//! What calls touch.

use crate::{Arg, Box3d, OnMemory, Operands, Parameter, Place, Plan, hip_accesses};

/// A conflicting access, seen from the call that makes it.
pub(super) struct Touch<'a> {
    pub(super) buffer: &'a str,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) write: bool,
    pub(super) what: &'static str,
}

impl<'a> Touch<'a> {
    fn of(buffer: &'a str, range: (u64, u64), write: bool) -> Self {
        let (offset, bytes) = range;
        let what = if write { "written" } else { "read" };
        Touch { buffer, offset, bytes, write, what }
    }

    fn whole(buffer: &'a str, write: bool) -> Self {
        Touch::of(buffer, (0, u64::MAX), write)
    }
}

fn range(place: &Place, bytes: u64, write: bool) -> Touch<'_> {
    Touch::of(&place.buffer, (place.offset, bytes), write)
}

/// From the first byte of rows to the last.
fn in_rows<'a>((place, pitch): (&'a Place, u64), size: (u64, u64), write: bool) -> Touch<'a> {
    let bytes = match size {
        (0, _) | (_, 0) => 0,
        (width, height) => (height - 1).saturating_mul(pitch).saturating_add(width),
    };
    range(place, bytes, write)
}

/// From the first byte of a box to its last.
fn in_box(of: &Box3d, [width, height, depth]: [u64; 3], write: bool) -> Touch<'_> {
    let first = of.offset(0, 0);
    let bytes = match [width, height, depth].contains(&0) {
        true => 0,
        false => (of.offset(height - 1, depth - 1) - first).saturating_add(width),
    };
    Touch::of(&of.buffer, (first, bytes), write)
}

/// How far a kernel reaches is not declared: to the end of the buffer.
fn arguments<'a>(kernel: &str, args: &'a [Arg]) -> Vec<Touch<'a>> {
    let parameters = crate::kernel(kernel).map(|k| k.parameters);
    let touches = args.iter().enumerate().flat_map(|(i, arg)| {
        arg.places().into_iter().map(move |(place, only_read)| {
            let write = parameters.map_or(!only_read, |p| p.get(i) == Some(&Parameter::Out));
            range(place, u64::MAX, write)
        })
    });
    touches.collect()
}

fn operands(operands: &Operands) -> Vec<Touch<'_>> {
    let read = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
    let reads = read.into_iter().flatten().map(|buffer| Touch::whole(buffer, false));
    reads.chain([Touch::whole(&operands.d, true)]).collect()
}

/// The accesses of a call that does this.
pub(super) fn touches<'a>(plan: &Plan, effect: OnMemory<'a>) -> Vec<Touch<'a>> {
    match effect {
        // Memory of a pool is there in the order of a stream; other memory comes when the call is made.
        OnMemory::Alloc(buffer) if plan.is_of_pool(buffer) => {
            vec![Touch { what: "allocated", ..Touch::whole(buffer, true) }]
        }
        // Memory of a pool goes in the order of a stream; what waits for the device is seen to elsewhere.
        OnMemory::Free(buffer) => vec![Touch { what: "freed", ..Touch::whole(buffer, true) }],
        OnMemory::Copy { to, from, bytes } => {
            vec![range(from, bytes, false), range(to, bytes, true)]
        }
        OnMemory::Rows { to, from, width, height } => {
            let size = (width, height);
            vec![in_rows(from, size, false), in_rows(to, size, true)]
        }
        OnMemory::Boxes { to, from, size } => {
            vec![in_box(from, size, false), in_box(to, size, true)]
        }
        OnMemory::SetBox { to, size, .. } => vec![in_box(to, size, true)],
        OnMemory::Set { to, bytes, .. } => vec![range(to, bytes, true)],
        OnMemory::Generate { to, count, .. } => vec![range(to, count.saturating_mul(4), true)],
        OnMemory::Product { operands: of, .. } => operands(of),
        OnMemory::Foreign { function, args } => {
            let all = hip_accesses(function, args).into_iter();
            all.map(|(written, place, bytes)| range(place, bytes, written)).collect()
        }
        OnMemory::Launch { kernel, args, .. } => arguments(kernel, args),
        OnMemory::Poison(buffer)
        | OnMemory::Fill { buffer, .. }
        | OnMemory::FillNumbers { buffer, .. }
        | OnMemory::CountUp(buffer) => vec![Touch::whole(buffer, true)],
        OnMemory::Check(buffer) => vec![Touch::whole(buffer, false)],
        OnMemory::Compare(a, b) => vec![Touch::whole(a, false), Touch::whole(b, false)],
        // The nodes of a graph touch what they do; guards are looked at when all is over.
        OnMemory::Nothing | OnMemory::Alloc(_) | OnMemory::Replay(_) | OnMemory::Guards(_) => {
            Vec::new()
        }
    }
}

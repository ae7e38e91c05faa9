use crate::{Arg, Box3d, BufferAddress, MemoryEffect, Operands, Parameter, Plan, hip_accesses};

pub(super) struct BufferAccess<'a> {
    pub(super) buffer: &'a str,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) write: bool,
    pub(super) what: &'static str,
}

impl<'a> BufferAccess<'a> {
    fn new(buffer: &'a str, range: (u64, u64), write: bool) -> Self {
        let (offset, bytes) = range;
        let what = if write { "written" } else { "read" };
        BufferAccess { buffer, offset, bytes, write, what }
    }

    fn whole_buffer(buffer: &'a str, write: bool) -> Self {
        BufferAccess::new(buffer, (0, u64::MAX), write)
    }
}

fn range(place: &BufferAddress, bytes: u64, write: bool) -> BufferAccess<'_> {
    BufferAccess::new(&place.buffer, (place.offset, bytes), write)
}

/// Returns the access to a buffer when rows are copied: the range from the first byte of the first row to the last byte
/// of the last row. `pitch` is the distance between two rows in bytes, and `size` contains the bytes per row and the
/// number of rows.
fn row_access<'a>(
    (place, pitch): (&'a BufferAddress, u64),
    size: (u64, u64),
    write: bool,
) -> BufferAccess<'a> {
    let bytes = match size {
        (0, _) | (_, 0) => 0,
        (width, height) => (height - 1).saturating_mul(pitch).saturating_add(width),
    };
    range(place, bytes, write)
}

/// Returns the access to a buffer when a box is copied: the range from the first byte to the last byte of the box.
fn box_access(of: &Box3d, [width, height, depth]: [u64; 3], write: bool) -> BufferAccess<'_> {
    let first = of.offset(0, 0);
    let bytes = match [width, height, depth].contains(&0) {
        true => 0,
        false => (of.offset(height - 1, depth - 1) - first).saturating_add(width),
    };
    BufferAccess::new(&of.buffer, (first, bytes), write)
}

/// Returns the accesses of a kernel launch. Each access extends to the end of its buffer, because kernels that a case
/// defines do not declare how many bytes they access.
fn kernel_accesses<'a>(kernel: &str, args: &'a [Arg]) -> Vec<BufferAccess<'a>> {
    let parameters = crate::kernel(kernel).map(|k| k.parameters);
    let accesses = args.iter().enumerate().flat_map(|(i, arg)| {
        arg.places().into_iter().map(move |(place, only_read)| {
            let write = parameters.map_or(!only_read, |p| p.get(i) == Some(&Parameter::Out));
            range(place, u64::MAX, write)
        })
    });
    accesses.collect()
}

fn product_accesses(operands: &Operands) -> Vec<BufferAccess<'_>> {
    let read = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
    let reads = read.into_iter().flatten().map(|buffer| BufferAccess::whole_buffer(buffer, false));
    reads.chain([BufferAccess::whole_buffer(&operands.d, true)]).collect()
}

pub(super) fn accesses<'a>(plan: &Plan, effect: MemoryEffect<'a>) -> Vec<BufferAccess<'a>> {
    match effect {
        // Pool memory is allocated in stream order. Other allocations take effect at once.
        MemoryEffect::Alloc(buffer) if plan.is_pool_memory(buffer) => {
            vec![BufferAccess { what: "allocated", ..BufferAccess::whole_buffer(buffer, true) }]
        }
        // Pool memory is freed in stream order. `OrderAnalysis::call` handles other frees, which wait for the device.
        MemoryEffect::Free(buffer) => {
            vec![BufferAccess { what: "freed", ..BufferAccess::whole_buffer(buffer, true) }]
        }
        MemoryEffect::Copy { to, from, bytes } => {
            vec![range(from, bytes, false), range(to, bytes, true)]
        }
        MemoryEffect::Rows { to, from, width, height } => {
            let size = (width, height);
            vec![row_access(from, size, false), row_access(to, size, true)]
        }
        MemoryEffect::Boxes { to, from, size } => {
            vec![box_access(from, size, false), box_access(to, size, true)]
        }
        MemoryEffect::SetBox { to, size, .. } => vec![box_access(to, size, true)],
        MemoryEffect::Set { to, bytes, .. } => vec![range(to, bytes, true)],
        MemoryEffect::Generate { to, count, .. } => vec![range(to, count.saturating_mul(4), true)],
        MemoryEffect::Product { operands: of, .. } => product_accesses(of),
        MemoryEffect::Foreign { function, args } => {
            let all = hip_accesses(function, args).into_iter();
            all.map(|(written, place, bytes)| range(place, bytes, written)).collect()
        }
        MemoryEffect::Launch { kernel, args, .. } => kernel_accesses(kernel, args),
        MemoryEffect::Poison(buffer)
        | MemoryEffect::Fill { buffer, .. }
        | MemoryEffect::FillNumbers { buffer, .. }
        | MemoryEffect::FillFile { buffer, .. }
        | MemoryEffect::CountUp(buffer) => vec![BufferAccess::whole_buffer(buffer, true)],
        MemoryEffect::Check { buffer, .. } | MemoryEffect::Read(buffer) => {
            vec![BufferAccess::whole_buffer(buffer, false)]
        }
        MemoryEffect::Compare(a, b) => {
            vec![BufferAccess::whole_buffer(a, false), BufferAccess::whole_buffer(b, false)]
        }
        // `replay` handles the nodes of graphs. Guards cannot race, because they are read after all work has completed.
        MemoryEffect::Nothing
        | MemoryEffect::Alloc(_)
        | MemoryEffect::Replay(_)
        | MemoryEffect::Guards(_) => Vec::new(),
    }
}

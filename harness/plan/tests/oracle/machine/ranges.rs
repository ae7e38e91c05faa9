use plan::{Arg, Box3d, BufferAddress, Call, Parameter};

fn box_range(
    of: &Box3d,
    [width, height, depth]: [u64; 3],
    write: bool,
) -> (String, u64, u64, bool) {
    let [x, y, z] = of.at;
    let at = |row: u64, slice: u64| (slice * of.rows + row) * of.pitch + x;
    let first = at(y, z);
    let end = match [width, height, depth].contains(&0) {
        true => first,
        false => at(y + height - 1, z + depth - 1) + width,
    };
    (of.buffer.clone(), first, end, write)
}

/// Returns the accesses that a call declares. A kernel is assumed to access its buffers from the given place to the end
/// of the buffer, and a copy of rows to access the whole range from the first to the last byte.
pub(super) fn declared(call: &Call) -> Vec<(String, u64, u64, bool)> {
    let flat = |place: &BufferAddress, bytes: u64, write: bool| {
        (place.buffer.clone(), place.offset, place.offset + bytes, write)
    };
    let whole = |buffer: &String, write: bool| (buffer.clone(), 0, u64::MAX, write);
    match call {
        Call::Copy { to, from, bytes, .. } => {
            vec![flat(from, *bytes, false), flat(to, *bytes, true)]
        }
        Call::Copy2d { to, to_pitch, from, from_pitch, width, height, .. } => {
            let span = |pitch: &u64| match (*width, *height) {
                (0, _) | (_, 0) => 0,
                (width, height) => (height - 1) * pitch + width,
            };
            vec![flat(from, span(from_pitch), false), flat(to, span(to_pitch), true)]
        }
        Call::Copy3d { to, from, width, height, depth, .. } => {
            let size = [*width, *height, *depth];
            vec![box_range(from, size, false), box_range(to, size, true)]
        }
        Call::SetRows { to, width, height, depth, .. } => {
            vec![box_range(to, [*width, *height, depth.unwrap_or(1)], true)]
        }
        Call::Set { to, bytes, .. } => vec![flat(to, *bytes, true)],
        Call::SetHalves { to, count, .. } => vec![flat(to, 2 * count, true)],
        Call::RandGenerate { to, count, .. } => vec![flat(to, 4 * count, true)],
        Call::Launch { kernel, args, .. } => {
            let parameters = plan::kernel(kernel).expect("a kernel of the library").parameters;
            let places = args.iter().zip(parameters).filter_map(|(arg, parameter)| match arg {
                Arg::Address(place) => Some((
                    place.buffer.clone(),
                    place.offset,
                    u64::MAX,
                    *parameter == Parameter::Out,
                )),
                _ => None,
            });
            places.collect()
        }
        Call::BlasltMatmul { operands, .. } | Call::RocblasGemm { operands, .. } => {
            vec![whole(&operands.a, false), whole(&operands.b, false), whole(&operands.d, true)]
        }
        Call::HostFunc { buffer, .. }
        | Call::Fill { buffer, .. }
        | Call::FillNumbers { buffer, .. }
        | Call::Poison { buffer }
        | Call::Alloc { buffer, .. }
        | Call::Free { buffer, .. } => vec![whole(buffer, true)],
        Call::Check { buffer, .. } | Call::AtLeast { buffer, .. } => vec![whole(buffer, false)],
        Call::Equal { a, b } | Call::Differ { a, b } => vec![whole(a, false), whole(b, false)],
        _ => Vec::new(),
    }
}

//! Images and samplers: the calls of `hsa_ext_image.h`.
//!
//! The handle of an image is the address of the descriptor that instructions use. In memory, the descriptor is followed
//! by the channel type, the channel order and the width, which ROCm's device libraries read. Texels are stored row by
//! row (`isa::image`), so importing and exporting an image copies rows.

mod formats;

use std::{collections::BTreeMap, ffi::c_void};

use isa::image::{Border, Dimension, IMAGE_ALIGNMENT, Image, ROW_ALIGNMENT, Sampler, Wrap};

use crate::{
    abi::{Agent, Dim3, InfoOutput, Out, Status},
    address_map::Kind,
    config,
    locks::Mutex,
    memory, order,
    part::DeviceComponent as _,
    row::Row,
    transfer::{self, Direction},
};
pub(crate) use formats::Geometry;
use formats::{ImageFormat, Property};

/// `hsa_ext_image_descriptor_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Description {
    geometry: u32,
    width: usize,
    height: usize,
    depth: usize,
    layers: usize,
    format: ImageFormat,
}

/// `hsa_ext_image_data_info_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DataInfo {
    size: usize,
    alignment: usize,
}

/// `hsa_ext_image_region_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Region {
    offset: Dim3,
    range: Dim3,
}

/// `hsa_ext_sampler_descriptor_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SamplerDescription {
    coordinates: u32,
    filter: u32,
    addressing: u32,
}

/// `hsa_ext_sampler_descriptor_v2_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SamplerDescriptionV2 {
    coordinates: u32,
    filter: u32,
    addressing: [u32; 3],
}

#[derive(Clone, Copy)]
struct KnownImage {
    image: Image,
    geometry: Geometry,
}

#[derive(Default)]
pub(crate) struct Images {
    images: Mutex<BTreeMap<u64, KnownImage>>,
    samplers: Mutex<Vec<u64>>,
}

/// Size of an image object in 32-bit words (ROCr, `HSA_IMAGE_OBJECT_SIZE_DWORD`). HIP copies this many words.
const IMAGE_WORDS: usize = 12;
/// Size of a sampler object in 32-bit words (ROCr, `HSA_SAMPLER_OBJECT_SIZE_DWORD`).
const SAMPLER_WORDS: usize = 8;

pub(crate) fn are_supported() -> bool {
    config::get().arch.facts().has_images
}

/// Copies words into new memory that kernels can read. Returns its address; `None` if no memory is free.
fn publish<const N: usize>(words: [u32; N]) -> Option<u64> {
    let start = memory::allocate(size_of_val(&words), Agent::CPU, 0, Kind::Internal)?;
    // SAFETY: the memory is a fresh allocation of that size, at the start of a page.
    unsafe { (start as *mut [u32; N]).write(words) };
    Some(start as u64)
}

/// Validates the description of an image. Returns the format, the geometry and the size of each dimension, or the
/// HSA status that describes the mistake.
fn checked(agent: Agent, wanted: &Description) -> Result<(Property, Geometry, [u32; 3]), Status> {
    if !agent.is_gpu() {
        return Err(Status::INVALID_AGENT);
    }
    let geometry = Geometry::from_c(wanted.geometry).ok_or(Status::INVALID_ARGUMENT)?;
    let property = formats::property(wanted.format, geometry).filter(|_| are_supported());
    let property = property.ok_or(Status::IMAGE_FORMAT_UNSUPPORTED)?;
    let [width, height, depth, layers] = geometry.max_size();
    let asked = [wanted.width, wanted.height, wanted.depth, wanted.layers];
    let most = [width, height, depth, layers].map(|most| most as usize);
    if asked[0] == 0 || asked.iter().zip(most).any(|(asked, most)| *asked > most) {
        return Err(Status::IMAGE_SIZE_UNSUPPORTED);
    }
    let [width, height, depth, layers] = asked.map(|size| size.max(1) as u32);
    let size = match geometry.dimension() {
        None | Some(Dimension::D1) => [width, 1, 1],
        Some(Dimension::D2) => [width, height, 1],
        Some(Dimension::D3) => [width, height, depth],
        Some(Dimension::D1Array) => [width, 1, layers],
        Some(Dimension::D2Array) => [width, height, layers],
    };
    Ok((property, geometry, size))
}

/// Returns the layout that the image has if it starts at `address`. `row` and `slice` are the distances between two
/// rows and between two slices, in bytes. If a distance is 0, the device chooses it.
fn image_layout(
    agent: Agent,
    wanted: &Description,
    address: u64,
    (row, slice): (usize, usize),
) -> Result<KnownImage, Status> {
    let (property, geometry, size) = checked(agent, wanted)?;
    let Property { format, select, .. } = property;
    let Some(dimension) = geometry.dimension() else {
        let dimension = Dimension::D1;
        let image = Image { address, format, dimension, size, select, pitch: size[0] };
        return Ok(KnownImage { image, geometry });
    };
    let natural = Image::natural_pitch(size[0], format);
    let bytes = format.bytes();
    let pitch = if row == 0 { natural } else { (row / bytes) as u32 };
    let fits = row.is_multiple_of(ROW_ALIGNMENT as usize) && pitch >= size[0] && pitch < 1 << 14;
    if pitch != natural && !(fits && Image::has_pitch(config::get().arch, dimension)) {
        return Err(Status::IMAGE_PITCH_UNSUPPORTED);
    }
    let image = Image { address, format, dimension, size, select, pitch };
    if slice != 0 && slice as u64 != image.slice_bytes() {
        return Err(Status::IMAGE_PITCH_UNSUPPORTED);
    }
    Ok(KnownImage { image, geometry })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_get_capability(
    agent: Agent,
    geometry: u32,
    format: Out<ImageFormat>,
    mask: Out<u32>,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    let (Some(format), Some(geometry)) = (format.get(), Geometry::from_c(geometry)) else {
        return Status::INVALID_ARGUMENT;
    };
    let property = formats::property(format, geometry).filter(|_| are_supported());
    mask.put(property.map_or(0, |property| property.capability))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_get_capability_with_layout(
    agent: Agent,
    geometry: u32,
    format: Out<ImageFormat>,
    _layout: u32,
    mask: Out<u32>,
) -> Status {
    hsa_ext_image_get_capability(agent, geometry, format, mask)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_data_get_info(
    agent: Agent,
    wanted: Out<Description>,
    permission: u32,
    info: Out<DataInfo>,
) -> Status {
    hsa_ext_image_data_get_info_with_layout(agent, wanted, permission, 0, 0, 0, info)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_data_get_info_with_layout(
    agent: Agent,
    wanted: Out<Description>,
    _permission: u32,
    _layout: u32,
    row: usize,
    slice: usize,
    info: Out<DataInfo>,
) -> Status {
    let Some(wanted) = wanted.get() else { return Status::INVALID_ARGUMENT };
    match image_layout(agent, &wanted, 0, (row, slice)) {
        Ok(KnownImage { image, .. }) => {
            info.put(DataInfo { size: image.bytes() as usize, alignment: IMAGE_ALIGNMENT as usize })
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_create(
    agent: Agent,
    wanted: Out<Description>,
    data: u64,
    permission: u32,
    image: Out<u64>,
) -> Status {
    hsa_ext_image_create_with_layout(agent, wanted, data, permission, 0, 0, 0, image)
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the C interface has these parameters")]
pub(crate) extern "C" fn hsa_ext_image_create_with_layout(
    agent: Agent,
    wanted: Out<Description>,
    data: u64,
    _permission: u32,
    _layout: u32,
    row: usize,
    slice: usize,
    image: Out<u64>,
) -> Status {
    let Some(wanted) = wanted.get() else { return Status::INVALID_ARGUMENT };
    if data == 0 || image.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let known = match image_layout(agent, &wanted, data, (row, slice)) {
        Ok(known) if data.is_multiple_of(IMAGE_ALIGNMENT) => known,
        Ok(_) => return Status::INVALID_ARGUMENT,
        Err(status) => return status,
    };
    let Some(descriptor) = descriptor(&known) else { return Status::IMAGE_SIZE_UNSUPPORTED };
    let mut words = [0; IMAGE_WORDS];
    words[..8].copy_from_slice(&descriptor);
    let ImageFormat { kind, order } = wanted.format;
    words[8..11].copy_from_slice(&[kind, order, wanted.width as u32]);
    let Some(handle) = publish(words) else { return Status::OUT_OF_RESOURCES };
    Images::current().images.lock().insert(handle, known);
    image.put(handle)
}

/// Returns the descriptor of an image. The descriptor of a buffer occupies only the first half of the result. Returns
/// `None` for a buffer of 4 GiB, which the descriptor cannot represent.
fn descriptor(KnownImage { image, geometry }: &KnownImage) -> Option<[u32; 8]> {
    let arch = config::get().arch;
    if geometry.dimension().is_some() {
        return image.words(arch);
    }
    let stride = image.format.bytes() as u32;
    let last = isa::image::buffer_word(image.format, image.select, arch)?;
    let high = (image.address >> 32) as u32 & 0xffff;
    let records = image.size[0].checked_mul(stride)?;
    Some([image.address as u32, high | stride << 16, records, last, 0, 0, 0, 0])
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_destroy(agent: Agent, image: u64) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    if Images::current().images.lock().remove(&image).is_none() {
        return Status::INVALID_ARGUMENT;
    }
    memory::free(image as usize);
    Status::SUCCESS
}

impl KnownImage {
    /// Returns the addresses of the rows of a region, slice by slice, and the length of a row in bytes. Returns `None`
    /// if the region extends beyond the image.
    fn rows(&self, offset: Dim3, range: Dim3) -> Option<(Vec<Vec<usize>>, usize)> {
        // In one-dimensional arrays, y is the index of the layer.
        let flat = self.image.dimension == Dimension::D1Array;
        let swap = |at: Dim3| if flat { (at.z, at.y) } else { (at.y, at.z) };
        let ((y, z), (rows, slices)) = (swap(offset), swap(range));
        let (rows, slices) = (rows.max(1), slices.max(1));
        let within =
            |at: u32, count: u32, size: u32| at.checked_add(count).is_some_and(|end| end <= size);
        let [width, height, depth] = self.image.size;
        if !(within(offset.x, range.x, width)
            && within(y, rows, height)
            && within(z, slices, depth))
        {
            return None;
        }
        let bytes = self.image.format.bytes();
        let start = |y: u64, z: u64| {
            let rows = z * self.image.slice_bytes() + y * self.image.row_bytes();
            (self.image.address + rows) as usize + offset.x as usize * bytes
        };
        let slice = |z: u32| (y..y + rows).map(|y| start(y.into(), z.into())).collect();
        let slices: Vec<Vec<usize>> = (z..z + slices).map(slice).collect();
        Some((slices, range.x as usize * bytes))
    }

    /// Returns for each row of a region: address in the image, address in the memory at `start`, and size in bytes.
    fn pair_rows(
        &self,
        region: Region,
        start: usize,
        row: usize,
        slice: usize,
    ) -> Option<Vec<(usize, usize, usize)>> {
        let (slices, len) = self.rows(region.offset, region.range)?;
        let row = if row == 0 { len } else { row };
        let rows = slices.first().map_or(1, Vec::len);
        let between = if slice == 0 { row.checked_mul(rows)? } else { slice };
        let all = slices.iter().enumerate().flat_map(|(z, rows)| {
            let slice = start.wrapping_add(z.wrapping_mul(between));
            let at = move |y: usize| slice.wrapping_add(y.wrapping_mul(row));
            rows.iter().enumerate().map(move |(y, there)| (*there, at(y), len))
        });
        Some(all.collect())
    }
}

/// Copies rows synchronously. ROCr also waits for its copy kernels before the call returns.
fn copy_rows(rows: &[Row], direction: Direction) -> Status {
    let _in_use = memory::InUse::new();
    let mapped = |start: usize, len: usize| {
        let map = memory::map();
        // Memory that the device does not know belongs to the host program, which is responsible for its validity.
        map.find(start).is_none() || map.check(start, len).is_ok()
    };
    if !rows.iter().all(|row| mapped(row.to, row.len) && mapped(row.from, row.len)) {
        return Status::INVALID_ARGUMENT;
    }
    if order::host_copy(rows).is_err() {
        return Status::ERROR;
    }
    let bytes = rows.iter().map(|row| row.len).sum();
    // SAFETY: known rows stay mapped while `_in_use` lives. The caller is responsible for all other rows.
    unsafe { transfer::execute(rows, transfer::copy_effect(bytes, direction)) };
    Status::SUCCESS
}

fn find_image(handle: u64) -> Option<KnownImage> {
    Images::current().images.lock().get(&handle).copied()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_import(
    agent: Agent,
    from: usize,
    row: usize,
    slice: usize,
    image: u64,
    region: Out<Region>,
) -> Status {
    let (Some(known), Some(region)) = (find_image(image), region.get()) else {
        return Status::INVALID_ARGUMENT;
    };
    if !agent.is_gpu() || from == 0 {
        return if from == 0 { Status::INVALID_ARGUMENT } else { Status::INVALID_AGENT };
    }
    let of_device = memory::map().find(from).is_some_and(|(_, region)| region.owner.is_gpu());
    let direction = if of_device { Direction::Other } else { Direction::HostToDevice };
    match known.pair_rows(region, from, row, slice) {
        Some(rows) => {
            let rows: Vec<Row> =
                rows.into_iter().map(|(to, from, len)| Row { to, from, len }).collect();
            copy_rows(&rows, direction)
        }
        None => Status::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_export(
    agent: Agent,
    image: u64,
    to: usize,
    row: usize,
    slice: usize,
    region: Out<Region>,
) -> Status {
    let (Some(known), Some(region)) = (find_image(image), region.get()) else {
        return Status::INVALID_ARGUMENT;
    };
    if !agent.is_gpu() || to == 0 {
        return if to == 0 { Status::INVALID_ARGUMENT } else { Status::INVALID_AGENT };
    }
    match known.pair_rows(region, to, row, slice) {
        Some(rows) => {
            let rows: Vec<Row> =
                rows.into_iter().map(|(from, to, len)| Row { to, from, len }).collect();
            copy_rows(&rows, Direction::Other)
        }
        None => Status::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_copy(
    agent: Agent,
    source: u64,
    source_offset: Out<Dim3>,
    target: u64,
    target_offset: Out<Dim3>,
    range: Out<Dim3>,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    let (Some(source), Some(target)) = (find_image(source), find_image(target)) else {
        return Status::INVALID_ARGUMENT;
    };
    let offsets = (source_offset.get(), target_offset.get(), range.get());
    let (Some(from), Some(to), Some(range)) = offsets else { return Status::INVALID_ARGUMENT };
    if source.image.format.bytes() != target.image.format.bytes() {
        return Status::INVALID_ARGUMENT;
    }
    let (Some((from, len)), Some((to, _))) = (source.rows(from, range), target.rows(to, range))
    else {
        return Status::INVALID_ARGUMENT;
    };
    let (from, to) = (from.concat(), to.concat());
    if from.len() != to.len() {
        return Status::INVALID_ARGUMENT;
    }
    let rows: Vec<Row> = from.into_iter().zip(to).map(|(from, to)| Row { to, from, len }).collect();
    copy_rows(&rows, Direction::Other)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_image_clear(
    agent: Agent,
    image: u64,
    colour: Out<[u32; 4]>,
    region: Out<Region>,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    let (Some(known), Some(colour), Some(region)) = (find_image(image), colour.get(), region.get())
    else {
        return Status::INVALID_ARGUMENT;
    };
    let Some((slices, len)) = known.rows(region.offset, region.range) else {
        return Status::INVALID_ARGUMENT;
    };
    let Some(texel) = known.image.texel_of(colour) else {
        return Status::IMAGE_FORMAT_UNSUPPORTED;
    };
    let row: Vec<u8> = texel.iter().copied().cycle().take(len).collect();
    let from = row.as_ptr() as usize;
    let rows: Vec<Row> = slices.concat().into_iter().map(|to| Row { to, from, len }).collect();
    copy_rows(&rows, Direction::Other)
}

fn sampler(agent: Agent, wanted: SamplerDescriptionV2, handle: Out<u64>) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    // UNDEFINED is treated like REPEAT, as in ROCr.
    let wrap = |mode: u32| match mode {
        0 | 3 => Some(Wrap::Repeat),
        1 => Some(Wrap::Edge),
        2 => Some(Wrap::Border),
        4 => Some(Wrap::Mirror),
        _ => None,
    };
    let [Some(x), Some(y), Some(z)] = wanted.addressing.map(wrap) else {
        return Status::INVALID_ARGUMENT;
    };
    if wanted.filter > 1 || wanted.coordinates > 1 || handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let sampler = Sampler {
        wrap: [x, y, z],
        unnormalized: wanted.coordinates == 0,
        linear: wanted.filter == 1,
        border: Border::Transparent,
    };
    let mut words = [0; SAMPLER_WORDS];
    words[..4].copy_from_slice(&sampler.words(config::get().arch));
    let Some(made) = publish(words) else { return Status::OUT_OF_RESOURCES };
    Images::current().samplers.lock().push(made);
    handle.put(made)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_sampler_create(
    agent: Agent,
    wanted: Out<SamplerDescription>,
    handle: Out<u64>,
) -> Status {
    let Some(SamplerDescription { coordinates, filter, addressing }) = wanted.get() else {
        return Status::INVALID_ARGUMENT;
    };
    let addressing = [addressing; 3];
    sampler(agent, SamplerDescriptionV2 { coordinates, filter, addressing }, handle)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_ext_sampler_create_v2(
    agent: Agent,
    wanted: Out<SamplerDescriptionV2>,
    handle: Out<u64>,
) -> Status {
    wanted.get().map_or(Status::INVALID_ARGUMENT, |wanted| sampler(agent, wanted, handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_ext_sampler_destroy(agent: Agent, handle: u64) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    let mut all = Images::current().samplers.lock();
    let Some(at) = all.iter().position(|known| *known == handle) else {
        return Status::INVALID_ARGUMENT;
    };
    all.swap_remove(at);
    drop(all);
    memory::free(handle as usize);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_image_get_info_max_dim(
    agent: Agent,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    max_dimension(attribute, value).unwrap_or(Status::INVALID_ARGUMENT)
}

/// Answers a query for an attribute `HSA_EXT_AGENT_INFO_*`: a maximum image size or a maximum number of handles.
/// Returns `None` for other attributes.
pub(crate) fn max_dimension(attribute: u32, value: InfoOutput) -> Option<Status> {
    let there = u32::from(are_supported());
    let of = |geometry: Geometry| geometry.max_size().map(|most| most * there);
    let [width, height, depth, layers] = match attribute {
        0x3000 => of(Geometry::D1),
        0x3001 => of(Geometry::D1Array),
        0x3002 => of(Geometry::Buffer),
        0x3003 => of(Geometry::D2),
        0x3004 | 0x3008 => of(Geometry::D2Array),
        0x3005 => of(Geometry::Depth),
        0x3006 => of(Geometry::DepthArray),
        0x3007 => of(Geometry::D3),
        // MAX_IMAGE_RD_HANDLES, MAX_IMAGE_RORW_HANDLES, MAX_SAMPLER_HANDLERS
        0x3009 => [128 * there, 0, 0, 0],
        0x300A => [64 * there, 0, 0, 0],
        0x300B => [16 * there, 0, 0, 0],
        // IMAGE_LINEAR_ROW_PITCH_ALIGNMENT
        0x300C => [ROW_ALIGNMENT * there, 0, 0, 0],
        _ => return None,
    };
    Some(match attribute {
        0x3003..=0x3006 => value.put([width, height]),
        0x3007 => value.put([width, height, depth]),
        0x3008 => value.put(layers),
        _ => value.put(width),
    })
}

/// `hsa_ext_images_1_pfn_t`: table of the functions of the image extension. Its beginning is
/// `hsa_ext_images_1_00_pfn_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ExtensionTable([*const c_void; 13]);

/// Returns the table of the image extension for `hsa_system_get_major_extension_table`.
pub(crate) fn extension_table() -> ExtensionTable {
    ExtensionTable([
        hsa_ext_image_get_capability as *const c_void,
        hsa_ext_image_data_get_info as *const c_void,
        hsa_ext_image_create as *const c_void,
        hsa_ext_image_destroy as *const c_void,
        hsa_ext_image_copy as *const c_void,
        hsa_ext_image_import as *const c_void,
        hsa_ext_image_export as *const c_void,
        hsa_ext_image_clear as *const c_void,
        hsa_ext_sampler_create as *const c_void,
        hsa_ext_sampler_destroy as *const c_void,
        hsa_ext_image_get_capability_with_layout as *const c_void,
        hsa_ext_image_data_get_info_with_layout as *const c_void,
        hsa_ext_image_create_with_layout as *const c_void,
    ])
}

#[cfg(test)]
mod tests;

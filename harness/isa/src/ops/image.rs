//! Image loads, stores, samples and atomics (MIMG, VIMAGE and VSAMPLE).
//!
//! Source: the ISA guides of Vega, CDNA and RDNA 2 to 4 ("Image instructions", "Image opcodes with a sampler"), and
//! LLVM's AMDGPU operand syntax for the disassembler's output. `docs/inferred-hardware.md` lists the assumptions about
//! hardware.

mod sample;

use super::{
    atomic::{Atomic, returns_old_value},
    memory::{CACHE_POLICY, Location},
};
use crate::{
    exec::{Bound, on_machine},
    float16::F16,
    image::{Dimension, Image, Sampler},
    machine::Machine,
    text::{Base, Text, Unsupported, parse_base},
    wave::{Step, Stop, Wave, active},
};
use device::Arch;
use sample::Footprint;

#[derive(Clone, Copy)]
pub(crate) enum Action {
    Load,
    Store,
    Sample,
    /// Reads one component of each of the four surrounding texels.
    Gather,
    Atomic(Atomic),
}

#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) action: Action,
    /// Registers with the components of the address, in order.
    rows: Vec<usize>,
    /// True if coordinates have 16 bits, so that two of them share a register.
    a16: bool,
    /// Dimension that the instruction contains; `None` before GFX10, where instructions do not contain a dimension.
    dimension: Option<Dimension>,
    /// True if the address contains a level bias, which precedes the coordinates.
    bias: bool,
    derivatives: bool,
    /// True if the address contains a level, which follows the coordinates. Images have only level 0.
    level: bool,
    resource: u16,
    sampler: Option<u16>,
    unnormalized: bool,
    dmask: u8,
    d16: bool,
    data: usize,
    arch: Arch,
}

/// Returns the registers of an operand, which is a range of registers or a list of them.
pub(crate) fn rows(text: &Text, index: usize) -> Result<Vec<usize>, Unsupported> {
    let one = |base: &Base| match *base {
        Base::Vector { first, count } => {
            Ok((usize::from(first)..usize::from(first + count)).collect::<Vec<_>>())
        }
        _ => Err(Unsupported),
    };
    match &text.operand(index)?.base {
        Base::Word(list) => {
            let inner = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let parts = inner.ok_or(Unsupported)?.split(',');
            let rows: Result<Vec<_>, _> =
                parts.map(|part| one(&parse_base(part.trim()).ok_or(Unsupported)?)).collect();
            Ok(rows?.concat())
        }
        base => one(base),
    }
}

impl Access {
    pub(crate) fn parse(text: &Text) -> Result<Access, Unsupported> {
        let known = ["dmask", "dim", "unorm", "da", "a16", "d16"];
        let policy = |name: &str| name != "lds" && CACHE_POLICY.contains(&name);
        if !text.modifier_names().all(|name| known.contains(&name) || policy(name)) {
            return Err(Unsupported);
        }
        let name = text.mnemonic.strip_prefix("image_").ok_or(Unsupported)?;
        let (action, form) = match name {
            "load" => (Action::Load, ""),
            "load_mip" => (Action::Load, "_l"),
            "store" => (Action::Store, ""),
            "store_mip" => (Action::Store, "_l"),
            _ => match (name.strip_prefix("sample"), name.strip_prefix("gather4")) {
                (Some(form @ ("" | "_lz" | "_l" | "_b" | "_d")), _) => (Action::Sample, form),
                (_, Some(form @ ("" | "_lz" | "_l" | "_b"))) => (Action::Gather, form),
                _ => (Action::Atomic(atomic(name).ok_or(Unsupported)?), ""),
            },
        };
        let sampled = matches!(action, Action::Sample | Action::Gather);
        let dimension = match text.value("dim") {
            Some(dim) => Some(Dimension::parse(dim).ok_or(Unsupported)?),
            None => None,
        };
        if dimension.is_none() != text.is_gfx9() || form == "_d" && text.has("a16") {
            return Err(Unsupported);
        }
        let mut rows = rows(text, 1)?;
        if let (true, [first, ..]) = (text.is_gfx9(), &rows[..]) {
            // On GFX9 the instruction does not encode the number of address registers, and the disassembler prints only
            // the first one.
            rows = (*first..(first + 12).min(crate::registers::ROWS / 2)).collect();
        }
        let dmask = u8::try_from(text.number("dmask")?).map_err(|_| Unsupported)?;
        let d16 = text.has("d16");
        let words = match action {
            Action::Gather if dmask.count_ones() == 1 => 4,
            Action::Gather => return Err(Unsupported),
            Action::Atomic(atomic) => {
                if d16 || dmask.count_ones() != u32::from(atomic.data_words()) {
                    return Err(Unsupported);
                }
                dmask.count_ones()
            }
            _ => dmask.count_ones(),
        };
        if words == 0 || dmask > 15 {
            return Err(Unsupported);
        }
        let registers = if d16 { words.div_ceil(2) } else { words };
        Ok(Access {
            action,
            rows,
            a16: text.has("a16"),
            dimension,
            bias: form == "_b",
            derivatives: form == "_d",
            level: form == "_l",
            resource: text.scalar(2, 8)?,
            sampler: if sampled { Some(text.scalar(3, 4)?) } else { None },
            unnormalized: text.has("unorm"),
            dmask,
            d16,
            data: text.row(0, registers as u16)?,
            arch: text.site.arch,
        })
    }

    /// Reads the image descriptor from scalar registers.
    ///
    /// # Errors
    /// Returns the name of a feature that the descriptor uses and the interpreter does not support.
    pub(crate) fn image(&self, wave: &Wave) -> Result<Image, &'static str> {
        let at = usize::from(self.resource);
        let words = std::array::from_fn(|word| wave.scalar[at + word]);
        Image::read(&words, self.arch)
    }

    /// Returns the address of a texel that the instruction accesses; `None` if the texel is outside of the image.
    /// `texel` selects one of the texels of a sample or a gather.
    pub(crate) fn place(
        &self,
        wave: &Wave,
        lane: usize,
        image: &Image,
        texel: usize,
    ) -> Option<u64> {
        match self.action {
            Action::Sample | Action::Gather => {
                self.footprint(wave, lane, image).ok()?.places().get(texel)?.0
            }
            _ => self.texel(wave, lane, image),
        }
    }

    fn component(&self, wave: &Wave, lane: usize, index: usize) -> Option<u32> {
        if !self.a16 {
            return Some(wave.lane(*self.rows.get(index)?, lane));
        }
        let both = wave.lane(*self.rows.get(index / 2)?, lane);
        Some(both >> (16 * (index % 2)) & 0xffff)
    }

    /// Returns the coordinates of a texel and the level; `None` if the address has too few registers. For an array, the
    /// third coordinate is the layer.
    fn coordinates(&self, wave: &Wave, lane: usize, image: &Image) -> Option<([u32; 3], u32)> {
        // HIP's copy kernels access every image as a two-dimensional array, so the dimension in the instruction takes
        // precedence over the one in the descriptor.
        let dimension = self.dimension.unwrap_or(image.dimension);
        let count = dimension.coordinates();
        let spatial = count - usize::from(dimension.is_array());
        let derivatives = if self.derivatives { 2 * spatial } else { 0 };
        let first = usize::from(self.bias) + derivatives;
        let mut coordinates = [0; 3];
        for at in 0..count {
            let layer = at == spatial;
            coordinates[if layer { 2 } else { at }] = self.component(wave, lane, first + at)?;
        }
        let level = if self.level { self.component(wave, lane, first + count)? } else { 0 };
        Some((coordinates, level))
    }

    /// Returns the address of the texel that a load, a store or an atomic accesses; `None` if the texel is outside of
    /// the image.
    pub(crate) fn texel(&self, wave: &Wave, lane: usize, image: &Image) -> Option<u64> {
        let (coordinates, level) = self.coordinates(wave, lane, image)?;
        // Images have only level 0.
        image.texel(coordinates).filter(|_| level == 0)
    }

    /// Returns the texels that a sample or a gather reads.
    pub(crate) fn footprint(
        &self,
        wave: &Wave,
        lane: usize,
        image: &Image,
    ) -> Result<Footprint, &'static str> {
        let at = usize::from(self.sampler.unwrap_or_default());
        let words = std::array::from_fn(|word| wave.scalar[at + word]);
        let mut sampler = Sampler::read(&words)?;
        sampler.unnormalized |= self.unnormalized;
        let coordinates = self.coordinates(wave, lane, image);
        let (bits, _) = coordinates.ok_or("fewer registers than coordinates")?;
        let coordinates = bits.map(|bits| match self.a16 {
            true => F16(bits as u16).to_f32(),
            false => f32::from_bits(bits),
        });
        Ok(Footprint::new(image, &sampler, coordinates, matches!(self.action, Action::Gather)))
    }
}

fn atomic(name: &str) -> Option<Atomic> {
    let name = name.strip_prefix("atomic_")?;
    // Some atomics have other names on GFX12.
    Atomic::parse(match name {
        "add_uint" => "add_u32",
        "sub_uint" => "sub_u32",
        "min_int" => "min_i32",
        "min_uint" => "min_u32",
        "max_int" => "max_i32",
        "max_uint" => "max_u32",
        "inc_uint" => "inc_u32",
        "dec_uint" => "dec_u32",
        "add_flt" => "add_f32",
        "min_flt" => "min_f32",
        "max_flt" => "max_f32",
        other => other,
    })
}

pub(crate) fn bind(text: &Text) -> Bound {
    let access = Access::parse(text)?;
    let returns = returns_old_value(text);
    on_machine(move |wave, machine| {
        let gap = |what| Box::new(Stop::Unsupported(what));
        let image = access.image(wave).map_err(gap)?;
        for lane in active(wave.exec()) {
            match access.action {
                Action::Load => {
                    let texel = match access.texel(wave, lane, &image) {
                        Some(address) => {
                            let bytes = read(machine, address, image.format.bytes())?;
                            image.format.decode(bytes)
                        }
                        None => [0; 4],
                    };
                    access.put(wave, lane, image.selected(texel), &image).map_err(gap)?;
                }
                Action::Sample => {
                    let footprint = access.footprint(wave, lane, &image).map_err(gap)?;
                    if footprint.is_filtered() && image.format.is_integer() {
                        return Err(gap("a linear filter over integers"));
                    }
                    let texel = footprint.filtered(machine, &image)?;
                    access.put(wave, lane, image.selected(texel), &image).map_err(gap)?;
                }
                Action::Gather => {
                    let footprint = access.footprint(wave, lane, &image).map_err(gap)?;
                    if footprint.places().len() != 4 {
                        return Err(gap("an image without rows to gather from"));
                    }
                    let wanted = access.dmask.trailing_zeros() as usize;
                    let mut found = [0; 4];
                    // The four texels are read counter-clockwise, starting with the left texel of the second row.
                    for (slot, corner) in [2, 3, 1, 0].into_iter().enumerate() {
                        let texel = footprint.texel(machine, &image, corner)?;
                        found[slot] = image.selected(texel)[wanted];
                    }
                    access.put_all(wave, lane, found, &image).map_err(gap)?;
                }
                Action::Store => store(&access, wave, machine, lane, &image)?,
                Action::Atomic(atomic) => {
                    let bytes = image.format.bytes();
                    if image.format.bits[1] != 0 || bytes != 4 * usize::from(atomic.words()) {
                        return Err(gap("an atomic on texels of this format"));
                    }
                    if let Some(address) = access.texel(wave, lane, &image) {
                        let at = Location::Global(address);
                        let target = returns.then_some(access.data);
                        atomic.run(wave, machine, lane, at, access.data, target)?;
                    }
                }
            }
        }
        Ok(())
    })
}

fn store(
    access: &Access,
    wave: &Wave,
    machine: &mut Machine<'_>,
    lane: usize,
    image: &Image,
) -> Step {
    let gap = |what| Box::new(Stop::Unsupported(what));
    let components = access.get(wave, lane, image).map_err(gap)?;
    let texel = image.format.encode(image.unselected(components));
    let texel = texel.ok_or_else(|| gap("a store to an sRGB image"))?;
    match access.texel(wave, lane, image) {
        Some(address) => write(machine, address, texel, image.format.bytes()),
        None => Ok(()),
    }
}

impl Access {
    /// Writes those components of a result that the instruction requests to registers.
    fn put(
        &self,
        wave: &mut Wave,
        lane: usize,
        result: [u32; 4],
        image: &Image,
    ) -> Result<(), &'static str> {
        let wanted = (0..4).filter(|at| self.dmask >> at & 1 != 0).map(|at| result[at]);
        self.write(wave, lane, wanted, image)
    }

    fn put_all(
        &self,
        wave: &mut Wave,
        lane: usize,
        result: [u32; 4],
        image: &Image,
    ) -> Result<(), &'static str> {
        self.write(wave, lane, result.into_iter(), image)
    }

    fn write(
        &self,
        wave: &mut Wave,
        lane: usize,
        values: impl Iterator<Item = u32>,
        image: &Image,
    ) -> Result<(), &'static str> {
        if !self.d16 {
            values.enumerate().for_each(|(at, value)| wave.set_lane(self.data + at, lane, value));
            return Ok(());
        }
        if image.format.is_integer() {
            return Err("16-bit integers in registers");
        }
        for (at, value) in values.enumerate() {
            let (row, half) =
                (self.data + at / 2, u32::from(F16::from_f32(f32::from_bits(value)).0));
            let old = wave.lane(row, lane);
            let new =
                if at % 2 == 0 { old & 0xffff_0000 | half } else { old & 0xffff | half << 16 };
            wave.set_lane(row, lane, new);
        }
        Ok(())
    }

    /// Returns the components that a store writes. Before GFX12, components that the instruction omits are 0. From
    /// GFX12 on, they equal the first component (LLVM, `hasDefaultComponentZero` and `hasDefaultComponentBroadcast`).
    fn get(&self, wave: &Wave, lane: usize, image: &Image) -> Result<[u32; 4], &'static str> {
        if self.d16 && image.format.is_integer() {
            return Err("16-bit integers in registers");
        }
        let given = |at: usize| match self.d16 {
            false => wave.lane(self.data + at, lane),
            true => {
                let half = wave.lane(self.data + at / 2, lane) >> (16 * (at % 2));
                F16(half as u16).to_f32().to_bits()
            }
        };
        let broadcast = self.arch.facts().repeats_missing_components;
        let missing = if broadcast { given(0) } else { 0 };
        Ok(std::array::from_fn(|at| match self.dmask >> at & 1 {
            0 => missing,
            _ => given((self.dmask & ((1 << at) - 1)).count_ones() as usize),
        }))
    }
}

/// Reads the bytes of a texel. The rest of the result is zero.
pub(crate) fn read(
    machine: &mut Machine<'_>,
    address: u64,
    bytes: usize,
) -> Result<[u8; 16], Box<Stop>> {
    let mut texel = [0; 16];
    match bytes {
        1 => texel[..1].copy_from_slice(&machine.read::<1>(address)?),
        2 => texel[..2].copy_from_slice(&machine.read::<2>(address)?),
        4 => texel[..4].copy_from_slice(&machine.read::<4>(address)?),
        8 => texel[..8].copy_from_slice(&machine.read::<8>(address)?),
        _ => texel = machine.read(address)?,
    }
    Ok(texel)
}

/// Writes the first `bytes` bytes of `texel` to memory.
pub(crate) fn write(
    machine: &mut Machine<'_>,
    address: u64,
    texel: [u8; 16],
    bytes: usize,
) -> Step {
    fn first<const N: usize>(texel: [u8; 16]) -> [u8; N] {
        std::array::from_fn(|at| texel[at])
    }
    match bytes {
        1 => machine.write(address, first::<1>(texel)),
        2 => machine.write(address, first::<2>(texel)),
        4 => machine.write(address, first::<4>(texel)),
        8 => machine.write(address, first::<8>(texel)),
        _ => machine.write(address, texel),
    }
}

//! Buffer loads and stores that convert data from or to the format that the descriptor contains. Kernels use them to
//! read textures in linear memory.

use device::Arch;

use super::{
    buffer::Address,
    image::{read, write},
    memory::{Location, only_addressing},
};
use crate::{
    exec::{Bound, on_machine},
    image::{Format, buffer_format},
    text::{Text, Unsupported},
    wave::{Stop, Wave, active},
};

#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) is_load: bool,
    components: usize,
    pub(crate) row: usize,
    address: Address,
    descriptor: u16,
    arch: Arch,
}

impl Access {
    /// Parses a typed buffer access. `name` is the part of the mnemonic after `buffer_`. Returns `None` for other
    /// instructions, and `Some(Err(Unsupported))` for a typed access that the interpreter does not support.
    pub(crate) fn parse(text: &Text, name: &str) -> Option<Result<Access, Unsupported>> {
        let (is_load, components) = match name.split_once("_format_")? {
            ("load", components) => (true, components),
            ("store", components) => (false, components),
            _ => return Some(Err(Unsupported)),
        };
        Some(Access::resolve(text, is_load, components))
    }

    fn resolve(text: &Text, is_load: bool, components: &str) -> Result<Access, Unsupported> {
        only_addressing(text, &["offset", "idxen", "offen"])?;
        let known = ["x", "xy", "xyz", "xyzw"].iter().position(|known| *known == components);
        let components = 1 + known.ok_or(Unsupported)?;
        Ok(Access {
            is_load,
            components,
            row: text.row(0, components as u16)?,
            address: Address::parse(text, 1)?,
            descriptor: text.scalar(2, 4)?,
            arch: text.site.arch,
        })
    }

    pub(crate) fn format(&self, wave: &Wave) -> Option<(Format, [u8; 4])> {
        let word = wave.scalar[usize::from(self.descriptor) + 3];
        let select = std::array::from_fn(|at| (word >> (3 * at) & 7) as u8);
        Some((buffer_format(word, self.arch)?, select))
    }

    /// Returns the address of an element of `bytes` bytes; `None` if the element is out of range.
    pub(crate) fn of(&self, wave: &Wave, lane: usize, bytes: usize) -> Option<u64> {
        match self.address.of(wave, lane, 0, bytes as u64)? {
            Location::Global(address) => Some(address),
            _ => None,
        }
    }
}

pub(crate) fn bind(access: Access) -> Bound {
    on_machine(move |wave, machine| {
        let gap = || Box::new(Stop::Unsupported("the format of its buffer"));
        let (format, select) = access.format(wave).ok_or_else(gap)?;
        let one = if format.is_integer() { 1 } else { 1f32.to_bits() };
        for lane in active(wave.exec()) {
            let place = access.of(wave, lane, format.bytes());
            if access.is_load {
                let texel = match place {
                    Some(address) => format.decode(read(machine, address, format.bytes())?),
                    None => [0; 4],
                };
                for (at, select) in select.iter().enumerate().take(access.components) {
                    let value = match select {
                        0 => 0,
                        1 => one,
                        component => texel[usize::from(component & 3)],
                    };
                    wave.set_lane(access.row + at, lane, value);
                }
            } else if let Some(address) = place {
                let broadcast = access.arch.facts().repeats_missing_components;
                let given = |at: usize| match at < access.components {
                    true => wave.lane(access.row + at, lane),
                    false if broadcast => wave.lane(access.row, lane),
                    false => 0,
                };
                let from = |component: usize| {
                    let found = select.iter().position(|from| *from == component as u8 + 4);
                    found.map_or(0, given)
                };
                let texel = format.encode(std::array::from_fn(from)).ok_or_else(gap)?;
                write(machine, address, texel, format.bytes())?;
            }
        }
        Ok(())
    })
}

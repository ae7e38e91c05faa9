//! From the text of an instruction to what executes it, and to how launches that are watched do: the way of whoever has no
//! disassembler.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use device::Arch;

use super::{Code, Instruction, PAGE, Page, parse};
use crate::{
    AddressSpace,
    able::Able,
    checks::{self, Checks},
    exec::Bound,
    machine::Machine,
    ops,
    text::Site,
};

/// A machine of a launch, which is watched where the memory says so.
pub fn machine(space: &dyn AddressSpace) -> Machine<'_> {
    let mut machine = Machine::new(Able::find().expect("vector instructions"), space);
    machine.watch = space.is_watched().then(|| looks_on(true, false));
    machine
}

/// Code from address 0 on, as a launch decodes it: texts with the low halves of their first dwords, of 8 bytes each.
pub fn code<'a>(arch: Arch, space: &'a dyn AddressSpace, lines: &[(&str, u16)]) -> Code<'a> {
    let slots = Box::new([const { OnceLock::new() }; (PAGE / 4) as usize]);
    let checked = space.is_watched();
    let lanes = arch.wave_size() as usize;
    for (number, (text, immediate)) in lines.iter().enumerate() {
        let site = Site { address: 8 * number as u64, immediate: *immediate, ..Site::of(arch) };
        let exec = bind(text, &site);
        let exec = if checked { watch(exec, text, &site) } else { exec };
        let Ok(exec) = exec else { panic!("not bound: {text}") };
        let parts = parse(text, &site).unwrap_or_default().into();
        let directs = text.starts_with("s_");
        let known = Instruction { exec, site, text: (*text).into(), parts, directs };
        assert!(slots[2 * number].set(known).is_ok());
    }
    let page = Page { base: 0, arch, lanes, checked, bytes: Vec::new(), slots };
    Code { pages: vec![Arc::new(page)], ..Code::new(arch, lanes, checked, space) }
}

/// Who looks on, as `Checks::new` makes it.
pub fn looks_on(watched: bool, late: bool) -> Box<dyn Any> {
    Box::new(Checks::new(watched, late, Code::reader))
}

/// What executes an instruction of this text, or two that are issued at once.
pub fn bind(text: &str, site: &Site) -> Bound {
    super::bind(&parse(text, site)?, ops::bind)
}

/// The same where launches are watched.
pub fn watch(exec: Bound, text: &str, site: &Site) -> Bound {
    checks::checked(exec, site, text, &parse(text, site).unwrap_or_default())
}

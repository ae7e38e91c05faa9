//! Functions that bind and run instructions from their text, so that tests need no disassembler.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use device::Arch;

use super::{Code, Instruction, PAGE, Page, parse};
use crate::{
    AddressSpace,
    able::CpuFeatures,
    checks::{self, Checks},
    exec::Bound,
    machine::Machine,
    ops,
    text::Site,
};

/// Creates a machine. If the address space is watched, the sanitizer checks the instructions that run on the machine.
pub fn machine(space: &dyn AddressSpace) -> Machine<'_> {
    let mut machine = Machine::new(CpuFeatures::find().expect("vector instructions"), space);
    machine.watch = space.is_watched().then(|| looks_on(true, false));
    machine
}

/// Returns code at address 0, decoded as in a launch. Each instruction has 8 bytes. `lines` contains, for each
/// instruction, its text and the lower half of its first dword.
pub fn code<'a>(arch: Arch, space: &'a dyn AddressSpace, lines: &[(&str, u16)]) -> Code<'a> {
    let slots = Box::new([const { OnceLock::new() }; (PAGE / 4) as usize]);
    let checked = space.is_watched();
    let lanes = arch.wave_size() as usize;
    for (number, (text, immediate)) in lines.iter().enumerate() {
        let site =
            Site { address: 8 * number as u64, immediate: *immediate, ..Site::for_arch(arch) };
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

/// Creates the state of the sanitizer for one workgroup. `watched` is true if the kernel is checked for errors. `late`
/// is true if a register receives a loaded value only when the wave waits for that value.
pub fn looks_on(watched: bool, late: bool) -> Box<dyn Any> {
    Box::new(Checks::new(watched, late, Code::reader))
}

/// Binds an instruction, or a dual-issue pair, given as text.
pub fn bind(text: &str, site: &Site) -> Bound {
    super::bind(&parse(text, site)?, ops::bind)
}

/// Wraps a bound instruction in the checks of the sanitizer.
pub fn watch(exec: Bound, text: &str, site: &Site) -> Bound {
    checks::checked(exec, site, text, &parse(text, site).unwrap_or_default())
}

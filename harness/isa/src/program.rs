//! Decodes and caches code. Decoded instructions are cached by page of code memory until the process ends.

pub mod line;

use std::{
    cell::Cell,
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError},
};

use device::Arch;

use crate::{
    AddressSpace, checks,
    disassembler::{self, MAX_INSTRUCTION_BYTES},
    exec::{Bound, Exec, on_machine},
    lost_bits, ops,
    registers::Row,
    rounding::Field,
    text::{Base, Site, Text, Unsupported, register},
    unnamed::{self, Named},
    wave::Wave,
};

pub(crate) const PAGE: u64 = 4096;

/// Number of entries in [`Code::near`]. Most kernels have fewer pages of code than this.
const NEAR: usize = 64;

pub(crate) struct Instruction {
    pub(crate) exec: Box<dyn Exec>,
    pub(crate) site: Site,
    pub(crate) text: Box<str>,
    /// Parsed text of the instruction. A dual-issue pair has two entries.
    pub(crate) parts: Arc<[Text]>,
    /// True if the instruction may branch, stop the wave, or change how later instructions are executed. Only scalar
    /// instructions and instructions of global wave sync can have such an effect.
    pub(crate) directs: bool,
}

/// A page of code with the instructions that have been decoded so far. `bytes` are compared with memory to detect that
/// other code has been loaded at the same address.
pub(crate) struct Page {
    pub(crate) base: u64,
    arch: Arch,
    /// Number of lanes of the waves that execute the page.
    lanes: usize,
    checked: bool,
    bytes: Vec<u8>,
    slots: Box<[OnceLock<Instruction>; (PAGE / 4) as usize]>,
}

pub(crate) enum Missing {
    Unmapped,
    Illegal,
    /// The disassembler does not know the instruction. The value is the first dword of the instruction.
    Unnamed(u32),
    Unimplemented(String),
    NoDisassembler(String),
}

/// Cache of pages. The key is the architecture, the number of lanes of a wave, whether the launch is checked, and the
/// address.
type Pages = HashMap<(Arch, usize, bool, u64), Arc<Page>>;
static PAGES: LazyLock<Mutex<Pages>> = LazyLock::new(Mutex::default);

/// Calls `tell` with the text of each instruction that waves have executed in the code at the address `start`. `code`
/// contains the current bytes at that address. The texts come from the cache, because a wave decodes an instruction
/// when it first executes it.
pub(crate) fn decoded(arch: Arch, start: u64, code: &[u8], mut tell: impl FnMut(&str)) {
    let end = start + code.len() as u64;
    let pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    for page in pages.values().filter(|page| page.arch == arch) {
        let (from, to) = (start.max(page.base), end.min(page.base + PAGE));
        if from >= to {
            continue;
        }
        // The page may still contain instructions of other code that was at this address before.
        let here = &code[(from - start) as usize..(to - start) as usize];
        let there = &page.bytes[(from - page.base) as usize..(to - page.base) as usize];
        if here == there {
            page.slots.iter().filter_map(OnceLock::get).for_each(|one| tell(&one.text));
        }
    }
}

/// Pages of code that one launch uses. Each page is compared with memory when the launch first uses it.
pub struct Code<'a> {
    arch: Arch,
    lanes: usize,
    checked: bool,
    space: &'a dyn AddressSpace,
    pages: Vec<Arc<Page>>,
    /// Indices in `pages` of recently used pages. The low bits of the page number select the entry. There are several
    /// entries, because the waves of a workgroup take turns and may execute different pages.
    near: [usize; NEAR],
}

impl<'a> Code<'a> {
    pub(crate) fn new(
        arch: Arch,
        lanes: usize,
        checked: bool,
        space: &'a dyn AddressSpace,
    ) -> Code<'a> {
        Code { arch, lanes, checked, space, pages: Vec::new(), near: [0; NEAR] }
    }

    pub(crate) fn reader<'b>(site: &Site, space: &'b dyn AddressSpace) -> checks::Reader<'b> {
        let mut code = Code::new(site.arch, site.lanes, false, space);
        Box::new(move |pc| Some(code.page(pc).ok()?.instruction(pc).ok()?.parts.clone()))
    }

    pub(crate) fn page(&mut self, pc: u64) -> Result<&Page, Missing> {
        let base = pc & !(PAGE - 1);
        let near = (pc / PAGE) as usize % NEAR;
        let mut index = self.near[near];
        if self.pages.get(index).is_none_or(|page| page.base != base) {
            index = self.find(pc, base)?;
            self.near[near] = index;
        }
        Ok(&self.pages[index])
    }

    #[cold]
    fn find(&mut self, pc: u64, base: u64) -> Result<usize, Missing> {
        if let Some(known) = self.pages.iter().position(|page| page.base == base) {
            return Ok(known);
        }
        let page = self.check(pc)?;
        self.pages.push(page);
        Ok(self.pages.len() - 1)
    }

    /// Returns the cached page if memory still contains the same code, otherwise a new page.
    fn check(&self, pc: u64) -> Result<Arc<Page>, Missing> {
        let base = pc & !(PAGE - 1);
        let bytes = self.snapshot(pc)?;
        let Code { arch, lanes, checked, .. } = *self;
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        let page = match pages.remove(&(arch, lanes, checked, base)) {
            Some(page) if page.bytes == bytes => page,
            before => {
                let slots = Box::new([const { OnceLock::new() }; (PAGE / 4) as usize]);
                let mut page = Page { base, arch, lanes, checked, bytes, slots };
                // The instructions of an older page can only be taken over if no other launch executes this page.
                if let Some(before) = before.and_then(Arc::into_inner) {
                    page.take_over(before);
                }
                Arc::new(page)
            }
        };
        pages.insert((arch, lanes, checked, base), page.clone());
        Ok(page)
    }

    /// Copies the bytes of the page, and the first bytes after it, because an instruction may cross the end of the
    /// page. Unmapped bytes are zero.
    fn snapshot(&self, pc: u64) -> Result<Vec<u8>, Missing> {
        let base = pc & !(PAGE - 1);
        let range = self.space.range(pc).ok_or(Missing::Unmapped)?;
        let first = base.max(range.start);
        let last = (base + PAGE + MAX_INSTRUCTION_BYTES as u64).min(range.end);
        let mut bytes = vec![0u8; PAGE as usize + MAX_INSTRUCTION_BYTES];
        let target = &mut bytes[(first - base) as usize..(last - base) as usize];
        let source = std::ptr::with_exposed_provenance::<u8>(first as usize);
        // SAFETY: the address space guarantees that first..last is mapped; the target has the same length.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        Ok(bytes)
    }
}

impl Page {
    /// Moves the decoded instructions of an older page to this one, if their bytes are the same.
    fn take_over(&mut self, before: Page) {
        let slots: Box<[OnceLock<Instruction>]> = before.slots;
        for (slot, known) in slots.into_iter().enumerate() {
            // Bytes that the disassembler read for the instruction.
            let bytes = 4 * slot..4 * slot + MAX_INSTRUCTION_BYTES;
            if let Some(instruction) = known.into_inner()
                && before.bytes[bytes.clone()] == self.bytes[bytes]
            {
                self.slots[slot] = OnceLock::from(instruction);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn instruction(&self, pc: u64) -> Result<&Instruction, Missing> {
        let slot = &self.slots[((pc - self.base) / 4) as usize];
        match slot.get() {
            Some(instruction) => Ok(instruction),
            None => {
                let instruction = self.decode(pc)?;
                Ok(slot.get_or_init(|| instruction))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn decode(&self, pc: u64) -> Result<Instruction, Missing> {
        let start = (pc - self.base) as usize;
        if !start.is_multiple_of(4) {
            return Err(Missing::Illegal);
        }
        let bytes = &self.bytes[start..start + MAX_INSTRUCTION_BYTES];
        let Decoded { text, site, parts, exec } = decode(self.arch, self.lanes, pc, bytes)
            .map_err(Missing::NoDisassembler)?
            .ok_or_else(|| unnamed(bytes))?;
        let exec = if self.checked { checks::checked(exec, &site, &text, &parts) } else { exec };
        let exec = exec.map_err(|Unsupported| Missing::Unimplemented(text.clone()))?;
        let directs = text.starts_with("s_") || text.starts_with("ds_gws_");
        Ok(Instruction { exec, site, text: text.into_boxed_str(), parts: parts.into(), directs })
    }
}

/// Returns why bytes cannot be disassembled: the memory is empty, or the instruction may be newer than the
/// disassembler.
fn unnamed(bytes: &[u8]) -> Missing {
    match bytes.first_chunk().map(|word| u32::from_le_bytes(*word)) {
        None | Some(0 | u32::MAX) => Missing::Illegal,
        Some(word) => Missing::Unnamed(word),
    }
}

/// A decoded instruction. The interpreter may be unable to execute it.
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) site: Site,
    /// Parsed text of the instruction. Empty if the text could not be parsed.
    pub(crate) parts: Vec<Text>,
    pub(crate) exec: Bound,
}

/// Decodes the instruction at the start of `bytes`; returns `None` if the bytes are not an instruction.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub(crate) fn decode(
    arch: Arch,
    lanes: usize,
    address: u64,
    bytes: &[u8],
) -> Result<Option<Decoded>, String> {
    let name = |bytes: &[u8]| named(arch, address, bytes);
    let Some((text, size)) = name(bytes)? else { return Ok(None) };
    let immediate = match bytes {
        [low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };
    let site = Site { arch, lanes, address, size, immediate };
    let (text, lost) = lost_bits::completed(&site, bytes, text, &name)?;
    if !lost.is_empty() {
        let text = lost_bits::refusal(&text, bytes, size, &lost);
        return Ok(Some(Decoded { text, site, parts: Vec::new(), exec: Err(Unsupported) }));
    }
    let (parts, exec) = match parse(&text, &site) {
        Ok(parts) => {
            let exec = bind(&parts, ops::bind);
            (parts, exec)
        }
        Err(Unsupported) => (Vec::new(), Err(Unsupported)),
    };
    Ok(Some(Decoded { text, site, parts, exec }))
}

fn named(arch: Arch, address: u64, bytes: &[u8]) -> Named {
    match disassembler::disassemble(arch, address, bytes)? {
        None => unnamed::name(arch, address, bytes),
        // LLVM has a name for a dword of zeros, which hardware reserves as illegal from GFX10 on.
        Some((text, _)) if text == "v_illegal" => Ok(None),
        named => Ok(named),
    }
}

/// Parses the text of an instruction, or of a dual-issue pair.
pub fn parse(text: &str, site: &Site) -> Result<Vec<Text>, Unsupported> {
    text.split(" :: ").map(|text| Text::parse(text, site)).collect()
}

/// Binds an instruction, or both instructions of a dual-issue pair, with the function `one`.
pub(crate) fn bind(parts: &[Text], one: impl Fn(&Text) -> Bound) -> Bound {
    match parts {
        [text] => one(text),
        [first, second] => dual((first, one(first)?), (second, one(second)?)),
        _ => Err(Unsupported),
    }
}

/// Cache of instructions for waves on a detour. A wave is on a detour if it has a rounding mode other than to nearest
/// even, or is in indexing mode. The key consists of the address, the rounding bits of MODE, and M0 in indexing mode.
/// The value is `None` if the detour does not affect the instruction.
#[derive(Default)]
pub struct Detours(HashMap<Detour, Option<Box<dyn Exec>>>);

type Detour = (u64, u32, Option<u32>);

impl Detours {
    /// Returns the instruction for a wave on a detour; `None` if the detour does not affect the instruction.
    pub fn find(
        &mut self,
        text: &str,
        site: &Site,
        parts: &[Text],
        wave: &Wave,
        checked: bool,
    ) -> Result<Option<&dyn Exec>, Unsupported> {
        // Neither indexing mode nor the rounding mode affects instructions with an immediate.
        let mode = wave.mode() & Field::ALL;
        let m0 = wave.indexes().then(|| wave.scalar[usize::from(register::M0)]);
        let exec = match self.0.entry((site.address, mode, m0)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let mut parts = parts.to_vec();
                let mut exec = bind_detour(&mut parts, mode, m0)?;
                if checked && let Some(unchecked) = exec {
                    exec = Some(checks::checked(Ok(unchecked), site, text, &parts)?);
                }
                place.insert(exec)
            }
        };
        Ok(exec.as_deref())
    }
}

/// Binds an instruction, or a dual-issue pair, with M0 added to its register numbers (if `m0` is `Some`) and with the
/// rounding mode in `mode`. Returns `None` if neither affects the instruction.
fn bind_detour(
    texts: &mut [Text],
    mode: u32,
    m0: Option<u32>,
) -> Result<Option<Box<dyn Exec>>, Unsupported> {
    let mut changed = false;
    for text in texts.iter_mut() {
        if let Some(m0) = m0
            && let Some(moved) = ops::moved(text, m0)?
        {
            (*text, changed) = (moved, true);
        }
    }
    let changed = Cell::new(changed);
    let exec = bind(texts, |text| match ops::bind_rounded(text, mode) {
        None => ops::bind(text),
        Some(rounded) => {
            changed.set(true);
            rounded
        }
    });
    if changed.get() { exec.map(Some) } else { Ok(None) }
}

/// Executes two operations as a dual-issue pair: both read their sources before one of them writes.
fn dual(
    (first, first_exec): (&Text, Box<dyn Exec>),
    (second, second_exec): (&Text, Box<dyn Exec>),
) -> Bound {
    let target = first.row(0, 1)?;
    // Operand 0 of the second instruction counts as a source, because `fmac` reads it.
    let conflict = second.operands.iter().any(|operand| match operand.base {
        Base::Vector { first, count } => {
            (usize::from(first)..usize::from(first + count)).contains(&target)
        }
        _ => false,
    });
    on_machine(move |wave, machine| {
        if !conflict {
            first_exec.run(wave, machine)?;
            return second_exec.run(wave, machine);
        }
        let before: Row = wave.vector[target];
        first_exec.run(wave, machine)?;
        let after = std::mem::replace(&mut wave.vector[target], before);
        second_exec.run(wave, machine)?;
        wave.vector[target] = after;
        Ok(())
    })
}

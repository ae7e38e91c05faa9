//! Decoded code, kept per page of code memory for the life of the process.

pub mod line;

use std::{
    cell::Cell,
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError},
};

use device::Arch;

use crate::{
    AddressSpace, checks,
    disassembler::{self, LONGEST},
    exec::{Bound, Exec, on_machine},
    lost_bits, ops,
    registers::Row,
    rounding::Field,
    text::{Base, Site, Text, Unsupported, register},
    unnamed::{self, Named},
    wave::Wave,
};

pub(crate) const PAGE: u64 = 4096;

/// Pages that are found at once: more than most kernels have.
const NEAR: usize = 64;

/// A decoded instruction.
pub(crate) struct Instruction {
    pub(crate) exec: Box<dyn Exec>,
    pub(crate) site: Site,
    pub(crate) text: Box<str>,
    /// What the text says, of two that are issued at once both.
    pub(crate) parts: Arc<[Text]>,
    /// Whether it may direct the wave elsewhere, stop it, or change what instructions do. None but scalar ones does, and those at
    /// which waves of all workgroups meet.
    pub(crate) directs: bool,
}

/// A page of code with the instructions decoded so far. The bytes tell when other code has come to
/// lie at the same address.
pub(crate) struct Page {
    pub(crate) base: u64,
    arch: Arch,
    /// Lanes of the waves that execute it.
    lanes: usize,
    checked: bool,
    bytes: Vec<u8>,
    slots: Box<[OnceLock<Instruction>; (PAGE / 4) as usize]>,
}

/// Why an instruction cannot be had.
pub(crate) enum Missing {
    Unmapped,
    Illegal,
    /// The disassembler has no name for it; its first dword.
    Unnamed(u32),
    Unimplemented(String),
    NoDisassembler(String),
}

/// By architecture, lanes of a wave, whether instructions are looked at, and address.
type Pages = HashMap<(Arch, usize, bool, u64), Arc<Page>>;
static PAGES: LazyLock<Mutex<Pages>> = LazyLock::new(Mutex::default);

/// Tells the texts of the instructions that waves have come by in this code, which they decode one by one as they do.
pub(crate) fn decoded(arch: Arch, start: u64, code: &[u8], mut tell: impl FnMut(&str)) {
    let end = start + code.len() as u64;
    let pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    for page in pages.values().filter(|page| page.arch == arch) {
        let (from, to) = (start.max(page.base), end.min(page.base + PAGE));
        if from >= to {
            continue;
        }
        // Of code that lay here before, the page may still tell.
        let here = &code[(from - start) as usize..(to - start) as usize];
        let there = &page.bytes[(from - page.base) as usize..(to - page.base) as usize];
        if here == there {
            page.slots.iter().filter_map(OnceLock::get).for_each(|one| tell(&one.text));
        }
    }
}

/// The pages that one launch uses, each checked once against memory.
pub struct Code<'a> {
    arch: Arch,
    lanes: usize,
    /// Its instructions are looked at while they run.
    checked: bool,
    space: &'a dyn AddressSpace,
    pages: Vec<Arc<Page>>,
    /// Where in `pages` one was found last, by the low bits of its number: waves that take turns are in different ones.
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

    /// Reads the code that lies in memory, for whoever looks on while it is executed.
    pub(crate) fn reader<'b>(site: &Site, space: &'b dyn AddressSpace) -> checks::Reader<'b> {
        let mut code = Code::new(site.arch, site.lanes, false, space);
        Box::new(move |pc| Some(code.page(pc).ok()?.instruction(pc).ok()?.parts.clone()))
    }

    /// The page that holds `pc`.
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

    /// The decoded page, if memory still holds what was decoded; else a fresh one.
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
                // Where a launch still executes it, it stays as it is.
                if let Some(before) = before.and_then(Arc::into_inner) {
                    page.take_over(before);
                }
                Arc::new(page)
            }
        };
        pages.insert((arch, lanes, checked, base), page.clone());
        Ok(page)
    }

    /// The bytes of the page and of the instruction that may cross its end; zeros where not mapped.
    fn snapshot(&self, pc: u64) -> Result<Vec<u8>, Missing> {
        let base = pc & !(PAGE - 1);
        let range = self.space.range(pc).ok_or(Missing::Unmapped)?;
        let first = base.max(range.start);
        let last = (base + PAGE + LONGEST as u64).min(range.end);
        let mut bytes = vec![0u8; PAGE as usize + LONGEST];
        let target = &mut bytes[(first - base) as usize..(last - base) as usize];
        let source = std::ptr::with_exposed_provenance::<u8>(first as usize);
        // SAFETY: the address space says that first..last is mapped; the target is as long.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        Ok(bytes)
    }
}

impl Page {
    /// Takes the instructions of a page at the same address whose bytes lie here, too.
    fn take_over(&mut self, before: Page) {
        let slots: Box<[OnceLock<Instruction>]> = before.slots;
        for (slot, known) in slots.into_iter().enumerate() {
            // What the disassembler has looked at.
            let bytes = 4 * slot..4 * slot + LONGEST;
            if let Some(instruction) = known.into_inner()
                && before.bytes[bytes.clone()] == self.bytes[bytes]
            {
                self.slots[slot] = OnceLock::from(instruction);
            }
        }
    }

    /// The instruction at `pc`, which is in the page.
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
        let bytes = &self.bytes[start..start + LONGEST];
        let Decoded { text, site, parts, exec } = decode(self.arch, self.lanes, pc, bytes)
            .map_err(Missing::NoDisassembler)?
            .ok_or_else(|| unnamed(bytes))?;
        let exec = if self.checked { checks::checked(exec, &site, &text, &parts) } else { exec };
        let exec = exec.map_err(|Unsupported| Missing::Unimplemented(text.clone()))?;
        let directs = text.starts_with("s_") || text.starts_with("ds_gws_");
        Ok(Instruction { exec, site, text: text.into_boxed_str(), parts: parts.into(), directs })
    }
}

/// What bytes are that have no name: where they are not those of empty memory, perhaps an instruction that is younger than
/// the disassembler.
fn unnamed(bytes: &[u8]) -> Missing {
    match bytes.first_chunk().map(|word| u32::from_le_bytes(*word)) {
        None | Some(0 | u32::MAX) => Missing::Illegal,
        Some(word) => Missing::Unnamed(word),
    }
}

/// An instruction whose text is known, whether or not it can be executed.
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) site: Site,
    /// None where nobody could make sense of the text.
    pub(crate) parts: Vec<Text>,
    pub(crate) exec: Bound,
}

/// Decodes the instruction that `bytes` begin with; `None` if it is no instruction.
///
/// # Errors
/// Without a disassembler for the architecture: why.
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

/// The text and the size of the instruction that `bytes` begin with.
fn named(arch: Arch, address: u64, bytes: &[u8]) -> Named {
    match disassembler::disassemble(arch, address, bytes)? {
        None => unnamed::name(arch, address, bytes),
        // LLVM has a name for the encoding that hardware promises never to use: a dword of zeros from GFX10 on.
        Some((text, _)) if text == "v_illegal" => Ok(None),
        named => Ok(named),
    }
}

/// Reads the text of an instruction, or of two that are issued at once.
pub fn parse(text: &str, site: &Site) -> Result<Vec<Text>, Unsupported> {
    text.split(" :: ").map(|text| Text::parse(text, site)).collect()
}

/// What executes an instruction, or two at once, each of which is bound by `one`.
pub(crate) fn bind(parts: &[Text], one: impl Fn(&Text) -> Bound) -> Bound {
    match parts {
        [text] => one(text),
        [first, second] => dual((first, one(first)?), (second, one(second)?)),
        _ => Err(Unsupported),
    }
}

/// What instructions are for waves on a detour, as far as that was asked: by address, MODE's rounding, and M0 in indexing
/// mode. `None` is an instruction that the detour changes nothing in.
#[derive(Default)]
pub struct Detours(HashMap<Detour, Option<Box<dyn Exec>>>);

type Detour = (u64, u32, Option<u32>);

impl Detours {
    /// What an instruction is for a wave on a detour; `None` is what it is for any other.
    pub fn find(
        &mut self,
        text: &str,
        site: &Site,
        parts: &[Text],
        wave: &Wave,
        checked: bool,
    ) -> Result<Option<&dyn Exec>, Unsupported> {
        // Neither concerns instructions that take an immediate.
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

/// One instruction, or two at once, with the register numbers moved as M0 says, and with another rounding.
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

/// Two operations at once: both read their sources before either writes.
fn dual(
    (first, first_exec): (&Text, Box<dyn Exec>),
    (second, second_exec): (&Text, Box<dyn Exec>),
) -> Bound {
    let target = first.row(0, 1)?;
    // Operand 0 counts as a source: `fmac` reads it.
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

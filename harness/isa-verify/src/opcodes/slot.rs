//! A slot is a kernel with space for the instruction words that are tested. The kernel sets the registers before these
//! words and reads them afterwards.

use std::{collections::HashMap, ops::Range};

use device::Arch;

use super::encodings::{Encoding, FIRST};
use crate::{
    code_object::CodeObject,
    device_memory::{Device, mapped},
    hiprtc,
};

/// Mask of active lanes for most claims. Some lanes are inactive, so that claims also cover those.
pub(super) const EXEC: u64 = 0xf7ff_fffe_fffe_ff7f;
/// Number of vector registers, and of scalar registers, that a slot sets, starting at [`FIRST`].
pub(super) const ROWS: usize = 8;
/// Number of `s_nop 7` instructions that reserve space in the kernel. The space is sufficient for one or two
/// instructions, or for more if the slot has memory.
const ROOM: usize = 8;
const ROOM_WITH_MEMORY: usize = 96;
pub(super) const NOP: u32 = 0xbf80_0007;
/// Number of dwords in the LDS of a slot with memory: at least 16 for each lane.
pub(super) const WORDS: usize = 1024;
const MEMORY: usize = 2048;
/// Byte offset in the LDS at which the [`WORDS`] dwords start. They are near the end of the LDS, so that instructions
/// can have negative offsets.
pub(super) const LOCAL: u32 = 0xf000;

/// Special values of a register: special integers, and zeros, denormals, infinities, and quiet and signalling NaNs of
/// the types f16, f32 and f64. For f64, the value is the upper 32 bits.
const ENDS: [u32; 17] = [
    0x7fc0_1234,
    0xff80_0000,
    0x0000_0001,
    0x8000_8001,
    0x7c00_fc00,
    0x7e00_7e01,
    0x7ff8_0000,
    0x800f_ffff,
    0xfff0_0000,
    0,
    0x8000_0000,
    0x7f80_0001,
    0xfc01_7c01,
    0xffff_ffff,
    0x7fff_7fff,
    0x0000_8000,
    0x1234_5678,
];

/// Initial value of s[0:1], which contains a lane mask.
pub(super) const MASK: u64 = 0x3c3c_a5a5_5a5a_0f0f;

/// Contents of the registers and of memory, before or after an instruction.
#[derive(Clone)]
pub(super) struct State {
    pub(super) lanes: Vec<[u32; ROWS]>,
    /// Contents of s8 and the following registers.
    pub(super) scalars: [u32; ROWS],
    pub(super) exec: u64,
    pub(super) vcc: u64,
    /// Contents of device memory (`memory`) and of the LDS (`local`). Both are empty if the slot has no memory.
    pub(super) memory: Vec<u32>,
    pub(super) local: Vec<u32>,
    /// Contents of s[0:1], which is the lane mask in encodings without a field for the mask.
    mask: u64,
    condition: u32,
}

impl State {
    /// Clears `bits` in each lane mask that the instruction has changed, compared with the state `given`.
    pub(super) fn clear(&mut self, given: &State, bits: u64) {
        let cleared = |old: u64, new: u64| if old == new { new } else { new & !bits };
        let pair = |state: &State| u64::from(state.scalars[0]) | u64::from(state.scalars[1]) << 32;
        let scalar = cleared(pair(given), pair(self));
        (self.scalars[0], self.scalars[1]) = (scalar as u32, (scalar >> 32) as u32);
        self.exec = cleared(given.exec, self.exec);
        self.vcc = cleared(given.vcc, self.vcc);
        self.mask = cleared(MASK, self.mask);
    }

    /// Reduces the state to the part that exists in a wave of 32 lanes.
    pub(super) fn of_32(mut self) -> State {
        self.lanes.truncate(32);
        for mask in [&mut self.exec, &mut self.vcc, &mut self.mask] {
            *mask &= u64::from(u32::MAX);
        }
        self.scalars[1] = 0;
        self
    }

    /// Undoes the changes that the claim made to registers before the run: each register that still has its value in
    /// `changed` gets its value in `given`. Registers that the instruction has overwritten stay as they are.
    pub(super) fn unchange(&mut self, changed: &State, given: &State) {
        let put = |row: usize, now: &mut [u32], then: &[u32], given: &[u32]| {
            if now[row] == then[row] {
                now[row] = given[row];
            }
        };
        // The results are in the first two rows.
        for row in 2..ROWS {
            for (lane, now) in self.lanes.iter_mut().enumerate() {
                put(row, now, &changed.lanes[lane], &given.lanes[lane]);
            }
            put(row, &mut self.scalars, &changed.scalars, &given.scalars);
        }
    }

    /// For each lane in which v8 is a binary32 NaN in both states, copies v8 from the other state, so that the states
    /// do not differ in the NaN.
    pub(super) fn take_nans(&mut self, other: &State) {
        for (lane, other) in self.lanes.iter_mut().zip(&other.lanes) {
            if [lane[0], other[0]].iter().all(|bits| f32::from_bits(*bits).is_nan()) {
                lane[0] = other[0];
            }
        }
    }

    /// Returns a description of the first difference between two states, if there is one.
    pub(super) fn difference(&self, other: &State) -> Option<String> {
        let rows = self.lanes.iter().zip(&other.lanes).enumerate().find_map(|(lane, (a, b))| {
            let row = (0..ROWS).find(|row| a[*row] != b[*row])?;
            Some(format!("v{} of lane {lane} is {:#x}, not {:#x}", row + 8, a[row], b[row]))
        });
        let scalars = || {
            let row = (0..ROWS).find(|row| self.scalars[*row] != other.scalars[*row])?;
            let (a, b) = (self.scalars[row], other.scalars[row]);
            Some(format!("s{} is {a:#x}, not {b:#x}", row + 8))
        };
        let masks = || {
            let of =
                |state: &State| [state.exec, state.vcc, state.mask, u64::from(state.condition)];
            let (a, b) = (of(self), of(other));
            (a != b).then(|| format!("exec, vcc, s[0:1] and scc are {a:x?}, not {b:x?}"))
        };
        let words = |place: &str, a: &[u32], b: &[u32]| {
            let at = (0..a.len()).find(|at| a[*at] != b[*at])?;
            Some(format!("the word at {place}+{:#x} is {:#x}, not {:#x}", 4 * at, a[at], b[at]))
        };
        rows.or_else(scalars)
            .or_else(masks)
            .or_else(|| words("memory", &self.memory, &other.memory))
            .or_else(|| words("LDS", &self.local, &other.local))
    }
}

pub(super) struct Slot {
    arch: Arch,
    pub(super) lanes: usize,
    device: Device,
    image: Vec<u8>,
    at: usize,
    /// Buffer for the contents of device memory, followed by those of the LDS, before and after a run. Empty in a slot
    /// without memory.
    memory: Vec<u32>,
    texts: HashMap<Vec<u32>, Option<String>>,
}

impl Slot {
    pub(super) fn new(arch: Arch, wave64: bool) -> Result<Slot, String> {
        Slot::with(arch, wave64, 0)
    }

    /// Creates a slot with device memory and LDS, for tests of loads and stores.
    pub(super) fn with_memory(arch: Arch, wave64: bool) -> Result<Slot, String> {
        Slot::with(arch, wave64, MEMORY)
    }

    fn with(arch: Arch, wave64: bool, words: usize) -> Result<Slot, String> {
        let options: &[&str] = if wave64 { &["-O1", "-mwavefrontsize64"] } else { &["-O1"] };
        // If vector and accumulator registers share one register file, the kernel must declare the accumulators.
        let has = arch.facts().has_gfx90a_instructions;
        let accumulators = if has && words > 0 { 16..48 } else { 0..0 };
        let code = hiprtc::compile(&kernel(wave64, words > 0, accumulators), arch.name(), options)?;
        let device = Device::new(arch, CodeObject::load(&code));
        let image = device.code.image();
        let room = NOP.to_le_bytes().repeat(room(words > 0));
        let at = image.windows(room.len()).position(|bytes| bytes == room);
        let at = at.ok_or("the kernel has no sequence of `s_nop` for the tested instructions")?;
        let lanes = if wave64 { 64 } else { 32 };
        Ok(Slot {
            arch,
            lanes,
            device,
            image,
            at,
            memory: vec![0; if words > 0 { words + WORDS } else { 0 }],
            texts: HashMap::new(),
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr().addr() as u64
    }

    /// Returns the text of the encoded instruction; `None` if `words` are not exactly one instruction.
    pub(super) fn text(&mut self, words: &[u32]) -> Option<String> {
        if let Some(text) = self.texts.get(words) {
            return text.clone();
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let places = isa::listing(self.arch, &bytes).expect("the stack has a disassembler");
        let whole = |place: &isa::ListedInstruction| {
            // The interpreter rejects instructions with bits that the disassembler's text does not contain. They are
            // left out here.
            let is_refused = place.text.contains("the disassembler leaves out");
            place.offset == 0 && place.size == bytes.len() && !is_refused
        };
        let text = places.into_iter().find(whole).map(|place| place.text);
        self.texts.insert(words.to_vec(), text.clone());
        text
    }

    /// Returns the plain form of an opcode as words and text; `None` if the disassembler does not know the opcode. The
    /// disassembler may accept several encodings, for example one with a vector register where the operand is a mask.
    /// Returns the first one that the interpreter can run, or the first one if it can run none.
    pub(super) fn plain(&mut self, encoding: Encoding, opcode: u32) -> Option<(Vec<u32>, String)> {
        let mut forms = encoding.plain(self.arch, opcode);
        forms.retain(|words| self.text(words).is_some());
        let given = self.given(EXEC, true);
        let runs = forms.iter().position(|words| self.run(words, &given).is_some());
        let words = forms.into_iter().nth(runs.unwrap_or(0))?;
        self.text(&words).map(|text| (words, text))
    }

    /// Returns the initial state of a run, with the lanes in `exec` active and SCC equal to `condition`. In each group
    /// of four lanes, three contain ordinary floats of each width, and one contains special values.
    pub(super) fn given(&self, exec: u64, condition: bool) -> State {
        let value = |lane: usize, row: usize| {
            let seed = (lane as u32 + 1).wrapping_mul(0x9e37_79b9)
                ^ (row as u32 + 1).wrapping_mul(0x85eb_ca6b);
            match lane % 4 {
                0 => ENDS[(lane / 4 * 5 + row * 3) % ENDS.len()],
                _ => 0x3fc0_3c40 ^ seed & 0x8fff_8fff,
            }
        };
        State {
            lanes: (0..self.lanes)
                .map(|lane| std::array::from_fn(|row| value(lane, row)))
                .collect(),
            scalars: std::array::from_fn(|row| value(77, row)),
            exec: exec & (u64::MAX >> (64 - self.lanes)),
            vcc: 0x5a5a_a5a5_0f0f_3c3c & (u64::MAX >> (64 - self.lanes)),
            memory: (0..self.memory.len().saturating_sub(WORDS))
                .map(|at| value(at + 100, at % 7))
                .collect(),
            local: (0..self.memory.len().min(WORDS)).map(|at| value(at + 5000, at % 5)).collect(),
            mask: MASK,
            condition: u32::from(condition),
        }
    }

    /// Runs encoded instructions and returns the state afterwards; `None` if the interpreter does not support one of
    /// them.
    pub(super) fn run(&mut self, words: &[u32], given: &State) -> Option<State> {
        assert!(
            words.len() <= room(!self.memory.is_empty()),
            "the kernel has no room for {words:x?}"
        );
        let mut image = self.image.clone();
        for (place, word) in words.iter().enumerate() {
            image[self.at + 4 * place..][..4].copy_from_slice(&word.to_le_bytes());
        }
        self.device.code.restore(&image);
        let mut input: Vec<u32> = given.lanes.iter().flatten().copied().collect();
        input.resize(64 * ROWS, 0);
        input.extend(given.scalars);
        let halves = |mask: u64| [mask as u32, (mask >> 32) as u32];
        input.extend(halves(given.exec));
        input.extend(halves(given.vcc));
        input.push(given.condition);
        let mut output = vec![0u32; input.len() + 2];
        let (memory, local) = self.memory.split_at_mut(given.memory.len());
        memory.copy_from_slice(&given.memory);
        local.copy_from_slice(&given.local);
        let ranges = [mapped(&output), mapped(&input), mapped(&self.memory)];
        let arguments = [&mut output, &mut input, &mut self.memory].map(Into::into);
        self.device
            .launch("slot", [1, 1, 1], [self.lanes as u32, 1, 1], 0, &arguments, &ranges)
            .ok()?;
        let (rows, rest) = output.split_at(64 * ROWS);
        let word = |at: usize| u64::from(rest[at]) | u64::from(rest[at + 1]) << 32;
        Some(State {
            lanes: rows
                .chunks_exact(ROWS)
                .take(self.lanes)
                .map(|row| row.try_into().expect("rows"))
                .collect(),
            scalars: rest[..ROWS].try_into().expect("rows"),
            exec: word(ROWS),
            vcc: word(ROWS + 2),
            memory: self.memory[..given.memory.len()].to_vec(),
            local: self.memory[given.memory.len()..].to_vec(),
            condition: rest[ROWS + 4],
            mask: word(ROWS + 5),
        })
    }
}

fn room(memory: bool) -> usize {
    if memory { ROOM_WITH_MEMORY } else { ROOM }
}

/// Returns the HIP source code of a slot's kernel. The kernel loads the registers, reserves space for the tested
/// instructions, and then stores the registers. With `memory`, the kernel also copies data into the LDS before the
/// tested instructions and out of it afterwards.
fn kernel(wave64: bool, memory: bool, accumulators: Range<u32>) -> String {
    let each = |of: &dyn Fn(usize) -> String| (0..ROWS).map(of).collect::<Vec<_>>();
    let masks = ["e0", "e1", "c0", "c1", "q", "m0", "m1"];
    let copy = |to: &str, from: u32| match wave64 {
        true => format!("s_mov_b64 {to}, s[{from}:{}]\\n", from + 1),
        false => format!("s_mov_b32 {to}_lo, s{from}\\n"),
    };
    let kept = |to: u32, from: &str| match wave64 {
        true => format!("s_mov_b64 s[{to}:{}], {from}\\n", to + 1),
        false => format!("s_mov_b32 s{to}, {from}_lo\\ns_mov_b32 s{}, 0\\n", to + 1),
    };
    let text = format!(
        "{}{}s_mov_b32 s0, {:#x}\\ns_mov_b32 s1, {:#x}\\n{}s_cmp_lg_u32 s46, 0\\n{}\
         s_cselect_b32 s46, 1, 0\\n{}{}{}",
        kept(48, "exec"),
        copy("vcc", 42),
        MASK as u32,
        MASK >> 32,
        copy("exec", 40),
        format!(".long {NOP}\\n").repeat(room(memory)),
        kept(40, "exec"),
        copy("exec", 48),
        kept(42, "vcc"),
    );
    let mut outputs = each(&|row| format!("\"+{{v{}}}\"(r{row})", row + FIRST as usize));
    outputs.extend(each(&|row| format!("\"+{{s{}}}\"(s{row})", row + FIRST as usize)));
    let places = [40, 41, 42, 43, 46, 0, 1];
    outputs.extend(masks.iter().zip(places).map(|(name, at)| format!("\"+{{s{at}}}\"({name})")));
    let clobbers: Vec<String> = (2..8)
        .chain(16..32)
        .chain(48..50)
        .map(|s| format!("\"s{s}\""))
        .chain((0..8).chain(16..48).map(|v| format!("\"v{v}\"")))
        .chain(accumulators.map(|a| format!("\"a{a}\"")))
        .collect();
    let (local, back) = match memory {
        true => {
            // The number of iterations must be the same for each lane.
            let lanes = if wave64 { 64 } else { 32 };
            let each =
                format!("for (unsigned n = 0, k = i; n < {}; n++, k += {lanes})", WORDS / lanes);
            // The compiler does not know the instructions that are inserted later. This statement prevents the
            // assumption that they leave the LDS and memory unchanged.
            let known = "asm volatile(\"\" : : \"v\"((Local)local) : \"memory\");";
            let at = format!("local[{} + k]", LOCAL / 4);
            (
                format!(
                    "__shared__ unsigned local[16384];\n{each} {at} = m[{MEMORY} + k];\n{known}\n"
                ),
                format!("{each} m[{MEMORY} + k] = {at};\n"),
            )
        }
        false => Default::default(),
    };
    format!(
        "typedef __attribute__((address_space(3))) unsigned *Local;\n\
         extern \"C\" __global__ void slot(unsigned *o, const unsigned *in, unsigned *m) {{\n\
         unsigned i = threadIdx.x;\n{}{}{}unsigned m0 = 0, m1 = 0;\n{local}\
         asm volatile(\"{text}\" : {} : : \"vcc\", \"scc\", \"memory\", {});\n{back}{}\
         if (i == 0) {{ {}{} }}\n}}\n",
        each(&|row| format!("unsigned r{row} = in[i * {ROWS} + {row}];\n")).concat(),
        each(&|row| format!("unsigned s{row} = in[{} + {row}];\n", 64 * ROWS)).concat(),
        (0..5)
            .map(|at| format!("unsigned {} = in[{}];\n", masks[at], 65 * ROWS + at))
            .collect::<String>(),
        outputs.join(", "),
        clobbers.join(", "),
        each(&|row| format!("o[i * {ROWS} + {row}] = r{row};\n")).concat(),
        each(&|row| format!("o[{} + {row}] = s{row}; ", 64 * ROWS)).concat(),
        masks
            .iter()
            .enumerate()
            .map(|(at, name)| format!("o[{}] = {name}; ", 65 * ROWS + at))
            .collect::<String>(),
    )
}

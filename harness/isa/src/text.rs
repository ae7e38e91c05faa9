//! Parses the text of an instruction, as the disassembler prints it.

use device::{Arch, MatrixUnit};

/// Numbers of the scalar registers that have a name. Numbers up to `M0` follow the operand encoding of GFX9. Larger
/// numbers are internal to the interpreter.
pub mod register {
    pub(crate) const FLAT_SCRATCH: u16 = 102;
    pub(crate) const XNACK_MASK: u16 = 104;
    /// Default destination of carries and comparisons.
    pub const VCC: u16 = 106;
    pub(crate) const TTMP: u16 = 108;
    /// Register that many instructions use as an index or an offset.
    pub const M0: u16 = 124;
    /// Mask of the active lanes.
    pub const EXEC: u16 = 126;
    /// Condition code of scalar instructions: 0 or 1.
    pub const SCC: u16 = 128;
    /// First of 16 registers that receive writes to `null`.
    pub(crate) const NULL: u16 = 130;
    pub(crate) const COUNT: usize = 146;
    /// Row of the first accumulation register, `a0`.
    pub(crate) const ACCUMULATION: u16 = 256;
}

/// Upper half of all flat addresses in the LDS (`SHARED_APERTURE`) and in scratch memory (`PRIVATE_APERTURE`).
/// `src_shared_base`, `src_private_base` and HW_REG_SH_MEM_BASES must contain the same numbers.
pub const SHARED_APERTURE: u32 = 0x0002_0000;
pub(crate) const PRIVATE_APERTURE: u32 = 0x0001_0000;

/// A constant operand. Its bits depend on the operand type of the instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// An inline integer, printed in decimal.
    Inline(i64),
    /// A literal, printed in hexadecimal.
    Literal(u64),
    /// An inline float.
    Float(f64),
}

/// An operand without its modifiers.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// Vector registers. Accumulation registers follow `v255`.
    Vector {
        /// Number of the first register.
        first: u16,
        /// Number of registers.
        count: u16,
    },
    /// Scalar registers.
    Scalar {
        /// Number of the first register.
        first: u16,
        /// Number of registers.
        count: u16,
    },
    /// A constant.
    Constant(Constant),
    /// A constant whose bits do not depend on the operand type, for example `src_shared_base`.
    Bits(u64),
    /// `null`, which reads as zero and discards writes.
    Null,
    /// `off`, which means that the address contains no register.
    Off,
    /// A symbolic operand, for example `hwreg(...)` or `sendmsg(...)`.
    Word(String),
}

/// One operand with its modifiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub base: Base,
    pub negate: bool,
    pub absolute: bool,
    pub(crate) sign_extend: bool,
    /// True for the suffix `.h`, which selects the upper half of a register. The suffix `.l`, or no suffix, selects the
    /// lower half.
    pub high: bool,
    /// True if the operand has the suffix `.l` or `.h`.
    pub(crate) half: bool,
}

/// Properties of an instruction that are not part of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Architecture of the code.
    pub arch: Arch,
    /// Number of lanes of the wave that executes the instruction. The disassembler does not know this number and prints
    /// registers as for the default number of lanes.
    pub lanes: usize,
    /// Address of the instruction.
    pub address: u64,
    /// Size of the instruction in bytes.
    pub size: u64,
    /// Lower half of the first dword: the immediate of SOPP and SOPK, or the offset of DS.
    pub immediate: u16,
}

impl Site {
    /// Returns the properties of an 8-byte instruction at address 0, in a wave of the default size.
    pub fn for_arch(arch: Arch) -> Site {
        Site { arch, lanes: arch.wave_size() as usize, address: 0, size: 8, immediate: 0 }
    }
}

/// A parsed instruction.
#[derive(Clone, Debug)]
pub struct Text {
    /// Mnemonic without the suffix of the encoding, for example `_e64`.
    pub mnemonic: String,
    /// Operands, in the order of the text.
    pub operands: Vec<Operand>,
    /// Modifiers after the operands, for example `offset:16` or `glc`.
    modifiers: Vec<(String, String)>,
    pub(crate) site: Site,
}

/// Error for an instruction that the interpreter does not support. The caller adds the text of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

impl Text {
    /// Parses the text of one instruction.
    pub fn parse(text: &str, site: &Site) -> Result<Text, Unsupported> {
        let text = text.split("//").next().unwrap_or_default().trim();
        let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mnemonic = strip_encoding(mnemonic);
        let mut parsed =
            Text { mnemonic, operands: Vec::new(), modifiers: Vec::new(), site: *site };
        if has_no_operands_of_interest(&parsed.mnemonic) {
            return Ok(parsed);
        }
        let mut parts = split(rest, ',');
        if let Some(last) = parts.pop() {
            let mut words = split(last, ' ').into_iter().filter(|w| !w.is_empty()).peekable();
            if let Some(word) = words.peek()
                && (!parts.is_empty() || parse_operand(word).is_some_and(|o| o.is_register()))
            {
                parts.push(words.next().unwrap_or_default());
            } else if let Some(word) = words.peek()
                && !word.contains(':')
            {
                parts.push(words.next().unwrap_or_default());
            }
            for word in words {
                let (name, value) = word.split_once(':').unwrap_or((word, ""));
                parsed.modifiers.push((name.to_owned(), value.to_owned()));
            }
        }
        for part in parts {
            parsed.operands.push(parse_operand(part).ok_or(Unsupported)?);
        }
        parsed.fit_to_wave();
        Ok(parsed)
    }

    /// Halves the number of registers of matrix operands in an RDNA wave of 64 lanes. The disassembler assumes waves of
    /// 32 lanes, in which a matrix occupies twice as many registers per lane. The operands A and B on GFX11 are
    /// unchanged, because GFX11 stores two copies of them (the RDNA 3 and RDNA 4 ISA guides, "WMMA").
    fn fit_to_wave(&mut self) {
        if self.site.lanes != 64 || self.site.arch.wave_size() != 32 {
            return;
        }
        let name = self.mnemonic.as_str();
        let halved: &[usize] = if name.starts_with("global_load_tr_") {
            &[0]
        } else if name.starts_with("v_wmma_") || name.starts_with("v_swmmac_") {
            match self.site.arch.facts().matrix {
                MatrixUnit::WmmaSpread => &[0, 1, 2, 3],
                MatrixUnit::WmmaRepeated => &[0, 3],
                // Waves of GFX1250 have 32 lanes.
                MatrixUnit::Absent | MatrixUnit::Mfma | MatrixUnit::Wmma1250 => return,
            }
        } else {
            return;
        };
        for index in halved {
            if let Some(Base::Vector { count, .. }) =
                self.operands.get_mut(*index).map(|o| &mut o.base)
            {
                *count = count.div_ceil(2);
            }
        }
    }

    pub(crate) fn operand(&self, index: usize) -> Result<&Operand, Unsupported> {
        self.operands.get(index).ok_or(Unsupported)
    }

    /// Returns true if the instruction has a modifier of this name.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|(name, _)| name == modifier)
    }

    pub(crate) fn value(&self, modifier: &str) -> Option<&str> {
        self.modifiers.iter().find(|(name, _)| name == modifier).map(|(_, value)| value.as_str())
    }

    /// Returns the number after a modifier, for example 16 for `offset:16`; 0 if the instruction does not have the
    /// modifier. A number of more than 32 bits is not supported, because no field is larger.
    pub fn number(&self, modifier: &str) -> Result<i64, Unsupported> {
        let Some(text) = self.value(modifier) else { return Ok(0) };
        integer(text).filter(|number| i32::try_from(*number).is_ok()).ok_or(Unsupported)
    }

    /// Returns the list after a modifier, for example `op_sel:[0,1]`; `None` if the instruction does not have the
    /// modifier.
    pub fn list(&self, modifier: &str) -> Option<Vec<u8>> {
        let inner = self.value(modifier)?.strip_prefix('[')?.strip_suffix(']')?;
        inner.split(',').map(|item| item.trim().parse().ok()).collect()
    }

    pub(crate) fn drop_modifier(&mut self, modifier: &str) {
        self.modifiers.retain(|(name, _)| name != modifier);
    }

    /// Rejects the instruction if it has a modifier that is not in `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Unsupported> {
        if self.modifiers.iter().all(|(name, _)| known.contains(&name.as_str())) {
            Ok(())
        } else {
            Err(Unsupported)
        }
    }

    pub(crate) fn modifier_names(&self) -> impl Iterator<Item = &str> {
        self.modifiers.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn is_gfx9(&self) -> bool {
        self.site.arch.facts().microcode.is_gfx9()
    }

    /// Returns the target address of a SOPP branch.
    pub fn branch_target(&self) -> u64 {
        let offset = i64::from(self.site.immediate as i16) * 4;
        (self.site.address + 4).wrapping_add_signed(offset)
    }

    pub(crate) fn next_address(&self) -> u64 {
        self.site.address + self.site.size
    }
}

impl Operand {
    fn is_register(&self) -> bool {
        !matches!(self.base, Base::Word(_))
    }
}

fn has_no_operands_of_interest(mnemonic: &str) -> bool {
    ["s_waitcnt", "s_wait_", "s_delay_alu", "s_sendmsg", "s_nop", "s_branch", "s_cbranch"]
        .iter()
        .any(|prefix| mnemonic.starts_with(prefix) && !mnemonic.starts_with("s_sendmsg_rtn"))
}

fn strip_encoding(mnemonic: &str) -> String {
    let mut name = mnemonic;
    for suffix in ["_dpp", "_sdwa", "_e64", "_e32"] {
        name = name.strip_suffix(suffix).unwrap_or(name);
    }
    match name.strip_prefix("v_dual_") {
        Some(rest) => format!("v_{rest}"),
        None => name.to_owned(),
    }
}

fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if letter == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
        None => digits.parse().ok()?,
    };
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

fn enclosed<'a>(text: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    text.strip_prefix(prefix)?.strip_suffix(suffix)
}

fn parse_operand(text: &str) -> Option<Operand> {
    let mut rest = text.trim();
    let mut operand = Operand {
        base: Base::Off,
        negate: false,
        absolute: false,
        sign_extend: false,
        high: false,
        half: false,
    };
    loop {
        if let Some(inner) = enclosed(rest, "neg(", ")") {
            operand.negate = true;
            rest = inner;
        } else if let Some(inner) = enclosed(rest, "abs(", ")").or(enclosed(rest, "|", "|")) {
            operand.absolute = true;
            rest = inner;
        } else if let Some(inner) = enclosed(rest, "sext(", ")") {
            operand.sign_extend = true;
            rest = inner;
        } else if let Some(inner) = enclosed(rest, "lit64(", ")") {
            // A 32-bit literal is extended according to the type of the operand. `lit64` marks a 64-bit literal, which
            // is used unchanged.
            if let Some(bits) =
                inner.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
                && u32::try_from(bits).is_ok()
            {
                operand.base = Base::Bits(bits);
                return Some(operand);
            }
            rest = inner;
        } else if let Some(inner) = enclosed(rest, "lit(", ")") {
            rest = inner;
        } else if let Some(inner) = rest.strip_prefix('-')
            && !inner.starts_with(|c: char| c.is_ascii_digit())
        {
            operand.negate = true;
            rest = inner;
        } else {
            break;
        }
    }
    if let Some(inner) = rest.strip_suffix(".h") {
        (operand.high, operand.half) = (true, true);
        rest = inner;
    } else if let Some(inner) = rest.strip_suffix(".l") {
        operand.half = true;
        rest = inner;
    }
    operand.base = parse_base(rest)?;
    Some(operand)
}

pub(crate) fn parse_base(text: &str) -> Option<Base> {
    let scalar = |first, count| Some(Base::Scalar { first, count });
    match text {
        "" => return None,
        "off" => return Some(Base::Off),
        "null" => return Some(Base::Null),
        "vcc" => return scalar(register::VCC, 2),
        "vcc_lo" => return scalar(register::VCC, 1),
        "vcc_hi" => return scalar(register::VCC + 1, 1),
        "exec" => return scalar(register::EXEC, 2),
        "exec_lo" => return scalar(register::EXEC, 1),
        "exec_hi" => return scalar(register::EXEC + 1, 1),
        "m0" => return scalar(register::M0, 1),
        "scc" | "src_scc" => return scalar(register::SCC, 1),
        "flat_scratch" => return scalar(register::FLAT_SCRATCH, 2),
        "flat_scratch_lo" => return scalar(register::FLAT_SCRATCH, 1),
        "flat_scratch_hi" => return scalar(register::FLAT_SCRATCH + 1, 1),
        "xnack_mask" => return scalar(register::XNACK_MASK, 2),
        "xnack_mask_lo" => return scalar(register::XNACK_MASK, 1),
        "xnack_mask_hi" => return scalar(register::XNACK_MASK + 1, 1),
        "src_shared_base" => return Some(Base::Bits(u64::from(SHARED_APERTURE) << 32)),
        "src_private_base" => return Some(Base::Bits(u64::from(PRIVATE_APERTURE) << 32)),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix("ttmp")
        && let Some((first, count)) = registers(rest)
    {
        let limit = register::M0 - register::TTMP;
        let inside = first.checked_add(count).is_some_and(|end| end <= limit);
        return if inside { scalar(register::TTMP + first, count) } else { None };
    }
    for (prefix, vector, base) in
        [("s", false, 0), ("v", true, 0), ("a", true, register::ACCUMULATION)]
    {
        if let Some(rest) = text.strip_prefix(prefix)
            && let Some((first, count)) = registers(rest)
        {
            let first = first.checked_add(base)?;
            let limit = if vector { 2 * register::ACCUMULATION } else { register::VCC };
            if first.checked_add(count)? > limit {
                return None;
            }
            return if vector { Some(Base::Vector { first, count }) } else { scalar(first, count) };
        }
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return Some(Base::Constant(Constant::Literal(u64::from_str_radix(hex, 16).ok()?)));
    }
    if text.starts_with("-0x") {
        return Some(Base::Constant(Constant::Inline(integer(text)?)));
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let constant = match text.parse() {
            Ok(value) => Constant::Inline(value),
            Err(_) => Constant::Float(text.parse().ok()?),
        };
        return Some(Base::Constant(constant));
    }
    Some(Base::Word(text.to_owned()))
}

/// Parses `5` or `[4:7]` into the first register and the number of registers.
fn registers(text: &str) -> Option<(u16, u16)> {
    if let Some(range) = enclosed(text, "[", "]") {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        return Some((first, last.checked_sub(first)?.checked_add(1)?));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((text.parse().ok()?, 1))
}

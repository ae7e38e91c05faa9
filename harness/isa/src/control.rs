//! Modifiers of vector instructions that are not part of an operand: they select the lanes that are written and the
//! lanes from which the first source operand is read, and they scale or clamp the result.

use crate::{
    registers::HALF,
    source::{Place, Source},
    text::{Text, Unsupported},
    value::Type,
    wave::Wave,
};

/// Lanes that an instruction writes, lane permutation of its first source operand, and output modifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    permutation: Option<Box<Permutation>>,
    /// Factor of the float output modifier (`mul` or `div`).
    pub(crate) scale: Option<f32>,
    /// True if `mul` and `div` also apply when MODE enables denormals, as on GFX12 (the RDNA 4 guide, "Output Operand
    /// Modifiers").
    pub(crate) always_scales: bool,
    pub(crate) clamp: bool,
    /// True if `MODE.DX10_CLAMP` decides whether `clamp` keeps a NaN.
    pub(crate) asks_dx10_clamp: bool,
    /// True if the result of a division by zero stays infinite under `MODE.FP16_OVFL`.
    pub(crate) divides: bool,
}

#[derive(Clone, Debug)]
struct Permutation {
    source: Place,
    /// For each lane, the lane from which it reads; `None` if that lane would be past the end of a row or wave.
    from: [Option<u8>; 64],
    /// Lanes enabled by `row_mask` and `bank_mask`.
    enabled: u64,
    /// True if lanes without a source lane read zero. Otherwise the instruction does not write these lanes.
    zero: bool,
    /// True if the permutation may also read inactive lanes.
    fetch_inactive: bool,
}

impl Control {
    pub(crate) fn is_plain(&self) -> bool {
        self.permutation.is_none() && self.scale.is_none() && !self.clamp
    }

    /// Permutes the lanes of the first source operand, which has `words` registers. Returns the active lanes that get a
    /// value. Of these lanes, the instruction writes only those that are also in [`Control::rows`].
    #[inline(always)]
    pub(crate) fn begin(&self, wave: &mut Wave, words: usize) -> u64 {
        match &self.permutation {
            None => wave.exec(),
            Some(permutation) => permutation.apply(wave, words),
        }
    }

    /// Returns the lanes whose vector registers `row_mask` and `bank_mask` allow to be written.
    #[inline(always)]
    pub(crate) fn rows(&self) -> u64 {
        self.permutation.as_ref().map_or(u64::MAX, |permutation| permutation.enabled)
    }
}

impl Permutation {
    #[inline(never)]
    fn apply(&self, wave: &mut Wave, words: usize) -> u64 {
        let exec = wave.exec();
        let mut mask = exec;
        for lane in 0..wave.lanes {
            let from = self.from[lane].map(usize::from).filter(|&from| {
                from < wave.lanes && (self.fetch_inactive || exec & (1 << from) != 0)
            });
            if from.is_none() && !self.zero {
                mask &= !(1 << lane);
            }
            for word in 0..words {
                let value = match (from, self.source) {
                    (None, _) => 0,
                    (Some(from), Place::Vector(row)) => wave.lane(usize::from(row) + word, from),
                    (Some(_), Place::Scalar(index)) => wave.scalar[usize::from(index) + word],
                    (Some(_), Place::Constant(bits)) => (bits >> (32 * word)) as u32,
                    (Some(_), Place::Permuted) => 0,
                };
                wave.permuted[word][lane / HALF][lane % HALF] = value;
            }
        }
        mask
    }
}

/// Modifiers that permute the lanes of the first source operand.
pub(crate) const MOVES: [&str; 15] = [
    "quad_perm",
    "row_shl",
    "row_shr",
    "row_ror",
    "wave_shl",
    "wave_rol",
    "wave_shr",
    "wave_ror",
    "row_mirror",
    "row_half_mirror",
    "row_bcast",
    "row_share",
    "row_newbcast",
    "row_xmask",
    "dpp8",
];
const OTHERS: [&str; 12] = [
    "row_mask",
    "bank_mask",
    "bound_ctrl",
    "fi",
    "dst_sel",
    "dst_unused",
    "src0_sel",
    "src1_sel",
    "op_sel",
    "clamp",
    "mul",
    "div",
];

impl Text {
    /// Rejects modifiers that ordinary vector instructions do not have.
    pub(crate) fn only_lane_modifiers(&self) -> Result<(), Unsupported> {
        let known = |name: &str| MOVES.contains(&name) || OTHERS.contains(&name);
        if self.modifier_names().all(known) { Ok(()) } else { Err(Unsupported) }
    }

    /// Returns true if the interpreter does not implement `clamp` for this instruction: it has `clamp` and an integer
    /// result, and the table has no separate operation for it.
    pub(crate) fn lacks_clamp(&self, of: &Type) -> bool {
        of.sign == 0 && self.has("clamp") && !self.mnemonic.ends_with(" clamp")
    }

    /// Returns true if the architecture has `MODE.DX10_CLAMP`, which decides whether `clamp` keeps a NaN. GFX12 has no
    /// such bit and behaves as if it were 0.
    pub(crate) fn asks_dx10_clamp(&self) -> bool {
        self.site.arch.facts().has_ieee_mode
    }

    /// Returns true if a division by zero stays infinite under `MODE.FP16_OVFL`, as the RDNA guides say. A Radeon RX
    /// 9070 XT returns the largest number instead.
    pub(crate) fn divides(&self) -> bool {
        self.site.arch.facts().overflow_spares_divisions
    }

    /// Parses the modifiers that [`Control`] contains. For an instruction that permutes lanes, redirects `first_source`
    /// to the permuted copy.
    pub(crate) fn control(&self, first_source: &mut Source) -> Result<Control, Unsupported> {
        self.only_lane_modifiers()?;
        let scale = match (self.value("mul"), self.value("div")) {
            (None, None) => None,
            (Some("2"), None) => Some(2.0),
            (Some("4"), None) => Some(4.0),
            (None, Some("2")) => Some(0.5),
            _ => return Err(Unsupported),
        };
        let mut control = Control {
            permutation: None,
            scale,
            always_scales: self.site.arch.facts().scales_in_all_modes,
            clamp: self.has("clamp"),
            asks_dx10_clamp: self.asks_dx10_clamp(),
            divides: self.divides(),
        };
        if let Some(from) = self.permutation()? {
            let row_mask = self.value("row_mask").map_or(Ok(15), |_| self.number("row_mask"))?;
            let bank_mask = self.value("bank_mask").map_or(Ok(15), |_| self.number("bank_mask"))?;
            let enabled = (0..64)
                .filter(|lane| {
                    row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane % 16 / 4) & 1 != 0
                })
                .fold(0u64, |mask, lane| mask | 1 << lane);
            control.permutation = Some(Box::new(Permutation {
                source: first_source.place,
                from,
                enabled,
                // The text contains `bound_ctrl:0` or `bound_ctrl:1` for the same bit, depending on the LLVM version.
                zero: self.has("bound_ctrl") || self.has("dpp8"),
                fetch_inactive: self.value("fi") == Some("1"),
            }));
            first_source.place = Place::Permuted;
        }
        Ok(control)
    }

    /// Returns, for each lane, the lane from which it reads; `None` if the instruction does not permute lanes.
    fn permutation(&self) -> Result<Option<[Option<u8>; 64]>, Unsupported> {
        let map = |from: &dyn Fn(usize) -> Option<usize>| {
            let mut lanes = [None; 64];
            for (lane, source) in lanes.iter_mut().enumerate() {
                *source = from(lane).map(|from| from as u8);
            }
            Ok(Some(lanes))
        };
        let lanes = |name: &str, of: u8| match self.list(name) {
            Some(order) if order.iter().any(|lane| *lane >= of) => Err(Unsupported),
            order => Ok(order),
        };
        if let Some(order) = lanes("quad_perm", 4)? {
            let order: [u8; 4] = order.try_into().map_err(|_| Unsupported)?;
            return map(&|lane| Some((lane & !3) + usize::from(order[lane & 3])));
        }
        if let Some(order) = lanes("dpp8", 8)? {
            let order: [u8; 8] = order.try_into().map_err(|_| Unsupported)?;
            return map(&|lane| Some((lane & !7) + usize::from(order[lane & 7])));
        }
        if self.has("row_mirror") {
            return map(&|lane| Some(lane ^ 15));
        }
        if self.has("row_half_mirror") {
            return map(&|lane| Some(lane ^ 7));
        }
        // Shifts stay within a row of 16 lanes. `row_bcast` crosses rows.
        let moves = |name: &str| {
            let most = if name == "row_bcast" { 31 } else { 15 };
            let number = |n: i64| usize::try_from(n).ok().filter(|n| *n <= most);
            self.value(name).map(|_| number(self.number(name)?).ok_or(Unsupported))
        };
        if let Some(n) = moves("row_shl").transpose()? {
            return map(&|lane| (lane % 16 + n < 16).then_some(lane + n));
        }
        if let Some(n) = moves("row_shr").transpose()? {
            return map(&|lane| (lane % 16 >= n).then(|| lane - n));
        }
        if let Some(n) = moves("row_ror").transpose()? {
            return map(&|lane| Some((lane & !15) + (lane + 16 - n) % 16));
        }
        if let Some(n) = moves("row_share").or(moves("row_newbcast")).transpose()? {
            return map(&|lane| Some((lane & !15) + n));
        }
        if let Some(n) = moves("row_xmask").transpose()? {
            return map(&|lane| Some(lane ^ n));
        }
        match moves("row_bcast").transpose()? {
            Some(15) => return map(&|lane| (lane >= 16).then(|| (lane & !15) - 1)),
            Some(31) => return map(&|lane| (lane >= 32).then_some(31)),
            Some(_) => return Err(Unsupported),
            None => {}
        }
        // These modifiers exist on GFX9 only, where waves have 64 lanes.
        if self.has("wave_shl") {
            return map(&|lane| (lane < 63).then_some(lane + 1));
        }
        if self.has("wave_shr") {
            return map(&|lane| lane.checked_sub(1));
        }
        if self.has("wave_rol") {
            return map(&|lane| Some((lane + 1) % 64));
        }
        if self.has("wave_ror") {
            return map(&|lane| Some((lane + 63) % 64));
        }
        Ok(None)
    }
}

//! Claims about instructions. A claim says that an instruction, given by its encoded words, has the same effect as
//! another one, for example as its plain form (see [`super`]) with changed registers. The relation of a claim is a name
//! for what the claim tests, for example "a scalar source".

use std::rc::Rc;

use device::Arch;

use super::{
    encodings::Encoding,
    slot::{EXEC, State},
};

pub(super) type Change = Rc<dyn Fn(&mut State)>;
/// Function that changes two states after the runs so that they can be compared. The arguments are the initial state of
/// both runs, the state after `words`, and the state after `like`.
type After = Box<dyn Fn(&State, &mut State, &mut State)>;

/// A claim that the instruction `words` has the same effect as the instruction `like`, whose run may start with changed
/// registers.
pub(super) struct Claim {
    pub(super) relation: &'static str,
    pub(super) words: Vec<u32>,
    pub(super) like: Vec<u32>,
    /// True if `like` consists of several instructions, which are executed one after another.
    pub(super) in_turn: bool,
    /// Encoded instructions that run before (`first`) and after (`last`) both `words` and `like`.
    pub(super) first: Vec<u32>,
    pub(super) last: Vec<u32>,
    /// Encoded words of the same instruction without the tested modifier or operand. If the disassembler prints the
    /// same text for these words as for `words`, the tested form does not exist, and the claim does not apply.
    pub(super) without: Option<Vec<u32>>,
    /// Part of the text that the disassembler prints for `words` if the tested form exists. The claim does not apply if
    /// the text lacks this part. Empty if every text is allowed.
    pub(super) told: &'static str,
    pub(super) exec: u64,
    /// Initial value of SCC.
    pub(super) condition: bool,
    /// Change of the initial state of both runs, the run of `words` and the run of `like`.
    pub(super) given: Change,
    pub(super) before: Change,
    pub(super) after: After,
}

impl Claim {
    pub(super) fn new(relation: &'static str, words: Vec<u32>, like: Vec<u32>) -> Claim {
        Claim {
            relation,
            words,
            without: Some(like.clone()),
            like,
            in_turn: false,
            first: Vec::new(),
            last: Vec::new(),
            told: "",
            exec: EXEC,
            condition: true,
            given: Rc::new(|_| {}),
            before: Rc::new(|_| {}),
            after: Box::new(|_, _, _| {}),
        }
    }

    pub(super) fn set_before(&mut self, change: impl Fn(&mut State) + 'static) {
        self.before = Rc::new(change);
    }

    pub(super) fn set_after(&mut self, after: impl Fn(&State, &mut State, &mut State) + 'static) {
        self.after = Box::new(after);
    }
}

/// The plain form of an opcode, and the claims about the opcode.
pub(super) struct Plain<'a> {
    pub(super) arch: Arch,
    pub(super) encoding: Encoding,
    pub(super) words: &'a [u32],
    /// Name of the instruction, without the suffix of its encoding.
    pub(super) name: &'a str,
    pub(super) claims: Vec<Claim>,
}

impl Plain<'_> {
    /// Adds the claim that `words` has the effect of the plain form. `words` is `None` if the encoding does not have
    /// such an instruction.
    pub(super) fn claim(&mut self, relation: &'static str, words: Option<Vec<u32>>) -> Made<'_> {
        let Some(words) = words else { return Made(None) };
        self.claims.push(Claim::new(relation, words, self.words.to_vec()));
        Made(self.claims.last_mut())
    }
}

/// A claim that has just been added, which the methods refine; `None` if the encoding does not have the instruction.
pub(super) struct Made<'a>(Option<&'a mut Claim>);

impl Made<'_> {
    fn with(mut self, set: impl FnOnce(&mut Claim)) -> Self {
        if let Some(claim) = &mut self.0 {
            set(claim);
        }
        self
    }

    pub(super) fn like(self, words: Vec<u32>) -> Self {
        self.with(|claim| {
            claim.without = Some(words.clone());
            claim.like = words;
        })
    }

    pub(super) fn before(self, change: impl Fn(&mut State) + 'static) -> Self {
        self.with(|claim| claim.set_before(change))
    }

    pub(super) fn after(self, after: impl Fn(&State, &mut State, &mut State) + 'static) -> Self {
        self.with(|claim| claim.set_after(after))
    }

    pub(super) fn without(self, words: Option<Vec<u32>>) -> Self {
        self.with(|claim| claim.without = words)
    }

    pub(super) fn told(self, told: &'static str) -> Self {
        self.with(|claim| claim.told = told)
    }

    pub(super) fn all_on(self) -> Self {
        self.with_on(u64::MAX)
    }

    pub(super) fn with_on(self, exec: u64) -> Self {
        self.with(|claim| claim.exec = exec)
    }
}

/// Returns the index of the first register of source operand number `source` among the vector registers that a test
/// sets, the first of which is v8.
pub(super) fn row(source: usize) -> usize {
    2 + 2 * source
}

/// Returns a function that applies sign modifiers to the register of a source operand: first `abs` if `absolute` is
/// true, then `neg` if `negate` is true. `bit` is the mask of the sign bit.
pub(super) fn signed(
    row: usize,
    bit: u32,
    negate: bool,
    absolute: bool,
) -> impl Fn(&mut State) + Copy {
    move |state| {
        for lane in &mut state.lanes {
            let value = if absolute { lane[row] & !bit } else { lane[row] };
            lane[row] = if negate { value ^ bit } else { value };
        }
    }
}

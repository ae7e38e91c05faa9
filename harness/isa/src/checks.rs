//! The sanitizer of kernels: what the waves of a launch do is looked at instruction by instruction.
//!
//! A launch that is not watched runs other code: its instructions are decoded without any of this.

pub(crate) mod access;
pub(crate) mod races;

use std::sync::Arc;

use access::Piece;
use races::Races;

use crate::{
    exec::{Bound, Exec},
    ops::memory::Location,
    text::Text,
    wave::{Machine, Step, Wave, active},
};

/// What is known of a launch that is watched.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) races: Races,
    /// Waves of a workgroup.
    pub(crate) waves: usize,
    /// The accesses of the instruction that is being executed.
    touches: Vec<Touch>,
}

/// One access of one lane.
struct Touch {
    /// Which of the instruction's pieces.
    piece: usize,
    at: Location,
}

/// An instruction of a launch that is watched.
struct Checked {
    exec: Box<dyn Exec>,
    pc: u64,
    text: Arc<str>,
    pieces: Vec<Piece>,
}

/// The same instruction, looked at while it runs.
pub(crate) fn checked(exec: Bound, pc: u64, text: &str, parsed: &[Text]) -> Bound {
    let mut pieces = Vec::new();
    for text in parsed {
        // What cannot be told apart is not looked at.
        pieces.extend(access::pieces(text).unwrap_or_default());
    }
    Ok(Box::new(Checked { exec: exec?, pc, text: Arc::from(text), pieces }))
}

impl Exec for Checked {
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let Some(mut checks) = machine.checks.take() else { return self.exec.run(wave, machine) };
        let result = checks.run(self, wave, machine);
        machine.checks = Some(checks);
        result
    }
}

impl Checks {
    fn run(&mut self, checked: &Checked, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        self.touches.clear();
        for (piece, access) in checked.pieces.iter().enumerate() {
            let lanes = if access.uniform { 1 } else { wave.exec() };
            let places = active(lanes).filter_map(|lane| access.of(wave, lane));
            self.touches.extend(places.map(|at| Touch { piece, at }));
        }
        let before = self.local_bytes(checked, machine);
        checked.exec.run(wave, machine)?;
        self.local(checked, wave, machine, &before)
    }

    /// The bytes of the LDS that the instruction touches, one access after the other.
    fn local_bytes(&self, checked: &Checked, machine: &mut Machine<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A single wave races with nobody.
        if self.waves < 2 {
            return bytes;
        }
        for Touch { piece, at } in &self.touches {
            if let Location::Lds(offset) = at
                && let Ok(there) = machine.lds(*offset, checked.pieces[*piece].bytes as usize)
            {
                bytes.extend_from_slice(there);
            }
        }
        bytes
    }

    /// Looks for races in the LDS.
    fn local(
        &mut self,
        checked: &Checked,
        wave: &Wave,
        machine: &mut Machine<'_>,
        mut before: &[u8],
    ) -> Step {
        if before.is_empty() {
            return Ok(());
        }
        self.races.runs(checked.pc, &checked.text);
        for Touch { piece, at } in &self.touches {
            let Location::Lds(offset) = at else { continue };
            let piece = &checked.pieces[*piece];
            let Ok(now) = machine.lds(*offset, piece.bytes as usize) else { continue };
            let Some((was, rest)) = before.split_at_checked(now.len()) else { break };
            before = rest;
            self.races.touch(piece.kind, wave.index, checked.pc, *offset, (was, now))?;
        }
        Ok(())
    }
}

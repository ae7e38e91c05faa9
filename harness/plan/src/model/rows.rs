//! Copies of rows.

use super::{Bytes, Model, Now};
use crate::Place;

impl<'a, B: Bytes> Model<'a, B> {
    /// Copies rows; places come with their pitches.
    pub(crate) fn rows(
        &mut self,
        now: Now<'a>,
        (to, to_pitch): (&Place, u64),
        (from, from_pitch): (&Place, u64),
        width: u64,
        height: u64,
    ) {
        if width == 0 || height == 0 {
            return;
        }
        if let Some(pitch) = [from_pitch, to_pitch].into_iter().find(|pitch| *pitch < width) {
            return self
                .mistake(now.step, format!("rows of {width} bytes have a pitch of {pitch}"));
        }
        let at = |place: &Place, pitch: u64, row: u64| Place {
            buffer: place.buffer.clone(),
            offset: place.offset.saturating_add(row.saturating_mul(pitch)),
        };
        for (place, pitch) in [(from, from_pitch), (to, to_pitch)] {
            if self.range(now.step, &at(place, pitch, height - 1), width).is_none() {
                return;
            }
        }
        let rows = |place: &Place, pitch| {
            let first = place.offset;
            (0..height).map(move |row| first + row * pitch)
        };
        if to.buffer == from.buffer && overlap(rows(from, from_pitch), rows(to, to_pitch), width) {
            return self.mistake(now.step, "the copy overlaps what it reads".to_owned());
        }
        for row in 0..height {
            let Some((data, unknown)) = self.read(now.step, &at(from, from_pitch, row), width)
            else {
                return;
            };
            self.write(now, &at(to, to_pitch, row), &data, &unknown);
        }
    }
}

/// Whether any two ranges of this width, which begin at these places, share a byte; the places rise.
fn overlap(a: impl Iterator<Item = u64>, b: impl Iterator<Item = u64>, width: u64) -> bool {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
        if x.abs_diff(y) < width {
            return true;
        }
        if x < y {
            a.next()
        } else {
            b.next()
        };
    }
    false
}

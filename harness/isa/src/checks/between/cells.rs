//! Who touched each byte of memory last, dword by dword where all accesses are of whole ones.

use std::collections::HashMap;

use super::clock::Time;

/// What happened to a dword, or to a byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    /// The last write; 0 for none, as in all of these.
    pub(super) write: Time,
    /// The first read since then, and the last one of another wave.
    pub(super) reads: [Time; 2],
    /// A synchronising access or an atomic went here.
    pub(super) synchronises: bool,
    /// An atomic that compares went here.
    pub(super) is_swapped: bool,
    /// The last write put there what the one before it had, without an order of the two.
    pub(super) agreed: bool,
}

const PAGE: u64 = 4096;

struct Page {
    /// Bytes of a cell: 1 or 4.
    size: u64,
    cells: Vec<Cell>,
}

/// Memory that nobody touched has no page.
#[derive(Default)]
pub(super) struct Cells {
    pages: Vec<Page>,
    index: HashMap<u64, u32>,
    /// Some pages that were used last, by the low bits of their numbers: number and index.
    recent: [Option<(u64, u32)>; 32],
    len: usize,
}

/// The cells of a range that lie in one page.
pub(super) struct Part<'a> {
    /// Of the first cell.
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) cells: &'a mut [Cell],
    /// Where the rest of the range begins.
    pub(super) end: u64,
}

impl Cells {
    /// The cells of the first part of a range.
    pub(super) fn part(&mut self, start: u64, end: u64) -> Part<'_> {
        let number = start / PAGE;
        let end = end.min((number + 1).saturating_mul(PAGE));
        let recent = &mut self.recent[number as usize % 32];
        let index = match *recent {
            Some((known, index)) if known == number => index,
            _ => {
                let Cells { pages, len, .. } = self;
                let index = *self.index.entry(number).or_insert_with(|| {
                    pages.push(Page { size: 4, cells: vec![Cell::default(); PAGE as usize / 4] });
                    *len += PAGE as usize / 4;
                    pages.len() as u32 - 1
                });
                *recent = Some((number, index));
                index
            }
        };
        let page = &mut self.pages[index as usize];
        if page.size == 4 && !(start.is_multiple_of(4) && end.is_multiple_of(4)) {
            page.cells = page.cells.iter().flat_map(|cell| [*cell; 4]).collect();
            page.size = 1;
            self.len += page.cells.len() * 3 / 4;
        }
        let first = (start % PAGE / page.size) as usize;
        let count = ((end - start) / page.size) as usize;
        Part { start, size: page.size, cells: &mut page.cells[first..first + count], end }
    }

    /// The cell of a byte that was touched.
    pub(super) fn at(&self, address: u64) -> Cell {
        let index = self.index.get(&(address / PAGE));
        index.map_or_else(Cell::default, |index| {
            let page = &self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize]
        })
    }

    /// The last write of a byte put there what was there.
    pub(super) fn agree(&mut self, address: u64) {
        if let Some(index) = self.index.get(&(address / PAGE)) {
            let page = &mut self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize].agreed = true;
        }
    }

    /// How many cells there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

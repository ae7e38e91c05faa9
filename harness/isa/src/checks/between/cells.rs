//! Last accesses of each byte of memory. A dword has one entry if all accesses are to whole dwords.

use std::collections::HashMap;

use super::clock::Time;

/// Access history of a dword or a byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    /// Time of the last write; 0 for none. All times use 0 for none.
    pub(super) write: Time,
    /// First read since the last write, and last read by another wave.
    pub(super) reads: [Time; 2],
    /// True if a synchronising access or an atomic accessed it.
    pub(super) synchronises: bool,
    /// True if a compare-and-swap accessed it.
    pub(super) is_swapped: bool,
    /// True if the last write stored the same value as the previous, unordered one.
    pub(super) agreed: bool,
}

const PAGE: u64 = 4096;

struct Page {
    /// Bytes per cell: 1 or 4.
    size: u64,
    cells: Vec<Cell>,
}

/// Cells by page. Pages without accesses are absent.
#[derive(Default)]
pub(super) struct Cells {
    pages: Vec<Page>,
    index: HashMap<u64, u32>,
    /// Recently used pages, by the low bits of their number: page number and index.
    recent: [Option<(u64, u32)>; 32],
    len: usize,
}

/// The cells of a range that are in one page.
pub(super) struct Part<'a> {
    /// Address of the first cell.
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) cells: &'a mut [Cell],
    /// Start of the rest of the range.
    pub(super) end: u64,
}

impl Cells {
    /// Returns the cells of the first part of a range.
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

    /// Returns the cell of a byte; a default cell if it was not accessed.
    pub(super) fn at(&self, address: u64) -> Cell {
        let index = self.index.get(&(address / PAGE));
        index.map_or_else(Cell::default, |index| {
            let page = &self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize]
        })
    }

    /// Records that the last write of a byte did not change its value.
    pub(super) fn agree(&mut self, address: u64) {
        if let Some(index) = self.index.get(&(address / PAGE)) {
            let page = &mut self.pages[*index as usize];
            page.cells[(address % PAGE / page.size) as usize].agreed = true;
        }
    }

    /// Returns the number of cells.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

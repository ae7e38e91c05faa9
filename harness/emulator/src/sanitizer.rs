//! What the sanitizer knows beyond the address map: who allocated and freed what.
//!
//! While it is on, the map holds allocations by the byte instead of by the page, so that whatever a kernel or a copy
//! touches outside of them is a page fault; this module tells whose neighbour that was.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use crate::config;

/// The step of the plan that the program is at; the maximum before the first one.
static STEP: AtomicU32 = AtomicU32::new(u32::MAX);

#[derive(Clone, Debug)]
struct Allocation {
    start: usize,
    len: usize,
    by: u32,
    freed_by: Option<u32>,
}

/// Every allocation so far, oldest first.
#[derive(Debug)]
struct History(Vec<Allocation>);

static HISTORY: Mutex<History> = Mutex::new(History(Vec::new()));

/// How far from an allocation an address still counts as just outside of it, in bytes.
const NEAR: usize = 1 << 20;

impl History {
    /// Which allocation an address belongs to, or belonged to, or is beside, in words.
    fn describe(&self, address: usize) -> Option<String> {
        let inside = |a: &&Allocation| a.start <= address && address - a.start < a.len;
        let after = |a: &Allocation| address.checked_sub(a.start + a.len);
        let before = |a: &Allocation| a.start.checked_sub(address);
        let newest = self.0.iter().rev();
        if let Some(found) = newest.clone().find(inside) {
            return Some(format!("{} bytes into {found}", address - found.start));
        }
        let live = || newest.clone().filter(|a| a.freed_by.is_none());
        let behind = live().filter_map(|a| Some((after(a)?, a))).min_by_key(|(by, _)| *by);
        let ahead = live().filter_map(|a| Some((before(a)?, a))).min_by_key(|(by, _)| *by);
        match (behind, ahead) {
            (Some((by, a)), other) if by < NEAR && other.is_none_or(|o| by <= o.0) => {
                Some(format!("{by} bytes behind {a}"))
            }
            (_, Some((by, a))) if by < NEAR => Some(format!("{by} bytes before {a}")),
            _ => None,
        }
    }
}

impl std::fmt::Display for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} bytes at {:#x} that {} allocated", self.len, self.start, step(self.by))?;
        match self.freed_by {
            Some(by) => write!(f, " and {} freed", step(by)),
            None => Ok(()),
        }
    }
}

fn step(number: u32) -> String {
    match number {
        u32::MAX => "the runtime".to_owned(),
        number => format!("step {number}"),
    }
}

fn history() -> std::sync::MutexGuard<'static, History> {
    HISTORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether accesses are checked by the byte.
pub(crate) fn is_on() -> bool {
    config::get().sanitize
}

/// Notes an allocation.
pub(crate) fn allocated(start: usize, len: usize) {
    if is_on() {
        let by = STEP.load(Ordering::Relaxed);
        history().0.push(Allocation { start, len, by, freed_by: None });
    }
}

/// Notes that an allocation was freed.
pub(crate) fn freed(start: usize) {
    if is_on() {
        let live = |a: &&mut Allocation| a.start == start && a.freed_by.is_none();
        if let Some(allocation) = history().0.iter_mut().rev().find(live) {
            allocation.freed_by = Some(STEP.load(Ordering::Relaxed));
        }
    }
}

/// What is known of an address that was touched and must not be; empty while the sanitizer is off.
pub(crate) fn describe(address: u64) -> String {
    let known = history().describe(address as usize);
    known.map_or_else(String::new, |known| format!("; {known}"))
}

/// Says which step of the plan comes next.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_step(step: u32) {
    STEP.store(step, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_by_its_neighbour() {
        let allocation = |start, by, freed_by| Allocation { start, len: 100, by, freed_by };
        let history = History(vec![
            allocation(0x10000, u32::MAX, None),
            allocation(0x20000, 3, Some(9)),
            allocation(0x20000, 12, None),
            allocation(0x30000, 4, Some(5)),
        ]);
        #[track_caller]
        fn check(history: &History, address: usize, expected: Option<&str>) {
            assert_eq!(history.describe(address).as_deref(), expected);
        }
        let runtime = "8 bytes behind the 100 bytes at 0x10000 that the runtime allocated";
        check(&history, 0x10000 + 108, Some(runtime));
        check(
            &history,
            0x20000 - 4,
            Some("4 bytes before the 100 bytes at 0x20000 that step 12 allocated"),
        );
        check(
            &history,
            0x20001,
            Some("1 bytes into the 100 bytes at 0x20000 that step 12 allocated"),
        );
        let freed = "16 bytes into the 100 bytes at 0x30000 that step 4 allocated and step 5 freed";
        check(&history, 0x30010, Some(freed));
        check(&history, 0x9000_0000, None);
    }
}

//! Locks that ignore poisoning, so that a call after a panic does not panic, too. The data protected by a lock is
//! consistent at every point where a panic can occur.

use std::{
    sync::{
        self, LockResult, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard,
        WaitTimeoutResult,
    },
    time::Duration,
};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        ignore_poison(self.0.lock())
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        ignore_poison(self.0.read())
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        ignore_poison(self.0.write())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    pub(crate) fn wait<'l, T>(&self, guard: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
        ignore_poison(self.0.wait(guard))
    }

    pub(crate) fn wait_while<'l, T>(
        &self,
        guard: MutexGuard<'l, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'l, T> {
        ignore_poison(self.0.wait_while(guard, condition))
    }

    pub(crate) fn wait_timeout<'l, T>(
        &self,
        guard: MutexGuard<'l, T>,
        limit: Duration,
    ) -> (MutexGuard<'l, T>, WaitTimeoutResult) {
        ignore_poison(self.0.wait_timeout(guard, limit))
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

fn ignore_poison<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

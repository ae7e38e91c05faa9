//! A whole device: one value with all its state, and the assignment of threads to devices.

use std::{
    cell::Cell,
    io,
    marker::PhantomData,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::{
    config::Configuration, copy_engine::Engines, deallocation::Notifiers, dispatch::Dispatches,
    events::Events, faults::FaultSelector, findings::Findings, images::Images, ipc::Shared,
    loader::Loaded, memory::Memory, order::Order, packets::InKernels, part::DeviceComponent,
    queue::Queues, rest::ActiveCount, sanitizer::Sanitizer, schedule::Executor, signal::Signals,
    system::System, system_events::Handlers, transfer::Transfers, vmem::VirtualMemory,
};

/// Declares the parts of a device and implements [`DeviceComponent`](crate::part::DeviceComponent) for each of them.
macro_rules! device {
    (
        after the configuration { $($made:ident: $made_kind:ty = $new:expr,)* }
        empty at first { $($empty:ident: $empty_kind:ty,)* }
    ) => {
        pub(crate) struct Device {
            configuration: Configuration,
            $($made: $made_kind,)*
            $($empty: $empty_kind,)*
        }

        impl Device {
            /// Creates a device that has not been used.
            pub(crate) fn new(configuration: Configuration) -> Device {
                Device {
                    $($made: $new(configuration.get()),)*
                    $($empty: <$empty_kind>::default(),)*
                    configuration,
                }
            }
        }

        part!(configuration: Configuration);
        $(part!($made: $made_kind);)*
        $(part!($empty: $empty_kind);)*
    };
}

macro_rules! part {
    ($part:ident: $kind:ty) => {
        impl DeviceComponent for $kind {
            fn current() -> &'static Self {
                &current().$part
            }

            fn spawn(
                name: &str,
                body: impl FnOnce() + Send + 'static,
            ) -> io::Result<JoinHandle<()>> {
                spawn(name, body)
            }
        }
    };
}

device! {
    after the configuration {
        chooser: FaultSelector = FaultSelector::new,
        executor: Executor = Executor::new,
        sanitizer: Sanitizer = Sanitizer::new,
    }
    empty at first {
        begun: ActiveCount,
        dispatches: Dispatches,
        engines: Engines,
        events: Events,
        findings: Findings,
        handlers: Handlers,
        images: Images,
        kernels: InKernels,
        loaded: Loaded,
        memory: Memory,
        notifiers: Notifiers,
        order: Order,
        queues: Queues,
        shared: Shared,
        signals: Signals,
        system: System,
        transfers: Transfers,
        virtual_memory: VirtualMemory,
    }
}

thread_local! {
    /// Device that this thread has entered. The variable cannot be a part of a device, because it selects the device.
    static ENTERED: Cell<Option<&'static Device>> = const { Cell::new(None) };
}

/// True once any thread has entered a device. Until then, threads do not look up their own device, because the look-up
/// takes several nanoseconds in a shared library.
static ANY: AtomicBool = AtomicBool::new(false);

fn entered() -> Option<&'static Device> {
    // This function is not inlined, because the compiler would otherwise look up the thread's variable before it checks
    // the flag.
    #[cold]
    #[inline(never)]
    fn of_this_thread() -> Option<&'static Device> {
        ENTERED.get()
    }
    // A thread sets the flag when it enters a device. Therefore a thread that has entered a device finds the flag set.
    if ANY.load(Ordering::Relaxed) { of_this_thread() } else { None }
}

/// Returns the device that this thread has entered. A thread that has not entered a device uses the device of the
/// process.
fn current() -> &'static Device {
    // Device of the process. A C library has one device for all its callers.
    static OWN: OnceLock<Device> = OnceLock::new();
    let own = || OWN.get_or_init(|| Device::new(Configuration::of_environment()));
    entered().unwrap_or_else(own)
}

/// Starts a thread that belongs to the same device as the calling thread.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let device = entered();
    thread::Builder::new().name(name.into()).spawn(move || {
        let _entered = device.map(Device::enter);
        body();
    })
}

/// Guard that makes the current thread belong to a device for as long as the guard lives. The guard contains the
/// previous device of the thread, and cannot move to another thread.
pub(crate) struct EnteredDevice(Option<&'static Device>, PhantomData<*const ()>);

impl Device {
    pub(crate) fn enter(&'static self) -> EnteredDevice {
        ANY.store(true, Ordering::Relaxed);
        EnteredDevice(ENTERED.replace(Some(self)), PhantomData)
    }
}

impl Drop for EnteredDevice {
    fn drop(&mut self) {
        ENTERED.set(self.0);
    }
}

#[cfg(test)]
mod tests;

//! The device as a whole: all its state in one value, and to which device a thread belongs.

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
    events::Events, faults::Chooser, findings::Findings, images::Images, ipc::Shared,
    loader::Loaded, memory::Memory, order::Order, packets::InKernels, part::Part, queue::Queues,
    rest::Begun, sanitizer::Sanitizer, schedule::Executor, signal::Signals, system::System,
    system_events::Handlers, transfer::Transfers, vmem::VirtualMemory,
};

/// Declares what a device has, and by which each module finds what is its own.
macro_rules! device {
    (
        after the configuration { $($made:ident: $made_kind:ty = $new:expr,)* }
        empty at first { $($empty:ident: $empty_kind:ty,)* }
    ) => {
        /// An emulated device, with its configuration.
        pub(crate) struct Device {
            configuration: Configuration,
            $($made: $made_kind,)*
            $($empty: $empty_kind,)*
        }

        impl Device {
            /// A device that nobody has used yet.
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
        impl Part for $kind {
            fn here() -> &'static Self {
                &here().$part
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
        chooser: Chooser = Chooser::new,
        executor: Executor = Executor::new,
        sanitizer: Sanitizer = Sanitizer::new,
    }
    empty at first {
        begun: Begun,
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
    /// The device that this thread has entered. It is what finds the device, so it is no part of one.
    static ENTERED: Cell<Option<&'static Device>> = const { Cell::new(None) };
}

/// Whether any thread has ever entered a device. While none has nobody asks for its own, which takes several
/// nanoseconds in a library.
static ANY: AtomicBool = AtomicBool::new(false);

/// The device that this thread has entered.
fn entered() -> Option<&'static Device> {
    // Not in one piece with what follows: the compiler would look the thread up before it is known whether it must.
    #[cold]
    #[inline(never)]
    fn of_this_thread() -> Option<&'static Device> {
        ENTERED.get()
    }
    // A thread that has entered one has itself said so before.
    if ANY.load(Ordering::Relaxed) { of_this_thread() } else { None }
}

/// The device of this thread: the one that it has entered, or the process's own.
fn here() -> &'static Device {
    // A library of C has one device for everybody who calls it.
    static OWN: OnceLock<Device> = OnceLock::new();
    let own = || OWN.get_or_init(|| Device::new(Configuration::of_environment()));
    entered().unwrap_or_else(own)
}

/// Starts a thread of the device of this one.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let device = entered();
    thread::Builder::new().name(name.into()).spawn(move || {
        let _entered = device.map(Device::enter);
        body();
    })
}

/// For as long as it lives, its thread belongs to a device. It holds what the thread belonged to before, and does
/// not leave it.
pub(crate) struct Entered(Option<&'static Device>, PhantomData<*const ()>);

impl Device {
    pub(crate) fn enter(&'static self) -> Entered {
        ANY.store(true, Ordering::Relaxed);
        Entered(ENTERED.replace(Some(self)), PhantomData)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.0);
    }
}

#[cfg(test)]
mod tests;

//! Makes worker events from what the emulated device reported about a program.

use device::{Mapped, Witness};
use plan::{Event, LoadedLibrary};

/// Converts the emulated device's reports about a program to the events that a worker would send: the loaded libraries
/// and the device. The record of a program case contains these events. Returns an empty list if no process of the
/// program used the device.
pub fn device_events(witnesses: &[Witness]) -> Vec<Event> {
    let Some(first) = witnesses.iter().find(|witness| witness.reached) else { return Vec::new() };
    // The last report of a process names the libraries that it loaded later.
    let of_process = witnesses.iter().filter(|witness| witness.pid == first.pid);
    let mut libraries: Vec<LoadedLibrary> = Vec::new();
    for Mapped { name, path, build_id } in of_process.flat_map(|witness| &witness.libraries) {
        if libraries.iter().all(|library| library.path != *path) {
            let (name, path, build_id) = (name.clone(), path.clone(), build_id.clone());
            libraries.push(LoadedLibrary { name, path, build_id });
        }
    }
    let config = &first.identity.config;
    vec![
        Event::Loaded { libraries },
        Event::Device {
            hip_runtime: 0,
            count: i32::try_from(config.devices).unwrap_or(i32::MAX),
            name: String::new(),
            gfx: config.arch.name().to_owned(),
            memory: config.memory,
            bdf: String::new(),
            nodes: Vec::new(),
            refused: None,
            emulated: Some(first.identity.clone()),
        },
    ]
}

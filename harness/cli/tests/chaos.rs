//! Runs the command with faulty libraries, launchers, limits, disks, signals, cases and archives. The crate
//! `harness/chaos` contains the table of these faults; `cargo run -p ci -- chaos` runs the long form.

fn main() -> std::process::ExitCode {
    chaos::main(env!("CARGO_BIN_EXE_rocrepro").into())
}
